package shard

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// tenure is one lease as its worker knows it.
type tenure struct {
	grant state.Grant
	from  int64 // Time of the entry that granted it.
	until int64 // What the worker was promised, by its own clock.
	ended int64 // Time of the entry that settled it; 0 if it was not.
}

// tenures is what all workers know together.
type tenures struct {
	mu   sync.Mutex // Guards the rest.
	all  map[job.ID][]*tenure
	acks map[job.ID]int // Accepted completions.
}

func (l *tenures) add(t *tenure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[t.grant.ID] = append(l.all[t.grant.ID], t)
}

func (l *tenures) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

// overlaps reports the first two leases of a job that were valid at one time.
func (l *tenures) overlaps(t *testing.T) {
	for id, list := range l.all {
		slices.SortFunc(list, func(a, b *tenure) int {
			if a.grant.Epoch.Less(b.grant.Epoch) {
				return -1
			}
			return 1
		})
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			end := a.until
			if a.ended != 0 {
				end = min(end, a.ended)
			}
			if b.from < end {
				t.Errorf("job %s: a lease was good until %s after the next one began", id, time.Duration(end-b.from))
			}
		}
	}
}

const stressLease = time.Second

// erratic is a worker that completes, fails, gives back, renews, and at times
// sleeps through its lease and settles all the same.
func erratic(ctx context.Context, t *testing.T, r *rig, l *tenures, rng *rand.Rand) {
	for ctx.Err() == nil {
		rep, err := r.Do(ctx, fetchReq(1, stressLease, true))
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		for _, g := range rep.Grants {
			x := &tenure{grant: g, from: rep.Now, until: rep.Now + int64(stressLease)}
			l.add(x)
			workOn(t, r, l, x, rng)
		}
	}
}

func workOn(t *testing.T, r *rig, l *tenures, x *tenure, rng *rand.Rand) {
	by := holder(x.grant)
	var how command.Command = &command.Ack{NS: stepNS, ID: x.grant.ID, By: by}
	switch n := rng.IntN(100); {
	case n < 12: // Sleeps through the lease.
		time.Sleep(stressLease + time.Duration(rng.IntN(300)-50)*time.Millisecond)
	case n < 24: // Works longer than a lease, renewing about when it ends.
		for range 3 {
			time.Sleep(time.Duration(x.until-r.Group().Now().Calendar) - time.Duration(rng.IntN(30))*time.Millisecond)
			sent := r.Group().Now().Calendar
			if !r.must(t, renew(x.grant)).Renewals[0].Held {
				break
			}
			l.mu.Lock()
			x.until = sent + int64(stressLease)
			l.mu.Unlock()
		}
	case n < 34:
		how = &command.Fail{NS: stepNS, ID: x.grant.ID, By: by, Release: true}
	case n < 44:
		how = &command.Fail{NS: stepNS, ID: x.grant.ID, By: by, Error: "boom"}
	default:
		time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
	}
	rep := r.must(t, settle(how))
	if rep.Settled[0].Refusal != state.Accepted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.ended = rep.Now
	if _, ok := how.(*command.Ack); ok {
		l.acks[x.grant.ID]++
	}
}

// stubborn enqueues jobs that are tried again at once, as often as it takes.
func (r *rig) stubborn(tb testing.TB, jobs int) (ids []job.ID) {
	tb.Helper()
	var m maker
	var q Request
	for range jobs {
		c := m.newJob()
		c.Retry = command.RetryPolicy{MaxRetries: 1000, Backoff: job.BackoffFixed, BaseDelay: time.Millisecond, MaxDelay: time.Millisecond}
		ids, q.After = append(ids, c.ID), append(q.After, c)
	}
	r.must(tb, q)
	return ids
}

// INV-3: no two valid leases of a job overlap, and each job is completed once.
func TestStress_LeasesAreExclusiveAndCompletionsAreSingle(t *testing.T) {
	t.Parallel()
	jobs := 180
	if testing.Short() {
		jobs = 60
	}
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	ids := r.stubborn(t, jobs)
	l := &tenures{all: map[job.ID][]*tenure{}, acks: map[job.ID]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { erratic(ctx, t, r, l, rand.New(rand.NewPCG(uint64(i), 7))) })
	}
	ended := func() bool {
		c, err := stateread.ReadCounts(r.Store(), stepNS, "q")
		return err == nil && c.Jobs[job.Completed]+c.Jobs[job.Dead] == int64(jobs)
	}
	eventually.True(t, patience, "every job ends", ended)
	cancel()
	wg.Wait()
	l.overlaps(t)
	crashes := uint32(0)
	for _, id := range ids {
		h, err := stateread.ReadHead(r.Store(), stepNS, id)
		if err != nil {
			t.Fatal(err)
		}
		crashes += h.Crashes
		want := 1
		if h.State == job.Dead {
			want = 0
		}
		if l.acks[id] != want {
			t.Errorf("job %s is %s; %d completions were accepted", id, h.State, l.acks[id])
		}
	}
	t.Logf("%d jobs, %d completed, %d leases ran out", jobs, l.done(), crashes)
	if crashes == 0 {
		t.Error("no lease ran out: the test proves nothing")
	}
}
