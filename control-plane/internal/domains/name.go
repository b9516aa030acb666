package domains

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
)

const (
	// nameMax leaves room for the name of the TXT record in the 253 characters of a name.
	nameMax = 253 - len(txtLabel) - 1
	// addressMax is more than an address can have.
	addressMax = 1000
)

// unresolvable are names that the DNS of everybody does not have (RFC 6761 and others).
var unresolvable = []string{"localhost", "local", "onion", "invalid", "alt", "arpa"}

// profile maps a name as browsers do before they look it up. What looks like another name
// in other letters is another name: it has another form in ASCII, which is the one we show.
func profile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.VerifyDNSLength(true))
}

// normal is the one form in which a name is stored and compared: lower case, in ASCII, no
// dot at the end.
func normal(text string) (string, error) {
	text = strings.TrimSpace(text)
	for _, dot := range []string{".", "。", "．", "｡"} { // As IDNA has them.
		if rest, ok := strings.CutSuffix(text, dot); ok {
			text = rest
			break
		}
	}
	if text == "" || len(text) > addressMax {
		return "", errors.New("enter a domain, such as example.com")
	}
	name, err := profile().ToASCII(text)
	if err == nil { // What is mapped to something that can't be looked up is no name either.
		var again string
		if again, err = profile().ToASCII(name); again != name {
			err = errors.New("not stable")
		}
	}
	if err != nil || strings.HasSuffix(name, ".") { // Two dots at the end.
		return "", errors.New("isn't a domain name; it should look like example.com")
	}
	return name, nil
}

// ParseName gives the normal form of a domain that people can have addresses in, and that
// somebody can be the owner of. Its errors are for people.
func ParseName(text string) (string, error) {
	switch {
	case strings.Contains(text, "@"):
		return "", errors.New("enter the domain alone, without the part before the @")
	case strings.Contains(text, "/"):
		return "", errors.New("enter the domain alone, such as example.com, without https:// or a path")
	}
	if _, err := netip.ParseAddr(strings.Trim(strings.TrimSpace(text), "[]")); err == nil {
		return "", errors.New("is an IP address; enter a domain, such as example.com")
	}
	name, err := normal(text)
	if err != nil {
		return "", err
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch suffix, _ := publicsuffix.PublicSuffix(name); {
	case slices.Contains(unresolvable, last):
		return "", fmt.Errorf("ends in %s, which isn't in the public DNS", last)
	case last == name:
		return "", errors.New("has no dot; enter a whole domain, such as example.com")
	case len(name) > nameMax:
		return "", fmt.Errorf("can't have more than %d characters", nameMax)
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return "", errors.New("is an IP address; enter a domain, such as example.com")
	case suffix == name:
		return "", fmt.Errorf("is a public suffix: anyone can register names under %s; enter your own domain", name)
	}
	return name, nil
}

// ofAddress is the domain of an address: what follows the last @, whatever is before it.
// None if that is no name.
func ofAddress(address string) (string, bool) {
	at := strings.LastIndexByte(address, '@')
	if at < 0 || len(address) > addressMax {
		return "", false
	}
	name, err := normal(address[at+1:])
	return name, err == nil
}

// Outside tells which addresses lie outside the verified domains of a tenant. While it has
// none, none does: it has not said what is its own.
func Outside(ctx context.Context, tx *store.Tx, tenantID string) (func(address string) bool, error) {
	all, err := tx.ListDomains(ctx, tenantID)
	all = slices.DeleteFunc(all, func(d store.Domain) bool { return d.VerifiedAt.IsZero() })
	return func(address string) bool {
		name, _ := ofAddress(address)
		return len(all) > 0 && !slices.ContainsFunc(all, func(d store.Domain) bool { return d.Name == name })
	}, err
}

// own are the names of this service, which are nobody else's to claim, nor what is under them.
func own(u urls.URLs) (names []string) {
	const tenant = "tenant"
	for _, address := range []string{u.Public, u.Tenant(tenant)} {
		if parsed, err := url.Parse(address); err == nil {
			names = append(names, strings.TrimPrefix(strings.ToLower(parsed.Hostname()), tenant+"."))
		}
	}
	return names
}

func isOwn(u urls.URLs, name string) bool {
	return slices.ContainsFunc(own(u), func(ours string) bool { return name == ours || strings.HasSuffix(name, "."+ours) })
}
