package domains

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	txtLabel  = "_corvo-challenge"
	txtPrefix = "corvo-domain-verification="

	lookupMax = 10 * time.Second
	// recordsMax of an answer are looked at. A name that is made for us has one.
	recordsMax = 100
)

// TXTName is where the record of a domain is.
func TXTName(name string) string { return txtLabel + "." + name }

// TXTValue is what the record of a claim says.
func TXTValue(token string) string { return txtPrefix + token }

// Resolver asks DNS; *net.Resolver is one.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// NewResolver asks the DNS server at an address, HOST or HOST:PORT; the system's if it is
// empty.
func NewResolver(address string) (Resolver, error) {
	if address == "" {
		return &net.Resolver{PreferGo: true}, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "53")
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("DNS server %q: use HOST or HOST:PORT", address)
	}
	var d net.Dialer
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}}, nil
}

// records are the values of TXT records; none if DNS says that there are none. An error is
// no answer: it proves nothing either way.
type records []string

func (s *Service) look(ctx context.Context, name string) (records, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupMax)
	defer cancel()
	// The dot at the end: the search list of this machine is not for names of customers.
	all, err := s.resolver.LookupTXT(ctx, TXTName(name)+".")
	var said *net.DNSError
	if errors.As(err, &said) && said.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", TXTName(name), err)
	}
	return records(all[:min(len(all), recordsMax)]), nil
}

// prove reports whether the record of a claim is there. Quotes are what some forms for DNS
// records make part of the value.
func (r records) prove(v store.Domain) bool {
	return slices.ContainsFunc(r, func(value string) bool { return strings.Trim(value, "\" \t") == TXTValue(v.Token) })
}

// missing says for people why the record of a claim does not count.
func (r records) missing(v store.Domain) string {
	switch {
	case len(r) == 0:
		return fmt.Sprintf("there is no TXT record at %s", TXTName(v.Name))
	case slices.ContainsFunc(r, func(value string) bool { return strings.Contains(value, txtPrefix) }):
		return fmt.Sprintf("the TXT record at %s has another value; each claim has a new one", TXTName(v.Name))
	}
	return fmt.Sprintf("no TXT record at %s has the value", TXTName(v.Name))
}
