package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// maker makes jobs for several goroutines.
type maker struct {
	mu sync.Mutex // Guards s.
	s  stepper
}

func (m *maker) newJob() *command.Enqueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s.newJob()
}

func TestOverload_IsRefusedAtOnceAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.term.Store(s.term)
	for range inboxMax {
		s.submit(fetchReq(1, time.Hour, false))
	}
	from := s.group.Status().LastIndex
	c := s.newJob()
	_, err := s.shard.Do(t.Context(), Request{After: []command.Command{c}})
	f := fault.As(err)
	if f == nil || f.Code != fault.Exhausted || f.Reason != "OVERLOADED" || f.RetryAfter <= 0 {
		t.Fatalf("refusal: %v", err)
	}
	for s.inbox.len() > 0 {
		s.step()
	}
	if _, err := stateread.ReadHead(s.shard.store, stepNS, c.ID); err == nil || s.group.Status().LastIndex != from {
		t.Fatalf("a refused job was written: %v, index %d -> %d", err, from, s.group.Status().LastIndex)
	}
	if n := s.shard.stats.Refused.Load(); n != 1 {
		t.Fatalf("%d refusals counted", n)
	}
}

func TestOverload_TheInboxIsBoundedInBytesToo(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.term.Store(s.term)
	s.inbox.bytes.Take(stepNS, inboxBytesMax-100<<10)
	big := s.newJob()
	big.Payload = make([]byte, 200<<10)
	_, err := s.shard.Do(t.Context(), Request{After: []command.Command{big}})
	if f := fault.As(err); f == nil || f.Reason != "OVERLOADED" {
		t.Fatalf("refusal: %v", err)
	}
	if n := s.inbox.bytes.Used(); n != inboxBytesMax-100<<10 || s.inbox.len() != 0 {
		t.Fatalf("%d bytes counted and %d requests kept after a refusal", n, s.inbox.len())
	}
	s.inbox.bytes.Give(stepNS, inboxBytesMax-100<<10)
	done := make(chan error, 1)
	go func() {
		_, err := s.shard.Do(t.Context(), Request{After: []command.Command{big}})
		done <- err
	}()
	eventually.True(t, patience, "the request is queued", func() bool { return s.inbox.len() == 1 })
	if n := s.inbox.bytes.Used(); n < 200<<10 {
		t.Fatalf("%d bytes counted for a large request", n)
	}
	s.step()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := s.inbox.bytes.Used(); n != 0 {
		t.Fatalf("%d bytes counted in an empty inbox", n)
	}
}

func TestRequest_WithTooManyPartsIsRefused(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.term.Store(s.term)
	_, err := s.shard.Do(t.Context(), Request{Settle: make([]command.Command, requestMax+1)})
	if fault.CodeOf(err) != fault.TooLarge {
		t.Fatalf("refusal: %v", err)
	}
}

// No route lets such a request in. If one ever did, followers would never take its entry.
func TestRequest_AnEntryThatIsTooLargeForAMessageIsRefusedAndTheTermGoesOn(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	huge := s.newJob()
	huge.Payload = make([]byte, transport.EntryBytesMax)
	q := s.submit(Request{After: []command.Command{huge}})
	s.step()
	if rep := <-q.done; fault.CodeOf(rep.Err) != fault.TooLarge {
		t.Fatalf("refusal: %v", rep.Err)
	}
	s.do(Request{After: []command.Command{s.newJob()}})
}

func TestRefuseJobs_OnlyNewJobsAreRefused(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.term.Store(s.term)
	s.shard.RefuseJobs([]string{"n2"})
	_, err := s.shard.Do(t.Context(), Request{After: []command.Command{s.newJob()}})
	if f := fault.As(err); f == nil || f.Reason != "DISK_FULL" || s.inbox.len() != 0 {
		t.Fatalf("refusal: %v", err)
	}
	s.shard.RefuseJobs(nil)
	s.enqueue()
}

func TestLeadershipLoss_NobodyHangsAndEverybodyIsToldTheTruth(t *testing.T) {
	t.Parallel()
	r, deafen := paired(t)
	var m maker
	answers := make(chan error, 3)
	call := func(q Request) {
		go func() {
			_, err := r.Do(context.Background(), q)
			answers <- err
		}()
	}
	parked := fetchReq(1, time.Hour, true)
	parked.Fetch.Queues = []string{"empty"}
	call(parked)
	eventually.True(t, patience, "the fetch is parked", func() bool { return r.stats.Parked.Load() == 1 })
	deafen()
	from := r.Group().Status().LastIndex
	call(Request{After: []command.Command{m.newJob()}})
	eventually.True(t, patience, "an entry is under way", func() bool { return r.Group().Status().LastIndex > from })
	call(Request{After: []command.Command{m.newJob()}}) // Waits in the inbox.
	codes := map[fault.Code]int{}
	for range 3 {
		select {
		case err := <-answers:
			codes[fault.CodeOf(err)]++
		case <-time.After(patience):
			t.Fatalf("somebody hangs; the others were told %v", codes)
		}
	}
	if codes[fault.UnknownOutcome] != 1 || codes[fault.NotLeader] != 2 {
		t.Fatalf("told %v, want one unknown outcome and two not-leader", codes)
	}
	if _, err := r.Do(t.Context(), fetchReq(1, time.Hour, false)); fault.CodeOf(err) != fault.NotLeader {
		t.Fatalf("afterwards: %v", err)
	}
	if n := r.stats.Parked.Load(); n != 0 {
		t.Fatalf("%d parked afterwards", n)
	}
}

func TestShutdown_AnswersWhoIsParked(t *testing.T) {
	t.Parallel()
	r := start(t, memDisks(), "", raftlog.Options{})
	const n = 50
	answers := make(chan error, n)
	for range n {
		go func() {
			_, err := r.Do(context.Background(), fetchReq(1, time.Hour, true))
			answers <- err
		}()
	}
	eventually.True(t, patience, "all are parked", func() bool { return r.stats.Parked.Load() == n })
	r.stop(t)
	for range n {
		if err := <-answers; fault.CodeOf(err) != fault.NotLeader {
			t.Fatalf("told %v", err)
		}
	}
}

func TestGiveUp_AParkedFetchReturnsWithTheContext(t *testing.T) {
	t.Parallel()
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := r.Do(ctx, fetchReq(1, time.Hour, true))
		answer <- err
	}()
	eventually.True(t, patience, "it is parked", func() bool { return r.stats.Parked.Load() == 1 })
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Fatalf("told %v", err)
	}
	eventually.True(t, patience, "it left", func() bool { return r.stats.Parked.Load() == 0 })
}

func TestHoldOff_ResumingWakesParkedFetches(t *testing.T) {
	t.Parallel()
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	var m maker
	r.HoldOff(true)
	c := m.newJob()
	r.must(t, Request{After: []command.Command{c}})
	answer := make(chan Reply, 1)
	go func() {
		rep, _ := r.Do(context.Background(), fetchReq(1, time.Hour, true))
		answer <- rep
	}()
	eventually.True(t, patience, "it is parked", func() bool { return r.stats.Parked.Load() == 1 })
	r.HoldOff(false)
	select {
	case rep := <-answer:
		if len(rep.Grants) != 1 || rep.Grants[0].ID != c.ID {
			t.Fatalf("grants %+v", rep.Grants)
		}
	case <-time.After(patience):
		t.Fatal("nobody woke the parked fetch")
	}
}

func TestTimers_ScheduledJobsBecomePendingOnTime(t *testing.T) {
	t.Parallel()
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	var m maker
	const n = 200
	var q Request
	due := map[job.ID]int64{}
	for i := range n {
		c := m.newJob()
		c.ScheduledAt = r.Group().Now().Calendar + int64(300*time.Millisecond) + int64(i)*int64(5*time.Millisecond)
		due[c.ID] = c.ScheduledAt
		q.After = append(q.After, c)
	}
	for i, res := range r.must(t, q).After {
		if res.State != job.Scheduled {
			t.Fatalf("job %d is %s", i, res.State)
		}
	}
	late := make([]time.Duration, 0, n)
	for len(late) < n {
		for _, g := range r.must(t, fetchReq(50, time.Hour, true)).Grants {
			h, err := stateread.ReadHead(r.Store(), stepNS, g.ID)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(h.Timeline, func(m records.Moment) bool { return m.What == feed.Promoted })
			if i < 0 || h.Timeline[i].At < due[g.ID] {
				t.Fatalf("job %s due at %d: %+v", g.ID, due[g.ID], h.Timeline)
			}
			late = append(late, time.Duration(h.Timeline[i].At-due[g.ID]))
		}
	}
	slices.Sort(late)
	t.Logf("lateness: p50 %s, p99 %s, max %s", late[n/2], late[n*99/100], late[n-1])
	if p99 := late[n*99/100]; p99 > 500*time.Millisecond {
		t.Fatalf("p99 of the lateness is %s", p99)
	}
}

func TestTimers_ManyDueAtOneInstantAllFire(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	const n = 3000
	at := s.group.Now().Calendar + int64(200*time.Millisecond)
	for range 3 {
		var q Request
		for range n / 3 {
			c := s.newJob()
			c.ScheduledAt = at
			q.After = append(q.After, c)
		}
		s.do(q)
	}
	s.until(at)
	for range n/firesPerEntry + 1 {
		s.step()
	}
	from := s.group.AppliedIndex()
	s.step()
	if s.group.AppliedIndex() != from || s.due.next <= s.group.Now().Calendar {
		t.Fatal("the timer goes on although nothing is due")
	}
	c, err := stateread.ReadCounts(s.shard.store, stepNS, "q")
	if err != nil || c.Jobs[job.Pending] != n {
		t.Fatalf("%d pending, want %d (%v)", c.Jobs[job.Pending], n, err)
	}
}

func TestTimers_ARetryFires(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	c := s.newJob()
	c.Retry.BaseDelay, c.Retry.Backoff = 100*time.Millisecond, job.BackoffFixed
	s.do(Request{After: []command.Command{c}})
	g := s.fetch(time.Hour)
	rep := s.do(settle(&command.Fail{NS: stepNS, ID: g.ID, By: holder(g), Error: "boom"}))
	if r := rep.Settled[0]; r.State != job.Retrying || r.NextAt <= rep.Now {
		t.Fatalf("fail: %+v", r)
	}
	s.until(rep.Settled[0].NextAt)
	if g = s.fetch(time.Hour); g.ID != c.ID || g.Attempt != 2 {
		t.Fatalf("grant %+v", g)
	}
}

func TestGroupCommit_CallersShareEntriesAndASingleOneNeverWaits(t *testing.T) {
	t.Parallel()
	d := memDisks()
	d.Log = disk.DelayedSync(d.Log, time.Millisecond) // Else there is nothing to wait for.
	r := start(t, d, "", raftlog.Options{})
	defer r.stop(t)
	var m maker
	const callers, each = 64, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if _, err := r.Do(context.Background(), Request{After: []command.Command{m.newJob()}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, requests := r.stats.Entries.Load(), r.stats.Requests.Load()
	t.Logf("%d requests in %d entries", requests, entries)
	if requests != callers*each || entries > requests/4 {
		t.Fatalf("%d requests in %d entries", requests, entries)
	}
	s := step(t, Options{})
	for range 5 {
		s.enqueue()
		if !s.pace.until.IsZero() {
			t.Fatal("a single caller waits for company")
		}
	}
}

func TestRestart_LeasesGetAFreshFullLengthAndJobsTheirPlaces(t *testing.T) {
	t.Parallel()
	d := memDisks()
	r := start(t, d, "", raftlog.Options{})
	var m maker
	a, b, c := m.newJob(), m.newJob(), m.newJob()
	r.must(t, Request{After: []command.Command{a, b, c}})
	const lease = 400 * time.Millisecond
	if g := r.must(t, fetchReq(1, lease, false)).Grants; len(g) != 1 || g[0].ID != a.ID {
		t.Fatalf("grants %+v", g)
	}
	r.stop(t)
	time.Sleep(lease) // The node is away for longer than the lease.
	r = start(t, d, "", raftlog.Options{})
	defer r.stop(t)
	began := r.term.Load().began
	var order []job.ID
	for len(order) < 3 {
		for _, g := range r.must(t, fetchReq(1, time.Hour, true)).Grants {
			order = append(order, g.ID)
		}
	}
	if !slices.Equal(order, []job.ID{b.ID, c.ID, a.ID}) {
		t.Fatalf("order %v", order)
	}
	h, err := stateread.ReadHead(r.Store(), stepNS, a.ID)
	if err != nil || h.Crashes != 1 || h.Started < began+int64(lease) {
		t.Fatalf("head %+v, %v: the lease ended %s after the restart, want %s", h, err, time.Duration(h.Started-began), lease)
	}
}

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
