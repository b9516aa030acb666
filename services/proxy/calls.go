package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	sweepEvery = 500 * time.Millisecond
	// stuckAfter is how long a client may read nothing of its answer, or take to
	// send a unary body.
	stuckAfter = 30 * time.Second
)

var longAgo = time.Unix(1, 0)

// call is one request under way.
type call struct {
	caller *caller // nil without a key.
	// network is where a caller without a key is.
	network string
	cancel  context.CancelCauseFunc
	rc      *http.ResponseController
	// stream is set for calls that last as long as the client likes.
	stream atomic.Bool
	// waits is set for calls that a node may park until there is a job.
	waits bool
	// counted in budgets of its tenant, as one that lasts or as one that does not, or, without
	// a key, in that of its network.
	counted, lasts bool
	began          time.Time
	meter          *meter       // Of its namespace; nil without a key.
	body           *endableBody // Of a worker stream.
	// changesNothing: the call only reads, and may be repeated.
	changesNothing bool
	// attempt is where the call is under way, if that is its shard's leader.
	attempt atomic.Pointer[attempt]
	// events is set by the handler's own goroutine when the answer is an event stream.
	events bool
	// readingSince and writingSince are Unix nanoseconds while the handler waits
	// for the client, else 0.
	readingSince atomic.Int64
	writingSince atomic.Int64
}

// calls are the requests under way, so that a change of the state or the end of the
// process reaches them.
type calls struct {
	mu sync.Mutex
	// Guarded by mu.
	open    map[*call]struct{}
	streams map[string]int // By tenant id.
	ending  bool
	took    time.Duration // Smoothed: how long a call takes that does not last.

	// brief and lasting divide all calls among tenants: streams and waiting fetches last.
	brief, lasting *fair.Budget[string]
	keyless        *fair.Budget[string] // Calls without a key, by network.
}

// callsMax calls that do not last, and streamsMax that do, are under way for tenants.
// They share them by weight; a tenant below its share always gets one, and the whole is
// never doubled (see fair.Budget).
const (
	callsMax   = 8192
	streamsMax = 8192
	// keylessMax calls are under way for callers without a key, who share them by network. A
	// client that reads nothing may make each hold an answer's 256 KiB until it counts as stuck.
	keylessMax = 256
)

func newCalls(weight func(tenant string) int64) *calls {
	return &calls{
		open: map[*call]struct{}{}, streams: map[string]int{},
		brief: fair.NewBudget(callsMax, weight), lasting: fair.NewBudget(streamsMax, weight),
		keyless: fair.NewBudget[string](keylessMax, nil),
	}
}

// enter adds a call. The next periodic recheck finds a caller that lost its rights
// between its check and this.
func (s *calls) enter(c *call, planStreams int64) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending && c.stream.Load() {
		return refuseEnding
	}
	if ref := s.count(c, planStreams); ref != nil {
		return ref
	}
	s.open[c] = struct{}{}
	return nil
}

// count takes the call out of the budgets of its tenant, or of its network.
func (s *calls) count(c *call, planStreams int64) *refusal {
	if c.caller == nil {
		if c.counted = s.keyless.Take(c.network, 1); !c.counted {
			return refuseKeyless
		}
		return nil
	}
	id := c.caller.tenant.GetId()
	c.lasts = c.stream.Load() || c.waits
	switch {
	case !c.lasts && !s.brief.Take(id, 1):
		return refuseCalls(s.took)
	case c.lasts && planStreams > 0 && int64(s.streams[id]) >= planStreams:
		return refuseStreams(planStreams)
	case c.lasts && !s.lasting.Take(id, 1):
		return refuseBusy
	}
	if c.lasts {
		s.streams[id]++
	}
	c.counted, c.began = true, time.Now()
	if c.meter != nil && c.lasts {
		c.meter.opens()
	}
	return nil
}

func (s *calls) leave(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if !c.counted {
		return
	}
	if c.caller == nil {
		s.keyless.Give(c.network, 1)
		return
	}
	id := c.caller.tenant.GetId()
	if !c.lasts {
		s.brief.Give(id, 1)
		s.took += (time.Since(c.began) - s.took) / 64
		return
	}
	if c.meter != nil {
		c.meter.closes()
	}
	s.lasting.Give(id, 1)
	if s.streams[id]--; s.streams[id] == 0 {
		delete(s.streams, id)
	}
}

// any reports whether a call is under way.
func (s *calls) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

// recheck ends the calls of callers that lost their rights. Callers whose records
// are known to be the same in before and snap are skipped.
func (s *calls) recheck(before, snap *snapshot, what touched, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		switch {
		case c.caller == nil:
		case c.caller.checked == before && !what.touches(c.caller):
			c.caller.checked = snap
		case !snap.stillAllowed(c.caller, now):
			c.cancel(c.caller.whyNot(now))
		}
	}
}

// inUse notes the use of the keys of all calls under way: a stream may last for months.
func (s *calls) inUse(u *uses, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.caller != nil {
			u.note(c.caller.use, now)
		}
	}
}

// whyNot is why a caller that was let in is not any more.
func (c *caller) whyNot(now time.Time) *refusal {
	switch {
	case c.user != nil && c.expired(now):
		return refuseTokenExpired
	case c.user != nil:
		return refuseWithdrawn
	case c.expired(now):
		return refuseExpired
	default:
		return refuseChanged
	}
}

// touched is what a change of the state may affect.
type touched struct {
	all     bool
	keys    map[string]bool
	tenants map[string]bool
	// users is set by token keys and cutoffs: they are rare and affect every user's calls.
	users bool
}

func touchedBy(msg *cellv1.WatchResponse) touched {
	t := touched{all: msg.GetState() != nil, keys: map[string]bool{}, tenants: map[string]bool{}}
	for _, c := range msg.GetChanges() {
		switch v := c.GetChange().(type) {
		case *cellv1.Change_Key:
			t.keys[v.Key.GetId()] = true
		case *cellv1.Change_Tenant:
			t.tenants[v.Tenant.GetId()] = true
		case *cellv1.Change_Namespace:
			t.tenants[v.Namespace.GetTenantId()] = true
		case *cellv1.Change_TokenKey, *cellv1.Change_UserCutoff:
			t.users = true
		case *cellv1.Change_Forget:
			for _, g := range v.Forget.GetGone() {
				t.keys[g.GetId()], t.tenants[g.GetId()] = true, true
			}
		}
	}
	return t
}

func (t touched) touches(c *caller) bool {
	return t.all || t.tenants[c.tenant.GetId()] || t.keys[c.key.GetId()] || t.users && c.user != nil
}

// sweep ends the calls of clients that neither take nor send anything.
func (s *calls) sweep(now time.Time) {
	limit := now.Add(-stuckAfter).UnixNano()
	stuck := func(since *atomic.Int64) bool { at := since.Load(); return at != 0 && at < limit }
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		// A deadline in the past frees a handler that is blocked in the client's
		// flow control, which cancelling alone does not. Without support for
		// deadlines there is nothing to free.
		if stuck(&c.writingSince) {
			_ = c.rc.SetWriteDeadline(longAgo)
			c.cancel(errors.New("the client takes nothing"))
		}
		if stuck(&c.readingSince) {
			_ = c.rc.SetReadDeadline(longAgo)
		}
	}
}

// endStreams ends every stream in order: a worker stream by closing its sending
// side, so that the node answers what it has and ends it, any other at once.
func (s *calls) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.open {
		switch {
		case c.body != nil:
			c.body.end()
		case c.stream.Load():
			c.cancel(refuseEnding)
		}
	}
}

// endAll ends whatever is left.
func (s *calls) endAll(onlyStreams bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if !onlyStreams || c.stream.Load() {
			c.cancel(refuseEnding)
		}
	}
}

// waitEmpty waits for every call to leave, at most limit.
func (s *calls) waitEmpty(limit time.Duration) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if !s.any() {
			return
		}
	}
}

// endableBody is a request body that others than its reader may end: the reader
// then sees a normal end.
type endableBody struct {
	body  io.ReadCloser
	ended atomic.Bool
	close sync.Once // Only one goroutine may close the server's own body.
	err   error     // Of close; written inside it.
}

// Read implements io.Reader.
func (b *endableBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && b.ended.Load() {
		return n, io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (b *endableBody) Close() error {
	b.close.Do(func() { b.err = b.body.Close() })
	return b.err
}

func (b *endableBody) end() {
	b.ended.Store(true)
	_ = b.Close() // Wakes the reader, who reports.
}

// guardedWriter notes while a write waits for the client.
type guardedWriter struct {
	http.ResponseWriter
	call *call
	now  func() time.Time
	tail [2]byte  // The last bytes written.
	at   envelope // Where in a message of an RPC they are.
	cut  bool     // A write failed.
}

// Write implements io.Writer.
func (g *guardedWriter) Write(p []byte) (int, error) {
	at := g.now()
	g.call.writingSince.Store(at.UnixNano())
	defer g.call.writingSince.Store(0)
	n, err := g.ResponseWriter.Write(p)
	g.call.meter.wrote(n, at)
	for _, b := range p[max(0, n-len(g.tail)):n] {
		g.tail[0], g.tail[1] = g.tail[1], b
	}
	g.at.wrote(p[:n])
	g.cut = g.cut || err != nil
	return n, err
}

// FlushError is what http.ResponseController calls.
func (g *guardedWriter) FlushError() error {
	g.call.writingSince.Store(g.now().UnixNano())
	defer g.call.writingSince.Store(0)
	return g.call.rc.Flush()
}

// Unwrap is for http.ResponseController.
func (g *guardedWriter) Unwrap() http.ResponseWriter { return g.ResponseWriter }
