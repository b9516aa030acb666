package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// However many jobs end at once for which many wait, an entry tells about as many as
// one of them has; the others are told in the entries that follow.
func TestDeliver_AnEntryTellsNoMoreThanFits(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	const ends, waiters = 6, 250
	var q Request
	for range ends {
		on := s.newJob()
		on.Queue = "on"
		q.After = append(q.After, on)
		for range waiters {
			c := s.newJob()
			c.DependsOn = []job.ID{on.ID}
			q.After = append(q.After, c)
		}
	}
	s.do(q)
	f := fetchReq(ends, time.Hour, false)
	f.Fetch.NS, f.Fetch.Queues = stepNS, []string{"on"}
	var acks []command.Command
	for _, g := range s.do(f).Grants {
		acks = append(acks, &command.Ack{NS: stepNS, ID: g.ID, By: holder(g)})
	}
	s.do(settle(acks...))
	told, entries := 0, 0
	for ; told < ends*waiters; entries++ {
		s.step()
		now := s.ready()
		if now == told || now-told > 2*waiters {
			t.Fatalf("entry %d told %d jobs, %d of %d in all", entries, now-told, now, ends*waiters)
		}
		told = now
	}
	s.step()
	if s.due.next <= s.group.Now().Calendar {
		t.Error("the timer goes on although everybody was told")
	}
}

// ready counts the ready jobs of the queue.
func (s *stepper) ready() (n int) {
	s.tb.Helper()
	jobs, _, _, err := stateread.NewHeadReader(s.shard.store).Heads(stepNS, job.ID{}, 10_000)
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, j := range jobs {
		if j.State == job.Pending && !j.Blocked() {
			n++
		}
	}
	return n
}
