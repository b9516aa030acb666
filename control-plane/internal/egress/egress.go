package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 5 * time.Second
	callTimeout   = 10 * time.Second
	// headerBytesMax bounds what a server may say before its body.
	headerBytesMax = 32 << 10
	// bodyBytesMaxDefault is ample for a discovery document or a key set.
	bodyBytesMaxDefault = 256 << 10
	hostMax             = 253
	portHTTPS           = "443"
)

// Errors of a refused address. Their text is for the people who chose it.
var (
	ErrAddress  = errors.New("this address isn't allowed")
	ErrRedirect = errors.New("the server redirects; use the address that it redirects to")
	ErrTooLarge = errors.New("the response is too large")
)

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options of a client.
type Options struct {
	// AllowPrivate lets addresses of private networks and of this machine in, any port,
	// and plain http to this machine: for a company's own installation and for tests.
	// Link-local addresses, where clouds keep their secrets, stay out.
	AllowPrivate bool
	// Resolver is the system's unless given.
	Resolver Resolver
	// BodyBytesMax bounds an answer; 256 KiB unless given.
	BodyBytesMax int64
	// TLS is for tests with an authority of their own.
	TLS *tls.Config
}

// NewClient makes a client. It keeps no cookies and follows no proxy of the environment.
func NewClient(o Options) *http.Client {
	o.Resolver = cmp.Or[Resolver](o.Resolver, net.DefaultResolver)
	o.BodyBytesMax = cmp.Or(o.BodyBytesMax, bodyBytesMaxDefault)
	g := &guard{options: o, dialer: net.Dialer{Timeout: dialTimeout}}
	g.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            g.dial,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: headerBytesMax,
		DisableCompression:     true, // A small answer must not become a large one.
		DisableKeepAlives:      true, // A connection that stays open outlives the check of its address.
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Transport: g,
		Timeout:   callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return ErrRedirect
		},
	}
}

// CheckURL tells whether a client with these options would call an address at all, as
// far as that can be told without asking anybody. Its error is for people.
func (o Options) CheckURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Opaque != "" || host == "":
		return fmt.Errorf("%w: it has no host", ErrAddress)
	case u.User != nil:
		return fmt.Errorf("%w: it contains a user name", ErrAddress)
	case len(host) > hostMax || strings.HasSuffix(host, ".") || strings.ContainsFunc(host, notHostRune):
		return fmt.Errorf("%w: the host name can only have letters, digits, dots and hyphens, and no dot at the end (write other characters as xn--…)", ErrAddress)
	case u.Scheme == "http" && o.AllowPrivate && isThisMachine(host):
		return nil
	case u.Scheme != "https":
		return fmt.Errorf("%w: it must start with https://", ErrAddress)
	case !o.AllowPrivate && u.Port() != "" && u.Port() != portHTTPS:
		return fmt.Errorf("%w: only port 443 is allowed", ErrAddress)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return o.checkAddr(a)
	}
	return nil
}

// notHostRune: a name or an address literal, without zone.
func notHostRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == ':' || r == '_')
}

func isThisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// guard is the transport: it looks at each request before it leaves, and at each address
// before it is dialled.
type guard struct {
	options   Options
	dialer    net.Dialer
	transport *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.options.CheckURL(r.URL); err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	res, err := g.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &limited{body: res.Body, left: g.options.BodyBytesMax}
	return res, nil
}

// dial resolves once and connects to the checked address. TLS still verifies the
// name; the transport does that.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", address, err)
	}
	all, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, a := range all {
		conn, err := g.dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}

// resolve gives the addresses of a host, or refuses it if any of them is not public: a
// name with one good and one bad address is somebody's attempt.
func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, g.options.checkAddr(a)
	}
	all, err := g.options.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("look up %s: no addresses", host)
	}
	for _, a := range all {
		if err := g.options.checkAddr(a); err != nil {
			return nil, fmt.Errorf("%s: %w", host, err)
		}
	}
	return all, nil
}

// checkAddr does not name the address: whoever asks should not learn how our network
// resolves a name.
func (o Options) checkAddr(a netip.Addr) error {
	if isPublic(a) || o.AllowPrivate && isOwnNetwork(a) {
		return nil
	}
	return fmt.Errorf("%w: it isn't on the public internet", ErrAddress)
}

// isOwnNetwork: this machine and private networks, nothing stranger.
func isOwnNetwork(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate()
}

// isPublic goes by IANA's registries of special-purpose addresses (RFC 6890 and its
// updates): what is not globally reachable is out, and so is what wraps another address
// (6to4, NAT64, Teredo), whose inside could be anything.
func isPublic(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	if a.Is6() && !globalIPv6().Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}

func globalIPv6() netip.Prefix { return netip.MustParsePrefix("2000::/3") }

func special() []netip.Prefix {
	texts := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	}
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// limited fails instead of cutting off, so that half an answer is not taken for a whole
// one.
type limited struct {
	body io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// Close implements io.Closer.
func (l *limited) Close() error { return l.body.Close() }
