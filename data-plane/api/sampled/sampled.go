// Package sampled counts what may happen very often and is told rarely: the first of each
// kind at once, and every Window how many more there were.
//
// It must not know what is counted, nor where it is told. Surprising: beyond its bounds new
// kinds are not counted at all, so that nobody's flood costs memory, or hides what others do.
package sampled

import (
	"sync"
	"time"
)

const (
	// Window is how long more of a kind are only counted.
	Window = 10 * time.Minute
	// KindsMax bounds the memory of a Counter.
	KindsMax = 10_000
)

// Counted is how often something happened since it was last taken.
type Counted[K comparable, V any] struct {
	Owner string
	Kind  K
	First V
	Times int
	Since time.Time // Of the first.
}

// Counter counts by kind. It is safe for concurrent use.
type Counter[K comparable, V any] struct {
	now      func() time.Time
	ownerMax int
	own      func(K, V) (K, V)

	mu     sync.Mutex
	all    map[K]*counted[K, V] // Guarded by mu, as is owners.
	owners map[string]int       // Kinds of each.
}

type counted[K comparable, V any] struct {
	Counted[K, V]
	takenAt time.Time // Zero: never.
}

// New makes a Counter of at most ownerMax kinds of each owner. What it keeps, own may copy
// before: texts of a request hold the whole request. Nil keeps it as it is.
func New[K comparable, V any](now func() time.Time, ownerMax int, own func(K, V) (K, V)) *Counter[K, V] {
	if own == nil {
		own = func(k K, v V) (K, V) { return k, v }
	}
	return &Counter[K, V]{now: now, ownerMax: ownerMax, own: own, all: make(map[K]*counted[K, V]), owners: make(map[string]int)}
}

// Note counts one.
func (c *Counter[K, V]) Note(owner string, kind K, first V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[kind]
	switch {
	case one == nil:
		c.add(owner, kind, first)
	case one.Times == 0:
		_, one.First = c.own(kind, first)
		one.Times, one.Since = 1, c.now()
	default:
		one.Times++
	}
}

// add begins a kind, if there is room. Its caller holds mu.
func (c *Counter[K, V]) add(owner string, kind K, first V) {
	if len(c.all) >= KindsMax || c.owners[owner] >= c.ownerMax {
		return
	}
	kind, first = c.own(kind, first)
	c.put(Counted[K, V]{owner, kind, first, 1, c.now()})
}

func (c *Counter[K, V]) put(of Counted[K, V]) {
	c.all[of.Kind] = &counted[K, V]{Counted: of}
	c.owners[of.Owner]++
}

// Take returns what is due: the first of each kind, and after the window how many followed. A
// kind that was quiet for a window is forgotten.
func (c *Counter[K, V]) Take() (due []Counted[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for kind, one := range c.all {
		switch over := now.Sub(one.takenAt) >= Window; {
		case one.Times > 0 && over:
			due = append(due, one.Counted)
			one.Times, one.takenAt = 0, now
		case over:
			c.forget(kind, one.Owner)
		}
	}
	return due
}

func (c *Counter[K, V]) forget(kind K, owner string) {
	delete(c.all, kind)
	if c.owners[owner]--; c.owners[owner] == 0 {
		delete(c.owners, owner)
	}
}

// Back returns what could not be told: it is due at once.
func (c *Counter[K, V]) Back(of Counted[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[of.Kind]
	if one == nil {
		if len(c.all) < KindsMax {
			c.put(of)
		}
		return
	}
	of.Times += one.Times
	one.Counted, one.takenAt = of, time.Time{}
}
