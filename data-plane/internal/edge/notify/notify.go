// Package notify wakes the readers of a namespace's feed when it has new events, so that
// nobody polls and apply never waits for a reader.
//
// It must not know events: what a reader finds is in the feed. Surprising: a notification
// without a listener is lost. That is safe, because a reader reads the feed once more after
// it has started to listen.
package notify

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Hub notifies listeners per namespace. Notify never blocks and is cheap while nobody
// listens.
type Hub struct {
	any   chan struct{}
	count atomic.Uint64

	mu        sync.Mutex // Guards the rest.
	listeners map[job.Namespace]map[*Listener]struct{}
	noted     map[job.Namespace]struct{} // Since the last Take.
}

// Listener receives the notifications of one namespace. C is never closed.
type Listener struct {
	C   <-chan struct{}
	c   chan struct{}
	hub *Hub
	ns  job.Namespace
}

// New returns a Hub without listeners.
func New() *Hub {
	return &Hub{any: make(chan struct{}, 1), listeners: make(map[job.Namespace]map[*Listener]struct{}), noted: make(map[job.Namespace]struct{})}
}

// Notify says that a namespace has new committed events.
func (h *Hub) Notify(ns job.Namespace) {
	h.count.Add(1)
	h.mu.Lock()
	h.noted[ns] = struct{}{}
	for l := range h.listeners[ns] {
		wake(l.c)
	}
	h.mu.Unlock()
	wake(h.any)
}

// Count is how many notifications there were.
func (h *Hub) Count() uint64 { return h.count.Load() }

// Any receives the notifications of every namespace. It is for a single reader.
func (h *Hub) Any() <-chan struct{} { return h.any }

// Take lists the namespaces with notifications since the last call. It is for the reader
// of Any.
func (h *Hub) Take() []job.Namespace {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Collect(maps.Keys(h.noted))
	clear(h.noted)
	return list
}

// Noted lists what the next Take will, at least.
func (h *Hub) Noted() []job.Namespace {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.noted))
}

// Listen subscribes to ns; Stop ends it.
func (h *Hub) Listen(ns job.Namespace) *Listener {
	c := make(chan struct{}, 1)
	l := &Listener{C: c, c: c, hub: h, ns: ns}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[ns] == nil {
		h.listeners[ns] = make(map[*Listener]struct{})
	}
	h.listeners[ns][l] = struct{}{}
	return l
}

// Stop ends the subscription.
func (l *Listener) Stop() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners[l.ns], l)
	if len(h.listeners[l.ns]) == 0 {
		delete(h.listeners, l.ns)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // A notification is waiting already.
	}
}
