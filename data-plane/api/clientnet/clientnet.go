// Package clientnet finds a client's address and scheme behind configured proxies, and how
// much of the address identifies one client. It must not know what is counted or logged.
// Surprising: what a client says of its own address never counts; a proxy is trusted
// only if its own address is configured.
package clientnet

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// unknown stands for every address that cannot be parsed: they share one bucket.
const unknown = "unknown"

// Narrow is the range of one customer of a network: an IPv4 address, the /64 of an IPv6
// one.
func Narrow(addr string) string { return prefix(addr, 32, 64) }

// Wide is a range in which one customer may have many addresses: the /24 of an IPv4
// address, the /48 of an IPv6 one, which hosters assign to one machine.
func Wide(addr string) string { return prefix(addr, 24, 48) }

func prefix(addr string, bits4, bits6 int) string {
	a, ok := parse(addr)
	if !ok {
		return unknown
	}
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	p, err := a.Prefix(bits)
	switch {
	case err != nil:
		return unknown
	case p.IsSingleIP():
		return a.String()
	}
	return p.String()
}

func parse(addr string) (netip.Addr, bool) {
	host := strings.TrimSpace(addr)
	if ap, err := netip.ParseAddrPort(host); err == nil {
		host = ap.Addr().String()
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap().WithZone(""), true
}

// Proxies are the addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are
// trusted.
type Proxies []netip.Prefix

// ParseProxies reads addresses and prefixes: 10.0.0.7, 10.1.0.0/16, 2001:db8::/48.
func ParseProxies(list []string) (Proxies, error) {
	var out Proxies
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			a = a.Unmap()
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a prefix such as 10.1.0.0/16", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (p Proxies) has(a netip.Addr) bool {
	for _, one := range p {
		if one.Contains(a) {
			return true
		}
	}
	return false
}

// hopsMax bounds how far X-Forwarded-For is read.
const hopsMax = 16

// Client is the address that a request came from: that of its connection, or, if that is
// a trusted proxy's, the last one in X-Forwarded-For that is not. The entries before it
// are the client's own claims.
func (p Proxies) Client(r *http.Request) string {
	host, a, trusted := p.peer(r)
	if !trusted {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= max(0, len(hops)-hopsMax); i-- {
		next, ok := parse(hops[i])
		if !ok {
			break
		}
		if a = next; !p.has(a) {
			break
		}
	}
	return a.String()
}

// Scheme is the one by which a request came, http or https: that of its connection, or, if
// that is a trusted proxy's, the one in X-Forwarded-Proto. Whatever else that may say is
// ignored.
func (p Proxies) Scheme(r *http.Request) string {
	if said := r.Header["X-Forwarded-Proto"]; len(said) == 1 {
		scheme := strings.ToLower(said[0])
		if _, _, trusted := p.peer(r); trusted && (scheme == "http" || scheme == "https") {
			return scheme
		}
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// peer is the address of a request's connection, as text and parsed, and whether it is a
// trusted proxy's.
func (p Proxies) peer(r *http.Request) (host string, a netip.Addr, trusted bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	a, ok := parse(host)
	return host, a, ok && p.has(a)
}
