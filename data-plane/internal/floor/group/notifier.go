package group

import "sync"

// Notifier wakes everybody who waits. The zero value is ready.
type Notifier struct {
	mu sync.Mutex
	ch chan struct{} // Closed and forgotten by Fire; nil when nobody waits.
}

// Wait is closed by the next Fire.
func (n *Notifier) Wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// Fire wakes them.
func (n *Notifier) Fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
