package transport

import "github.com/hashicorp/raft"

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
)

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
