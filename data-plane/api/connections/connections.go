package connections

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
)

const (
	// openMax is for one process: more than all calls that a proxy takes at a time, each on
	// a connection of its own. An idle one costs some 20 KiB.
	openMax = 32_768
	// strangersShare and addressShare are the parts of them that all connections without an
	// owner may be, and those of one client's address.
	strangersShare = 2
	addressShare   = 8
)

// Default is how many connections a process may hold, or three quarters of the files that it
// may have open if that is less: the rest is for its disks and peers.
func Default() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return openMax
	}
	return int(min(files.Cur/4*3, openMax))
}

// Bound holds the connections of one http.Server: Context is its ConnContext, State its
// ConnState. A connection with a request under way is never closed.
type Bound struct {
	most, strangersMax, addressMax int
	weight                         func(owner string) int64

	mu     sync.Mutex // Guards the rest.
	open   map[net.Conn]*connection
	groups map[groupKey]*group
	// strangers have no owner; waiting are those of them without a request, longest first.
	strangers int
	waiting   list.List
	closed    uint64
}

// groupKey is an owner or the address of strangers.
type groupKey struct {
	name  string
	owner bool
}

// group is what belongs together.
type group struct {
	key     groupKey
	conns   int
	waiting list.List // Longest first.
}

type connection struct {
	bound *Bound
	conn  net.Conn
	owned atomic.Bool
	// The rest is guarded by bound.mu. The elements are nil while a request is under way.
	group                 *group
	inGroup, inAllWaiting *list.Element
}

// New makes a bound of most connections. When owners have to share them, they do by weight;
// nil: they all weigh the same.
func New(most int, weight func(owner string) int64) *Bound {
	return &Bound{
		most: most, strangersMax: max(most/strangersShare, 1), addressMax: max(most/addressShare, 1), weight: weight,
		open: make(map[net.Conn]*connection), groups: make(map[groupKey]*group),
	}
}

// Counts are how many connections are open, and how many were closed for others so far.
func (b *Bound) Counts() (open int, closed uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open), b.closed
}

type contextKey struct{}

// Context adds a connection, and closes another one if there are too many. It is an
// http.Server's ConnContext.
func (b *Bound) Context(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{bound: b, conn: conn}
	b.mu.Lock()
	b.open[conn] = c
	b.strangers++
	b.join(c, groupKey{name: clientnet.Narrow(conn.RemoteAddr().String())})
	b.wait(c)
	surplus := b.surplus(c)
	if surplus != nil {
		b.remove(surplus)
		b.closed++
	}
	b.mu.Unlock()
	if surplus != nil {
		Cut(surplus.conn)
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// Cut closes a connection without a word: a TLS connection would wait to send its last one.
func Cut(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // The other side may have closed it.
}

// State notes whether a request is under way. It is an http.Server's ConnState.
func (b *Bound) State(conn net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.open[conn]
	if c == nil {
		return
	}
	switch state {
	case http.StateNew:
	case http.StateActive:
		b.unwait(c)
	case http.StateIdle:
		b.unwait(c)
		b.wait(c)
	case http.StateClosed, http.StateHijacked:
		b.remove(c)
	}
}

// Belongs says whose the connection of a request is, once that is known. The first owner
// counts: a connection that carries the requests of several is a proxy's.
func Belongs(ctx context.Context, owner string) {
	c, ok := ctx.Value(contextKey{}).(*connection)
	if !ok || c.owned.Swap(true) {
		return
	}
	b := c.bound
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[c.conn] != c {
		return
	}
	waits := c.inGroup != nil
	b.unwait(c)
	b.leave(c)
	b.strangers--
	b.join(c, groupKey{owner, true})
	if waits {
		b.wait(c)
	}
}

// surplus is the connection to close for a new one: of an address that has too many, of
// strangers if they are too many, else of the owner that has most for its weight. It is the
// new one itself if no other waits.
func (b *Bound) surplus(c *connection) *connection {
	if c.group.conns > b.addressMax {
		return first(&c.group.waiting)
	}
	// If no other stranger waits they have requests under way, and may go on to fill the rest.
	if old := first(&b.waiting); b.strangers > b.strangersMax && old != c {
		return old
	}
	if len(b.open) <= b.most {
		return nil
	}
	var from *group
	share := -1.0
	for _, g := range b.groups {
		if !g.key.owner || g.waiting.Len() == 0 {
			continue
		}
		if s := float64(g.conns) / float64(b.weightOf(g.key.name)); s > share {
			from, share = g, s
		}
	}
	if from == nil {
		return first(&b.waiting)
	}
	return first(&from.waiting)
}

func (b *Bound) weightOf(owner string) int64 {
	if b.weight == nil {
		return 1
	}
	return max(b.weight(owner), 1)
}

func first(waiting *list.List) *connection {
	c, _ := waiting.Front().Value.(*connection)
	return c
}

func (b *Bound) join(c *connection, key groupKey) {
	g := b.groups[key]
	if g == nil {
		g = &group{key: key}
		b.groups[key] = g
	}
	g.conns++
	c.group = g
}

func (b *Bound) leave(c *connection) {
	if c.group.conns--; c.group.conns == 0 {
		delete(b.groups, c.group.key)
	}
}

func (b *Bound) wait(c *connection) {
	c.inGroup = c.group.waiting.PushBack(c)
	if !c.group.key.owner {
		c.inAllWaiting = b.waiting.PushBack(c)
	}
}

func (b *Bound) unwait(c *connection) {
	if c.inGroup != nil {
		c.group.waiting.Remove(c.inGroup)
	}
	if c.inAllWaiting != nil {
		b.waiting.Remove(c.inAllWaiting)
	}
	c.inGroup, c.inAllWaiting = nil, nil
}

func (b *Bound) remove(c *connection) {
	b.unwait(c)
	b.leave(c)
	if !c.group.key.owner {
		b.strangers--
	}
	delete(b.open, c.conn)
}
