package sim

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// dialPatience is how long a dialer that hears nothing tries, as ours do over TCP.
	dialPatience = 2 * time.Second
	delayMin     = 100 * time.Microsecond
	delayMax     = time.Millisecond
)

// network is the links between hosts. A link has one direction and may be cut: what is
// sent over it then arrives when it is mended, as TCP sends again, unless the connection
// is given up before.
type network struct {
	mu        sync.Mutex // Guards the rest. It may be taken while a half's is held.
	rng       *rand.Rand
	listeners map[string]*listener // By address.
	conns     map[*conn]struct{}
	made      uint64       // Connections that there were.
	cuts      map[link]int // How many faults cut a link.
	slow      time.Duration
}

type link struct{ from, to string } // Hosts.

func newNetwork(rng *rand.Rand) *network {
	return &network{rng: rng, listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, cuts: map[link]int{}}
}

// cut cuts the links, until mend is called.
func (n *network) cut(links ...link) (mend func()) {
	n.add(links, 1)
	return func() { n.add(links, -1) }
}

func (n *network) add(links []link, by int) {
	n.mu.Lock()
	for _, l := range links {
		n.cuts[l] += by
	}
	n.mu.Unlock()
	n.wake()
}

// slowDown adds up to this much to every delay, until mend is called.
func (n *network) slowDown(by time.Duration) (mend func()) {
	add := func(by time.Duration) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.slow += by
	}
	add(by)
	return func() { add(-by) }
}

func (n *network) wake() {
	for _, c := range n.all() {
		c.in.signal()
		c.out.signal()
	}
}

// all are the ends of all connections, in the order in which these were made.
func (n *network) all() []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*conn, 0, len(n.conns))
	for c := range n.conns {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	return out
}

func (n *network) isCut(l link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[l] > 0
}

func (n *network) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return delayMin + time.Duration(n.rng.Int64N(int64(delayMax-delayMin+n.slow)))
}

// reset ends those connections of a host that lost picks, as a host does that knows nothing of them.
// It returns how many.
func (n *network) reset(ip string, lost func() bool) (count int) {
	picked := map[uint64]bool{} // By number: both ends of a connection have one fate.
	for _, c := range n.all() {
		if c.in.link.from != ip && c.in.link.to != ip {
			continue
		}
		pick, other := picked[c.number]
		if !other {
			pick = lost()
			picked[c.number] = pick
			if pick {
				count++
			}
		}
		if pick {
			c.in.break_(syscall.ECONNRESET)
			c.out.break_(syscall.ECONNRESET)
			n.forget(c)
		}
	}
	return count
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// listen takes an address, HOST:PORT.
func (n *network) listen(address string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		panic("address in use: " + address)
	}
	l := &listener{net: n, address: addr(address), accepted: make(chan net.Conn, 128), done: make(chan struct{})}
	n.listeners[address] = l
	return l
}

// dialer opens connections from a host while alive says so.
func (n *network) dialer(host string, alive func() bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		fail := func(err error) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
		}
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return fail(err)
		}
		ctx, cancel := context.WithTimeout(ctx, dialPatience)
		defer cancel()
		for {
			select {
			case <-time.After(n.delay() + n.delay()):
			case <-ctx.Done():
				return fail(os.ErrDeadlineExceeded)
			}
			if !alive() {
				return fail(syscall.ENETDOWN)
			}
			if !n.isCut(link{host, to}) && !n.isCut(link{to, host}) {
				break
			}
		}
		c, ok := n.connect(host, to, address)
		if !ok {
			return fail(syscall.ECONNREFUSED)
		}
		return c, nil
	}
}

func (n *network) connect(from, to, address string) (net.Conn, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[address]
	if l == nil {
		return nil, false
	}
	there, back := newHalf(n, link{from, to}), newHalf(n, link{to, from})
	n.made++
	near := &conn{net: n, number: n.made, in: back, out: there, local: addr(from + ":1"), remote: addr(address)}
	far := &conn{net: n, number: n.made, in: there, out: back, local: addr(address), remote: addr(from + ":1")}
	select {
	case l.accepted <- far:
	default:
		return nil, false // Its backlog is full.
	}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, true
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

type listener struct {
	net      *network
	address  addr
	accepted chan net.Conn
	done     chan struct{} // Closed by Close.
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[string(l.address)] == l {
			delete(l.net.listeners, string(l.address))
		}
		l.net.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }

// half is one direction of a connection.
type half struct {
	net  *network
	link link

	mu            sync.Mutex // Guards the rest.
	segments      []segment
	last          time.Time     // When the newest segment arrives: they stay in order.
	closed        bool          // By the writer.
	broken        error         // For both sides, at once.
	readDeadline  time.Time     // Zero: none.
	writeDeadline time.Time     // Likewise.
	changed       chan struct{} // Closed and replaced with every change.
}

// segment is bytes that arrive at a time; nil is the end.
type segment struct {
	bytes []byte
	at    time.Time
}

func newHalf(n *network, l link) *half {
	return &half{net: n, link: l, changed: make(chan struct{})}
}

func (h *half) signal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signalLocked()
}

func (h *half) signalLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) break_(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil {
		h.broken = err
	}
	h.segments = nil
	h.signalLocked()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// read waits for the next bytes.
func (h *half) read(b []byte) (int, error) {
	for {
		h.mu.Lock()
		wait := h.readDeadline
		switch {
		case passed(h.readDeadline):
			h.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case h.broken != nil:
			defer h.mu.Unlock()
			return 0, h.broken
		case len(h.segments) > 0 && !h.net.isCut(h.link):
			if at := h.segments[0].at; time.Now().Before(at) {
				if wait.IsZero() || at.Before(wait) {
					wait = at
				}
				break
			}
			defer h.mu.Unlock()
			return h.take(b)
		}
		changed := h.changed
		h.mu.Unlock()
		waitUntil(changed, wait)
	}
}

// take is called with the mutex held.
func (h *half) take(b []byte) (int, error) {
	first := &h.segments[0]
	if first.bytes == nil {
		return 0, io.EOF
	}
	n := copy(b, first.bytes)
	first.bytes = first.bytes[n:]
	if len(first.bytes) == 0 {
		h.segments = h.segments[1:]
	}
	h.signalLocked()
	return n, nil
}

// write never waits: net/http holds a mutex while it writes, others wait for that mutex,
// and time stands still in a bubble while somebody waits for a mutex.
func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.broken != nil:
		return 0, h.broken
	case h.closed:
		return 0, net.ErrClosed
	case passed(h.writeDeadline):
		return 0, os.ErrDeadlineExceeded
	}
	if len(b) > 0 {
		h.push(append([]byte(nil), b...))
	}
	return len(b), nil
}

// push is called with the mutex held.
func (h *half) push(b []byte) {
	at := time.Now().Add(h.net.delay())
	if at.Before(h.last) {
		at = h.last
	}
	h.last = at
	h.segments = append(h.segments, segment{b, at})
	h.signalLocked()
}

func (h *half) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.push(nil)
	}
}

func waitUntil(changed <-chan struct{}, at time.Time) {
	if at.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// conn is one end of a connection.
type conn struct {
	net           *network
	number        uint64 // Of the connection: both ends have it.
	in, out       *half
	local, remote addr
	once          sync.Once
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close sends what is under way and the end. What the peer sends from now on is reset.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.close()
		c.in.break_(net.ErrClosed)
	})
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.readDeadline = t
	c.in.signalLocked()
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writeDeadline = t
	c.out.signalLocked()
	return nil
}
