package cell

import "sync"

// notifier wakes all waiters. The zero value is ready.
type notifier struct {
	mu sync.Mutex
	ch chan struct{} // Guarded by mu; closed and forgotten by fire; nil when nobody waits.
}

func (n *notifier) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *notifier) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
