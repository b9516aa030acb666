package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Grant is a set of permissions and where it holds.
type Grant struct {
	Permissions Set
	// Namespaces are the ids of namespaces; none is the whole tenant.
	Namespaces []string
	// Queues are patterns of queues in these namespaces; none is all of them.
	Queues []string
}

// Grants is all that somebody may do.
type Grants []Grant

// QueueMax is the longest pattern of queues, in bytes: a queue's name.
const QueueMax = 128

// CheckPattern says what is wrong with a pattern of queues.
func CheckPattern(pattern string) error {
	name := strings.TrimSuffix(pattern, "*")
	switch {
	case pattern == "":
		return fmt.Errorf("is empty; use * for all queues")
	case len(pattern) > QueueMax:
		return fmt.Errorf("is longer than %d characters", QueueMax)
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("must be a queue's name (letters, digits, . _ -, beginning with a letter or digit), which may end in *")
		}
	}
	return nil
}

// matches reports whether a pattern matches a queue.
func matches(pattern, queue string) bool {
	if n := len(pattern) - 1; n >= 0 && pattern[n] == '*' {
		return len(queue) >= n && queue[:n] == pattern[:n]
	}
	return pattern == queue
}

// covers reports whether pattern matches all that other matches.
func covers(pattern, other string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	otherPrefix, _ := strings.CutSuffix(other, "*")
	return pattern == other || wild && strings.HasPrefix(otherPrefix, prefix)
}

// Anywhere reports whether p is held at some place.
func (g Grants) Anywhere(p Permission) bool {
	return slices.ContainsFunc(g, func(o Grant) bool { return o.Permissions.Has(p) })
}

// Tenant reports whether p is held in the whole tenant.
func (g Grants) Tenant(p Permission) bool { return g.tenant().Has(p) }

func (g Grants) tenant() (s Set) {
	for i := range g {
		if len(g[i].Namespaces) == 0 && len(g[i].Queues) == 0 {
			s = s.Or(g[i].Permissions)
		}
	}
	return s
}

// Namespace reports whether p is held in all of a namespace.
func (g Grants) Namespace(p Permission, namespaceID string) bool {
	for i := range g {
		if g[i].Permissions.Has(p) && len(g[i].Queues) == 0 && g[i].in(namespaceID) {
			return true
		}
	}
	return false
}

func (g *Grant) in(namespaceID string) bool {
	return len(g.Namespaces) == 0 || slices.Contains(g.Namespaces, namespaceID)
}

// At is what is left of the grants in one namespace. What is of the tenant's level is no
// question there.
func (g Grants) At(namespaceID string) (h Here) {
	level := OfLevel(OfNamespace)
	for i := range g {
		set := g[i].Permissions.And(level)
		if set.Empty() || !g[i].in(namespaceID) {
			continue
		}
		if len(g[i].Queues) == 0 {
			h.All = h.All.Or(set)
			continue
		}
		if set = set.And(OfLevel(OfQueue)); !set.Empty() {
			h.Some = append(h.Some, InQueues{set, g[i].Queues})
		}
	}
	return h
}

// Here is what somebody may do in one namespace.
type Here struct {
	// All holds in every queue and for the namespace itself.
	All Set
	// Some hold in some queues alone.
	Some []InQueues
}

// InQueues is a set that holds in the queues of its patterns.
type InQueues struct {
	Permissions Set
	Queues      []string
}

// None reports whether nothing is allowed here.
func (h *Here) None() bool { return h.All.Empty() && len(h.Some) == 0 }

// Everywhere reports whether p is held in the whole namespace.
func (h *Here) Everywhere(p Permission) bool { return h.All.Has(p) }

// Somewhere reports whether p is held in a queue at least.
func (h *Here) Somewhere(p Permission) bool {
	if h.All.Has(p) {
		return true
	}
	for i := range h.Some {
		if h.Some[i].Permissions.Has(p) {
			return true
		}
	}
	return false
}

// Queue reports whether p is held in a queue.
func (h *Here) Queue(p Permission, queue string) bool {
	if h.All.Has(p) {
		return true
	}
	for i := range h.Some {
		if !h.Some[i].Permissions.Has(p) {
			continue
		}
		for _, pattern := range h.Some[i].Queues {
			if matches(pattern, queue) {
				return true
			}
		}
	}
	return false
}

// Covers reports whether somebody who holds g holds all of other, too: who grants other
// needs that. Every place of other is looked at by itself, so that several grants may
// cover it together.
func (g Grants) Covers(other Grants) bool { return len(g.Beyond(other)) == 0 }

// Beyond is the part of other that g does not cover.
func (g Grants) Beyond(other Grants) (out Grants) {
	for _, o := range other {
		for _, place := range o.Places() {
			if left := o.Permissions.Without(g.over(place)); !left.Empty() {
				out = append(out, place.grant(left))
			}
		}
	}
	return out.Compact()
}

// Place is one namespace or all (empty), and one pattern of queues or all (empty).
type Place struct{ Namespace, Queues string }

// Places are the places of the grant: each namespace with each pattern of queues.
func (o Grant) Places() (out []Place) {
	for _, n := range orAll(o.Namespaces) {
		for _, q := range orAll(o.Queues) {
			out = append(out, Place{n, q})
		}
	}
	return out
}

func orAll(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

func (p Place) grant(s Set) Grant {
	g := Grant{Permissions: s}
	if p.Namespace != "" {
		g.Namespaces = []string{p.Namespace}
	}
	if p.Queues != "" {
		g.Queues = []string{p.Queues}
	}
	return g
}

// over is what g holds over a whole place.
func (g Grants) over(p Place) (s Set) {
	for _, o := range g {
		if p.Namespace == "" && len(o.Namespaces) > 0 || p.Namespace != "" && !o.in(p.Namespace) {
			continue
		}
		if len(o.Queues) > 0 && (p.Queues == "" || !slices.ContainsFunc(o.Queues, func(mine string) bool { return covers(mine, p.Queues) })) {
			continue
		}
		s = s.Or(o.Permissions)
	}
	return s
}

// Narrow is what g and limit both allow: never more than either.
func (g Grants) Narrow(limit Grant) (out Grants) {
	for _, o := range g {
		n := Grant{Permissions: o.Permissions.And(limit.Permissions)}
		var namespaces, queues bool
		n.Namespaces, namespaces = both(o.Namespaces, limit.Namespaces, func(a, b string) string {
			if a == b {
				return a
			}
			return ""
		})
		n.Queues, queues = both(o.Queues, limit.Queues, narrower)
		if len(n.Queues) > 0 {
			n.Permissions = n.Permissions.And(OfLevel(OfQueue))
		} else if len(n.Namespaces) > 0 {
			n.Permissions = n.Permissions.And(OfLevel(OfNamespace))
		}
		if namespaces && queues && !n.Permissions.Empty() {
			out = append(out, n)
		}
	}
	return out.Compact()
}

// narrower is the pattern of what both match; empty if that is nothing.
func narrower(a, b string) string {
	switch {
	case covers(a, b):
		return b
	case covers(b, a):
		return a
	}
	return ""
}

// both is what is in two lists of which none is all; some reports that it isn't empty.
func both(a, b []string, meet func(a, b string) string) (out []string, some bool) {
	if len(a) == 0 || len(b) == 0 {
		return slices.Clone(append(slices.Clone(a), b...)), true
	}
	for _, x := range a {
		for _, y := range b {
			if m := meet(x, y); m != "" && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out, len(out) > 0
}

// Compact puts grants of one place together and into an order of their own, so that the
// same rights have one form.
func (g Grants) Compact() Grants {
	var out Grants
	for _, o := range g {
		n := Grant{o.Permissions, sorted(o.Namespaces), sorted(o.Queues)}
		if n.Permissions.Empty() {
			continue
		}
		i := slices.IndexFunc(out, func(e Grant) bool {
			return slices.Equal(e.Namespaces, n.Namespaces) && slices.Equal(e.Queues, n.Queues)
		})
		if i < 0 {
			out = append(out, n)
			continue
		}
		out[i].Permissions = out[i].Permissions.Or(n.Permissions)
	}
	slices.SortFunc(out, func(a, b Grant) int {
		return cmp.Or(slices.Compare(a.Namespaces, b.Namespaces), slices.Compare(a.Queues, b.Queues))
	})
	return out
}

func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
