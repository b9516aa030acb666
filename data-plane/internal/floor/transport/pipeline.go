package transport

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// inFlightMax is how many requests of a pipeline wait for their answers: one travels
// while another is answered. pipeline counts on it.
const inFlightMax = 2

// errRejected ends a pipeline when the follower rejects a request.
var errRejected = errors.New("the follower rejected an append")

// ErrBehind ends a pipeline to a follower that does not keep up. It is normal: raft
// falls back to single requests, and pipelines again once the follower has caught up.
var ErrBehind = errors.New("the follower is too far behind for a pipeline")

// pipelines are the open ones of a group.
type pipelines struct {
	mu     sync.Mutex // Guards what follows.
	open   map[*pipeline]struct{}
	closed bool           // The group is; nothing is told any more.
	tells  sync.WaitGroup // Of what is being told.
}

// AppendEntriesPipeline opens the leader's pipeline to a peer.
func (g *Group) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if g.mux.opts.Health.Silent() {
		return nil, errUnfit
	}
	inner, err := g.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, health: g.mux.opts.Health, pause: g.mux.opts.Heartbeat / 2, all: &g.pipelines, turn: newTurn()}
	g.pipelines.add(p)
	return p, nil
}

// TellCommitted has the followers know at once that everything up to index is committed, where raft
// would wait for its next tick or for the next entry. A follower that was already sent more learns it
// with that. It does not block, and does nothing on a replica that doesn't lead: what it sent in an
// earlier term may have been replaced since, also in its own log.
func (g *Group) TellCommitted(index uint64) {
	if r := g.bound.Load(); r != nil {
		term := (*r).CurrentTerm()
		if (*r).State() == raft.Leader && (*r).CurrentTerm() == term { // So it led in that term.
			g.pipelines.tell(index, term)
		}
	}
}

func (a *pipelines) add(p *pipeline) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = make(map[*pipeline]struct{})
	}
	a.open[p] = struct{}{}
}

func (a *pipelines) remove(p *pipeline) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, p)
}

func (a *pipelines) tell(committed, term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	for p := range a.open {
		a.tells.Go(func() { p.tell(committed, term) })
	}
}

// end has nothing more told.
func (a *pipelines) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// pipeline wraps the library's pipeline. It sends in parts, is silent while the node is,
// and ends at the first rejection or when there is more to send than one message holds.
// One goroutine sends entries; what is committed, another may tell.
type pipeline struct {
	raft.AppendPipeline
	health *health.Health
	pause  time.Duration // For so long nothing is said twice.
	all    *pipelines

	turn   turn      // For what follows, and held while a request is sent.
	before *request  // The last that was sent; nil before the first.
	told   uint64    // How much of the log the follower knows to be committed, once it has that request.
	at     time.Time // When it was sent.
}

// request is one whose answer more than one goroutine may wait for.
type request struct {
	raft.AppendFuture
	turn  turn // For what follows, and held while the future is asked: it answers once.
	known bool
	err   error
}

func newRequest(sent raft.AppendFuture) *request {
	return &request{AppendFuture: sent, turn: newTurn()}
}

// Error blocks until there is an answer, and is nil if there is.
func (r *request) Error() error {
	r.turn.take()
	defer r.turn.give()
	if !r.known {
		r.err, r.known = r.AppendFuture.Error(), true
	}
	return r.err
}

// answered waits for the answer, and is nil if the follower took the request.
func (r *request) answered() error {
	if err := r.Error(); err != nil {
		return err
	}
	if !r.Response().Success {
		return errRejected
	}
	return nil
}

// AppendEntries sends args. Raft receives the answer to each part from Consumer, and
// so counts the parts one by one.
//
// In a pipeline raft sends one message per entry written, or one every so often when
// none is. A follower that came back would get full messages only at that pace, and a
// write that waits for it would wait for all of them. Single requests follow one another
// without a pause.
//
// What raft sends while none is written is for the commit index. Without a newer one most of it is left
// out. Not all: a follower that was started again has forgotten the index, and this end only
// finds out that its connection is gone when it sends.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if len(args.Entries) >= MessageEntriesMax {
		return nil, ErrBehind
	}
	if sent := p.saysAll(args); sent != nil {
		// A transfer of leadership calls again at once, until the follower has everything.
		return sent, sent.answered()
	}
	list := parts(args)
	for _, part := range list[:len(list)-1] {
		if _, err := p.send(part, new(raft.AppendEntriesResponse)); err != nil {
			return nil, err
		}
	}
	return p.send(list[len(list)-1], resp)
}

// saysAll is the last request, if it was sent a moment ago and args has nothing to add to it; or nil.
func (p *pipeline) saysAll(args *raft.AppendEntriesRequest) *request {
	p.turn.take()
	defer p.turn.give()
	if len(args.Entries) > 0 || args.LeaderCommitIndex > p.told || time.Since(p.at) >= p.pause || p.health.Silent() {
		return nil
	}
	return p.before
}

// send returns once the answer to the request before is there. After a rejection
// raft no longer reads answers: the library would take one more request and block on
// the next for ever, and with it the goroutine that replicates to this peer.
func (p *pipeline) send(part *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.turn.take()
	before := p.before
	sent, err := p.put(part, resp)
	p.turn.give()
	switch {
	case err != nil:
		return nil, err
	case before == nil:
		return sent, nil
	}
	return sent, before.answered()
}

// put sends one request. The caller has the turn.
func (p *pipeline) put(part *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (*request, error) {
	if p.health.Silent() {
		return nil, errUnfit
	}
	sent, err := p.AppendPipeline.AppendEntries(part, resp)
	if err != nil {
		return nil, err
	}
	p.before, p.told, p.at = newRequest(sent), min(part.LeaderCommitIndex, proven(part)), time.Now()
	return p.before, nil
}

// tell repeats the last request of the term without its entries and with the commit index, if that is news
// and what was sent ends there. It waits for the answer to that request: one that was rejected is the last,
// see send.
func (p *pipeline) tell(committed, term uint64) {
	for {
		last := p.endsAt(committed, term)
		if last == nil || last.answered() != nil || p.repeat(last, committed) {
			return
		}
	}
}

// repeat sends that everything in last is committed, unless something was sent after it.
func (p *pipeline) repeat(last *request, committed uint64) bool {
	p.turn.take()
	defer p.turn.give()
	if p.before != last {
		return false
	}
	_, _ = p.put(commitOnly(last.Request(), committed), new(raft.AppendEntriesResponse)) // Raft's next request fails as well.
	return true
}

// endsAt is the last request if the entries up to committed, and no more, were sent with it in this term,
// and the follower wasn't told that they are committed; or nil.
func (p *pipeline) endsAt(committed, term uint64) *request {
	p.turn.take()
	defer p.turn.give()
	if p.before == nil || p.before.Request().Term != term || committed <= p.told || committed != proven(p.before.Request()) {
		return nil
	}
	return p.before
}

// commitOnly is what follows on req when all of it is committed.
func commitOnly(req *raft.AppendEntriesRequest, committed uint64) *raft.AppendEntriesRequest {
	next := *req
	if n := len(req.Entries); n > 0 {
		next.PrevLogEntry, next.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	next.Entries, next.LeaderCommitIndex = nil, committed
	return &next
}

// Close ends the pipeline.
func (p *pipeline) Close() error {
	p.all.remove(p)
	return p.AppendPipeline.Close()
}

// turn is a mutex that may be held while its holder waits for the network. A channel, because virtual
// time goes on while somebody waits for one, and not while somebody waits for a sync.Mutex.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }
