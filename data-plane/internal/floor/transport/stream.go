package transport

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// laneSeparator joins a node id and a lane in the addresses the library passes
// to Dial. The library keeps idle connections per address, so this alone gives
// each lane its own pool. Node ids contain no zero byte.
const laneSeparator = "\x00"

const snapshotMark = laneSeparator + "snapshot"

// snapshotAddress is the address of a node's snapshot lane.
func snapshotAddress(node raft.ServerAddress) raft.ServerAddress { return node + snapshotMark }

// stream is the raft.StreamLayer of one group: its share of the node's listener.
type stream struct {
	mux   *Mux
	group uint32

	accepted chan net.Conn // Never closed; done ends its use.
	done     chan struct{} // Closed by Close.

	mu    sync.Mutex         // Guards conns and the closing of done.
	conns map[*conn]struct{} // Both directions, so that Close can end them all.
}

var _ raft.StreamLayer = (*stream)(nil)

func newStream(m *Mux, group uint32) *stream {
	return &stream{
		mux:      m,
		group:    group,
		accepted: make(chan net.Conn),
		done:     make(chan struct{}),
		conns:    map[*conn]struct{}{},
	}
}

// deliver gives an admitted connection to the library's accept loop.
func (s *stream) deliver(raw net.Conn, h hello) {
	c, ok := s.track(raw)
	if !ok {
		return
	}
	if h.lane == laneSnapshot {
		c.readStall = s.mux.opts.SnapshotStall
	} else {
		c.requestMax = s.mux.opts.requestBytesMax
	}
	select {
	case s.accepted <- c:
	case <-s.done:
		_ = c.Close()
	}
}

func (s *stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	node, snapshot := strings.CutSuffix(string(address), snapshotMark)
	l := laneRPC
	if snapshot {
		l = laneSnapshot
	}
	raw, err := s.mux.dial(s.group, node, l, timeout)
	if err != nil {
		return nil, err
	}
	c, ok := s.track(raw)
	if !ok {
		return nil, ErrClosed
	}
	if snapshot {
		c.writeStall = s.mux.opts.SnapshotStall
	}
	return c, nil
}

// Addr is the node id: what raft calls the address of a server.
func (s *stream) Addr() net.Addr { return nodeAddr(s.mux.opts.NodeID) }

// Close ends every connection of the group. The library's own Close leaves
// those it accepted waiting for bytes that never come.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	default:
	}
	close(s.done)
	for c := range s.conns {
		_ = c.Conn.Close()
	}
	s.conns = nil
	return nil
}

func (s *stream) track(raw net.Conn) (*conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		_ = raw.Close()
		return nil, false
	default:
	}
	c := &conn{Conn: raw, stream: s}
	s.conns[c] = struct{}{}
	return c, true
}

func (s *stream) untrack(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// errTooLarge ends a connection whose request exceeds requestMax.
var errTooLarge = errors.New("a request is larger than any that a node of the cell sends")

// conn is one connection of a group. A stall, if not zero, is the longest that a single Read
// or Write may take; it replaces the deadline of that direction, but a Write also ends at
// the deadline of the whole request. requestMax, if not zero, bounds what is read between
// two answers: the library decodes requests of any size. On such a connection one goroutine
// reads and writes.
type conn struct {
	net.Conn
	stream                *stream
	readStall, writeStall time.Duration // Set before first use, like requestMax.
	until                 time.Time     // The whole request's deadline, where writeStall is set; used by its one sender.
	requestMax, request   int64         // Bytes allowed, and read since the last answer.
}

// SetDeadline is how the library limits a whole request.
func (c *conn) SetDeadline(t time.Time) error {
	if c.writeStall > 0 {
		c.until = t
	}
	return c.Conn.SetDeadline(t)
}

func (c *conn) Read(p []byte) (int, error) {
	if c.readStall > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.readStall)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if c.requestMax == 0 {
		return n, err
	}
	if c.request += int64(n); c.request > c.requestMax {
		c.stream.mux.tooLarge.Add(1)
		return 0, errTooLarge
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.requestMax > 0 {
		c.request = 0
	}
	if c.writeStall > 0 {
		limit := time.Now().Add(c.writeStall)
		if !c.until.IsZero() && c.until.Before(limit) {
			limit = c.until
		}
		if err := c.SetWriteDeadline(limit); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.stream.untrack(c)
	return c.Conn.Close()
}

type nodeAddr string

func (nodeAddr) Network() string  { return "raft" }
func (a nodeAddr) String() string { return string(a) }
