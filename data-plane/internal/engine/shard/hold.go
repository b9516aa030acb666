package shard

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// refusedPause is the time between two tries at a leader whose raft takes no entries:
// it says nothing when a transfer of leadership that came to nothing is over.
const refusedPause = 10 * time.Millisecond

// hold keeps a call that nobody serves at the moment. It ends with Options.LeaderWait,
// which counts from when the call was first turned away.
type hold struct {
	shard *Shard
	limit time.Time
}

// again reports whether a call that ended with err is to be tried again. While leadership
// moves it waits until this replica leads. It does not wait for what cannot be learnt
// here, nor when another replica is known to lead: the caller goes there.
func (h *hold) again(ctx context.Context, err error) bool {
	s := h.shard
	if !fault.NothingDone(err) || s.opts.LeaderWait == 0 {
		return false
	}
	if h.limit.IsZero() {
		h.limit = time.Now().Add(s.opts.LeaderWait)
	}
	s.stats.Held.Add(1)
	defer s.stats.Held.Add(-1)
	over := time.NewTimer(time.Until(h.limit))
	defer over.Stop()
	pause := time.NewTimer(refusedPause)
	defer pause.Stop()
	for {
		moved := s.group.LeadershipChanged()
		if s.group.Silent() || s.group.LedElsewhere() {
			return false
		}
		var paused <-chan time.Time
		if s.group.Leading() {
			paused = pause.C
		}
		select {
		case <-paused:
			return true
		case <-moved:
			if s.group.Leading() {
				return true
			}
		case <-over.C:
			return false
		case <-s.leaving:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// Leave lets no call wait for a leader any more: the node goes.
func (s *Shard) Leave() { s.leave() }
