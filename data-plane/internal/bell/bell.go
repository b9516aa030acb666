// Package bell tells readers that a namespace has new events, so that nobody polls
// and nobody who applies entries waits for a reader.
//
// It must not know events: what a reader finds is in the feed. Surprising: a ring
// that nobody hears is lost, and that is right, because a reader looks once more
// after it began to listen.
package bell

import (
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// Bell rings for namespaces. Ringing never blocks and costs next to nothing while
// nobody listens.
type Bell struct {
	any chan struct{}

	mu     sync.RWMutex // Guards chains.
	chains map[job.Namespace]map[*Listener]struct{}
}

// Listener hears of one namespace. C is never closed.
type Listener struct {
	C    <-chan struct{}
	c    chan struct{}
	bell *Bell
	ns   job.Namespace
}

// New makes a bell without listeners.
func New() *Bell {
	return &Bell{any: make(chan struct{}, 1), chains: make(map[job.Namespace]map[*Listener]struct{})}
}

// Ring tells that a namespace has new events, which are committed.
func (b *Bell) Ring(ns job.Namespace) {
	nudge(b.any)
	b.mu.RLock()
	defer b.mu.RUnlock()
	for l := range b.chains[ns] {
		nudge(l.c)
	}
}

// Any is nudged for every namespace; it has one reader.
func (b *Bell) Any() <-chan struct{} { return b.any }

// Listen begins to hear of ns; Stop ends it.
func (b *Bell) Listen(ns job.Namespace) *Listener {
	c := make(chan struct{}, 1)
	l := &Listener{C: c, c: c, bell: b, ns: ns}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chains[ns] == nil {
		b.chains[ns] = make(map[*Listener]struct{})
	}
	b.chains[ns][l] = struct{}{}
	return l
}

// Stop ends the listening.
func (l *Listener) Stop() {
	b := l.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.chains[l.ns], l)
	if len(b.chains[l.ns]) == 0 {
		delete(b.chains, l.ns)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // It will look anyway.
	}
}
