package transport

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// Raft limits a message by entries, not by bytes. So a large request is sent here in
// parts, each a message of its own.
const (
	// MessageBytesMax bounds the entries of one message. A single larger one travels
	// alone. It holds two full entries of a shard, so that followers sync no more often
	// than their leader did. It exceeds the RPC timeout only on a link slower than half
	// a megabyte a second.
	MessageBytesMax = 2 << 20

	// EntryBytesMax is the largest entry that may be proposed. A shard's largest is a
	// full one plus one more request: 5 MiB and the encoding.
	EntryBytesMax = 16 << 20

	// requestBytesMax bounds one incoming request. It is larger than any that a node
	// sends.
	requestBytesMax = MessageBytesMax + EntryBytesMax

	// MessageEntriesMax is how many entries raft reads for one message, whatever their
	// size: 64 MiB for each follower that lags, if all are full. A follower that catches
	// up on small entries syncs once per message, far less often than its leader did.
	MessageEntriesMax = 64

	// entryOverhead is what surrounds an entry's data in a message, rounded up.
	entryOverhead = 128

	// inFlightMax is how many requests of a pipeline wait for their answers: one travels
	// while another is answered. pipeline counts on it.
	inFlightMax = 2
)

// errRejected ends a pipeline when the follower rejects a request.
var errRejected = errors.New("the follower rejected an append")

// ErrBehind ends a pipeline to a follower that does not keep up. It is normal: raft
// falls back to single requests, and pipelines again once the follower has caught up.
var ErrBehind = errors.New("the follower is too far behind for a pipeline")

// parts cuts req into messages within MessageBytesMax. Each names the entry before its
// first. All but the last have fewer entries than raft gave them, so their commit
// index is lowered too: a follower must not commit entries that the message no longer
// carries.
func parts(req *raft.AppendEntriesRequest) []*raft.AppendEntriesRequest {
	var list []*raft.AppendEntriesRequest
	rest := *req
	for {
		n := fitting(rest.Entries)
		if n == len(rest.Entries) {
			return append(list, &rest)
		}
		part := rest
		part.Entries = rest.Entries[:n:n]
		boundCommit(&part)
		list = append(list, &part)
		last := rest.Entries[n-1]
		rest.Entries, rest.PrevLogEntry, rest.PrevLogTerm = rest.Entries[n:], last.Index, last.Term
	}
}

// fitting is how many of the entries one message carries.
func fitting(entries []*raft.Log) int {
	bytes := 0
	for i, e := range entries {
		bytes += len(e.Data) + len(e.Extensions) + entryOverhead
		if bytes > MessageBytesMax && i > 0 {
			return i
		}
	}
	return len(entries)
}

// AppendEntries sends heartbeats and entries, as a leader does. If resp reports
// success, raft counts what is left in args as taken. After an error in the middle,
// that is what was taken before it; raft meets the error again with the next request.
func (g *Group) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	taken := 0
	for _, part := range parts(args) {
		answer, err := g.appendPart(id, target, part)
		if err != nil && taken == 0 {
			return err
		}
		if err != nil {
			args.Entries = args.Entries[:taken]
			return nil
		}
		*resp = *answer
		if !answer.Success {
			return nil
		}
		taken += len(part.Entries)
	}
	return nil
}

func (g *Group) appendPart(id raft.ServerID, target raft.ServerAddress, part *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
	if g.mux.opts.Health.Silent() {
		return nil, errUnfit
	}
	answer := new(raft.AppendEntriesResponse)
	send := func() error { return g.NetworkTransport.AppendEntries(id, target, part, answer) }
	if len(part.Entries) > 0 {
		return answer, send()
	}
	return answer, g.timed(target, send)
}

// AppendEntriesPipeline opens the leader's pipeline to a peer.
func (g *Group) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if g.mux.opts.Health.Silent() {
		return nil, errUnfit
	}
	p, err := g.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return &pipeline{AppendPipeline: p, health: g.mux.opts.Health, pause: g.mux.opts.Heartbeat / 2}, nil
}

// pipeline wraps the library's pipeline. It sends in parts, is silent while the node is,
// and ends at the first rejection or when there is more to send than one message holds.
// One goroutine sends.
type pipeline struct {
	raft.AppendPipeline
	health *health.Health
	pause  time.Duration     // For so long nothing is said twice.
	before raft.AppendFuture // The last request that was sent; nil before the first.
	told   uint64            // How much of the log the follower knows to be committed, once it has that request.
	at     time.Time         // When it was sent.
}

// AppendEntries sends args. Raft receives the answer to each part from Consumer, and
// so counts the parts one by one.
//
// In a pipeline raft sends one message per entry written, or one every 50 to 100 ms when
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
	if len(args.Entries) == 0 && p.before != nil && args.LeaderCommitIndex <= p.told && time.Since(p.at) < p.pause && !p.health.Silent() {
		// A transfer of leadership calls again at once, until the follower has everything.
		return p.before, answered(p.before)
	}
	list := parts(args)
	for _, part := range list[:len(list)-1] {
		if _, err := p.send(part, new(raft.AppendEntriesResponse)); err != nil {
			return nil, err
		}
	}
	return p.send(list[len(list)-1], resp)
}

// send returns once the answer to the request before is there. After a rejection
// raft no longer reads answers: the library would take one more request and block on
// the next for ever, and with it the goroutine that replicates to this peer.
func (p *pipeline) send(part *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.health.Silent() {
		return nil, errUnfit
	}
	before := p.before
	sent, err := p.AppendPipeline.AppendEntries(part, resp)
	if err != nil {
		return nil, err
	}
	p.before, p.told, p.at = sent, min(part.LeaderCommitIndex, proven(part)), time.Now()
	if before == nil {
		return sent, nil
	}
	return sent, answered(before)
}

// answered waits for the answer, and is nil if the follower took the request.
func answered(sent raft.AppendFuture) error {
	if err := sent.Error(); err != nil {
		return err
	}
	if !sent.Response().Success {
		return errRejected
	}
	return nil
}
