package shard

import (
	"context"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Jobs granted to a caller who is gone have no worker; only he can give them back
// before their leases end, which would count as crashes.
func TestDo_AFetchWhoseCallerIsGoneStillTellsWhatItWasGranted(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	s.shard.term.Store(s.term)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	type outcome struct {
		rep Reply
		err error
	}
	answer := make(chan outcome, 1)
	go func() {
		rep, err := s.shard.Do(gone, fetchReq(1, time.Hour, false))
		answer <- outcome{rep, err}
	}()
	eventually.True(t, patience, "the request is in the inbox", func() bool { return s.inbox.len() == 1 || len(answer) == 1 })
	s.step()
	o := <-answer
	if o.err != nil || len(o.rep.Grants) != 1 || o.rep.Grants[0].ID != id {
		t.Fatalf("job %s is %s; its caller was told %+v, %v", id, s.head(id).State, o.rep.Grants, o.err)
	}
}

// A leader that was deposed without knowing must not say that something is not there.
func TestRead_ThatFindsNothingIsConfirmedToo(t *testing.T) {
	t.Parallel()
	r, deafen := paired(t)
	deafen()
	eventually.True(t, patience, "the peer does not confirm", func() bool { return r.Group().VerifyLeader() != nil || !r.Group().Leading() })
	_, err := Read(t.Context(), r.Shard, func(*statedb.Group) (struct{}, error) { return struct{}{}, statedb.ErrNotFound })
	if fault.CodeOf(err) != fault.NotLeader {
		t.Fatalf("a node that nobody confirms answers: %v", err)
	}
}

func TestWeight_CountsEverythingACallerMaySendAtLength(t *testing.T) {
	t.Parallel()
	c := &command.Enqueue{NS: stepNS, Queue: "q", Retry: command.DefaultRetry(), UniqueKey: string(make([]byte, 256)), IdempotencyKey: string(make([]byte, 256))}
	for range 64 {
		c.Tags = append(c.Tags, command.Tag{Key: string(make([]byte, 256)), Value: string(make([]byte, 256))})
	}
	r := Request{After: []command.Command{c}}
	if got, size := weight(&r), len(command.Encode(r.After)); got < size*9/10 {
		t.Fatalf("a command of %d bytes weighs %d: entries would grow beyond their limit", size, got)
	}
}

// Renewals write nothing, but each is a read between two entries.
func TestGather_RenewalsFillAnEntryToo(t *testing.T) {
	t.Parallel()
	b := &batch{}
	for !b.full() && len(b.requests) < entryCmdsMax {
		b.add(&request{Request: Request{Renew: make([]Renewal, 512)}})
	}
	if n := len(b.requests) * 512; n > 2*entryCmdsMax {
		t.Fatalf("one entry looks up %d leases", n)
	}
}
