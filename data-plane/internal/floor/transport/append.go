package transport

import (
	"errors"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// Raft counts the entries of a message, not their bytes. So what it wants to send leaves
// here in parts, each a message of its own that follows the one before.
const (
	// MessageBytesMax bounds the entries of one message. A single larger one travels
	// alone. It holds two full entries of a shard, so that followers sync no more often
	// than their leader did, and takes the RPC timeout only where less than half a
	// megabyte a second gets through.
	MessageBytesMax = 2 << 20

	// EntryBytesMax is the largest entry that may be proposed. The largest that a shard
	// makes is a full one and one more request: 5 MiB and what encoding adds.
	EntryBytesMax = 16 << 20

	// requestBytesMax is what a node reads as one request: more than any that is sent.
	requestBytesMax = MessageBytesMax + EntryBytesMax

	// MessageEntriesMax is how many entries raft reads for one message, whatever their
	// bytes: 64 MiB if all are full, for each follower that lags. A follower that catches
	// up with small ones syncs once for so many, far more than its leader did.
	MessageEntriesMax = 64

	// entryOverhead is what surrounds an entry's data in a message, rounded up.
	entryOverhead = 128

	// inFlightMax is how many requests of a pipeline wait for their answers: one travels
	// while another is answered. pipeline counts on it.
	inFlightMax = 2
)

// errRejected ends a pipeline of which the follower did not take a request.
var errRejected = errors.New("the follower rejected an append")

// ErrBehind ends a pipeline to a follower that does not keep up. It is no fault: raft
// goes back to single requests, and from them to a pipeline once the follower is there.
var ErrBehind = errors.New("the follower is too far behind for a pipeline")

// parts cuts req into messages within MessageBytesMax. Each names the entry before its
// first. All but the last are shorter than raft made them, so they also commit less:
// a follower must not take the leader's word for entries that the message has lost.
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

// AppendEntries sends heartbeats and entries, as a leader does. Raft counts what is in
// args afterwards as taken if resp says so: after an error in the middle that is what
// was taken before it, and raft meets the error again with the next request.
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
	return &pipeline{AppendPipeline: p, health: g.mux.opts.Health}, nil
}

// pipeline is a library's pipeline that sends in parts, falls silent with the node and
// ends with the first refusal, or when there is more to send than one message holds. One
// goroutine sends.
type pipeline struct {
	raft.AppendPipeline
	health *health.Health
	before raft.AppendFuture // The last request that was sent; nil before the first.
}

// AppendEntries sends args. Raft meets the answer to each part at the Consumer, and so
// counts parts one by one.
//
// In a pipeline raft sends one message for each entry that is written, or, when none is,
// each 50 to 100 ms. A follower that came back would get a full message at that pace,
// and a write that waits for it would wait for all of them. Single requests follow one
// another without a pause.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if len(args.Entries) >= MessageEntriesMax {
		return nil, ErrBehind
	}
	list := parts(args)
	for _, part := range list[:len(list)-1] {
		if _, err := p.send(part, new(raft.AppendEntriesResponse)); err != nil {
			return nil, err
		}
	}
	return p.send(list[len(list)-1], resp)
}

// send returns once the answer to the request before is there. If that is a refusal,
// raft has stopped reading answers: the library would take one more request and hold
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
	p.before = sent
	if before == nil {
		return sent, nil
	}
	if err := before.Error(); err != nil {
		return nil, err
	}
	if !before.Response().Success {
		return nil, errRejected
	}
	return sent, nil
}
