package clientnet

import (
	"net/netip"
	"slices"
)

// Network is the one form of a network, such as 203.0.113.0/24 or 2001:db8::/32: the
// address's other bits are zero, and a single address is a network of one. False if text is
// none, also for IPv4 networks in the form of IPv6: which of the two a client's address
// would be compared with is nobody's guess.
func Network(text string) (string, bool) {
	p, ok := network(text)
	if !ok {
		return text, false
	}
	return p.String(), true
}

func network(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
		a = a.Unmap()
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	return p.Masked(), err == nil && !p.Addr().Is4In6()
}

// Networks are those that something is limited to. The zero value is no limit.
type Networks struct {
	limited bool
	list    []netip.Prefix
}

// NetworksOf reads a limit; no text at all is none. What cannot be read admits nobody.
func NetworksOf(texts []string) Networks {
	n := Networks{limited: len(texts) > 0}
	for _, text := range texts {
		if p, ok := network(text); ok {
			n.list = append(n.list, p)
		}
	}
	return n
}

// Limited reports whether there is a limit.
func (n Networks) Limited() bool { return n.limited }

// Has reports whether a client's address, with or without a port, is inside the limit.
func (n Networks) Has(addr string) bool {
	if !n.limited {
		return true
	}
	a, ok := parse(addr)
	return ok && slices.ContainsFunc(n.list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Covers reports whether all addresses of a narrower limit are inside this one.
func (n Networks) Covers(narrower Networks) bool {
	if !n.limited {
		return true
	}
	return narrower.limited && !slices.ContainsFunc(narrower.list, func(in netip.Prefix) bool {
		return !slices.ContainsFunc(n.list, func(p netip.Prefix) bool { return p.Bits() <= in.Bits() && p.Contains(in.Addr()) })
	})
}
