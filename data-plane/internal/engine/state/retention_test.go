package state

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// keeping is a policy that keeps completed jobs for one time and dead ones for another.
func keeping(completed, dead time.Duration, most int64) retention.Policy {
	return retention.Of(nil, &cellv1.Retention{CompletedNs: int64(completed), DeadNs: int64(dead), CancelledNs: int64(dead), FinishedMax: most})
}

// idMadeAt is the nth id of a time.
func idMadeAt(now int64, n int) (id job.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(now/int64(time.Millisecond))<<16)
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// retain lets the leader's walk do whatever is to do now, and counts its steps.
func (r *replica) retain(t *testing.T, walk *stateread.Retention, p retention.Policy, now int64) (steps int) {
	t.Helper()
	if err := walk.Look(r.store, p); err != nil {
		t.Fatal(err)
	}
	for ; ; steps++ {
		c, busy, err := walk.Next(r.store, now, math.MaxUint64)
		if err != nil {
			t.Fatal(err)
		}
		if !busy {
			return steps
		}
		if steps > 10_000 {
			t.Fatal("the walk does not end")
		}
		if c == nil {
			continue
		}
		if c, ok := c.(*command.DeleteEnded); ok && len(c.Jobs)+len(c.Batches)+len(c.Chains) > command.EndedMax {
			t.Fatalf("a command with %d jobs", len(c.Jobs))
		}
		r.do(t, now, c)
	}
}

// work enqueues jobs, and ends as many of the ones before as it is told.
func (r *replica) work(t *testing.T, ns job.Namespace, queue string, now int64, ids []job.ID, dead bool) {
	t.Helper()
	const each = 1000
	for len(ids) > 0 {
		some := ids[:min(each, len(ids))]
		ids = ids[len(some):]
		e := logEntry{now: now}
		for _, id := range some {
			e.cmds = append(e.cmds, &command.Enqueue{NS: ns, ID: id, Queue: queue, Retry: command.DefaultRetry()})
		}
		e.cmds = append(e.cmds, &command.Fetch{NS: ns, Jobs: some, Worker: "w", Lease: time.Hour})
		for _, id := range some {
			if dead {
				e.cmds = append(e.cmds, &command.Fail{NS: ns, ID: id, Terminal: true, Error: "no"})
			} else {
				e.cmds = append(e.cmds, &command.Ack{NS: ns, ID: id})
			}
		}
		r.apply(t, e)
	}
}

func TestRetention_KeepsWhatItShouldAndNoLonger(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	const age, deadAge = time.Hour, 3 * time.Hour
	policy := keeping(age, deadAge, 0)
	walk := stateread.NewRetention(ns)
	began := r.now
	// A job that nobody runs stands before all others.
	r.do(t, began, &command.Enqueue{NS: ns, ID: idMadeAt(began, 0), Queue: "idle", Retry: command.DefaultRetry()})
	ended := map[job.ID]int64{}
	isDead := map[job.ID]bool{}
	const each, every = 100, 10 * time.Minute
	const slack = age/64 + 2*every
	n := 0
	for now := began; now < began+int64(8*time.Hour); now += int64(every) {
		if now < began+int64(4*time.Hour) {
			var ids []job.ID
			for range each {
				n++
				ids = append(ids, idMadeAt(now, n))
			}
			for i, part := range [][]job.ID{ids[:each-20], ids[each-20:]} {
				r.work(t, ns, "q", now, part, i == 1)
				for _, id := range part {
					ended[id], isDead[id] = now, i == 1
				}
			}
		}
		r.retain(t, walk, policy, now)
		heads := r.audit(t)
		for id, at := range ended {
			keep := age
			if isDead[id] {
				keep = deadAge
			}
			_, there := heads[id]
			if old := time.Duration(now - at); !there && old < keep || there && old > keep+slack {
				t.Fatalf("after %s a job that ended dead %v is there %v", old, isDead[id], there)
			}
			if !there {
				delete(ended, id)
			}
		}
	}
	if heads := r.audit(t); len(heads) != 1 {
		t.Fatalf("%d jobs are left, want the one that nobody ran", len(heads))
	}
}

// What is not to go yet is not read again and again: here 20,000 dead jobs that are kept for a month
// stand among completed ones that go every hour.
func TestRetention_ReadsEachJobAFewTimes(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	policy := keeping(time.Hour, 30*24*time.Hour, 0)
	walk := stateread.NewRetention(ns)
	began, n := r.now, 0
	const heads = 5 * stateread.HeadsWalked
	for range heads / 1000 {
		var ids []job.ID
		for range 1000 {
			n++
			ids = append(ids, idMadeAt(began, n))
		}
		r.work(t, ns, "q", began, ids, true)
	}
	steps := 0
	for now := began; now < began+int64(7*24*time.Hour); now += int64(30 * time.Minute) {
		steps += r.retain(t, walk, policy, now)
	}
	// All of them once a day, in stretches; one look at what is new each hour; usage each hour.
	if most := 8*(heads/stateread.HeadsWalked+2) + 2*7*24 + 7*24; steps > most {
		t.Fatalf("%d steps in a week, want at most %d", steps, most)
	}
}

func TestRetention_ByCountTheOldestOfAQueueGoFirst(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	policy := keeping(24*time.Hour, 24*time.Hour, 100)
	walk := stateread.NewRetention(ns)
	now, n := r.now, 0
	var latest []job.ID
	for range 12 {
		now += int64(time.Second)
		var ids []job.ID
		for range 900 {
			n++
			ids = append(ids, idMadeAt(now, n))
		}
		r.work(t, ns, "many", now, ids, false)
		n++
		r.work(t, ns, "few", now, []job.ID{idMadeAt(now, n)}, false)
		latest = ids[800:]
		r.retain(t, walk, policy, now)
	}
	heads := r.audit(t)
	if len(heads) != 100+12 {
		t.Fatalf("%d jobs are left, want 100 of the one queue and 12 of the other", len(heads))
	}
	for _, id := range latest {
		if _, there := heads[id]; !there {
			t.Fatal("one of the youngest is gone")
		}
	}
}

func TestRetention_AShorterTimeCountsForWhatIsThere(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	walk := stateread.NewRetention(ns)
	began := r.now
	r.work(t, ns, "q", began, []job.ID{idMadeAt(began, 1)}, false)
	now := began + int64(2*time.Hour)
	if r.retain(t, walk, keeping(24*time.Hour, 24*time.Hour, 0), now); len(r.audit(t)) != 1 {
		t.Fatal("it is gone too early")
	}
	if r.retain(t, walk, keeping(time.Hour, 24*time.Hour, 0), now); len(r.audit(t)) != 0 {
		t.Fatal("it is still there")
	}
}

// An id may be older than the job: one of a schedule has the time of its tick.
func TestRetention_FindsWhatCameLateIntoAnOldStretch(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	policy := keeping(time.Hour, time.Hour, 0)
	walk := stateread.NewRetention(ns)
	began := r.now
	now := began + int64(24*time.Hour)
	r.retain(t, walk, policy, now)
	r.work(t, ns, "q", now, []job.ID{idMadeAt(began, 1)}, false)
	for range 3 * 24 {
		now += int64(time.Hour)
		r.retain(t, walk, policy, now)
	}
	if left := r.audit(t); len(left) != 0 {
		t.Fatalf("%d jobs are left", len(left))
	}
}

func TestRetention_BatchesChainsAndUsageGo(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	policy := keeping(time.Hour, 2*time.Hour, 0)
	policy.Usage = 24 * time.Hour
	walk := stateread.NewRetention(ns)
	began := r.now
	batch, open, chain := job.BatchID(idMadeAt(began, 1)), job.BatchID(idMadeAt(began, 2)), job.ChainID(idMadeAt(began, 3))
	member, step, waits := idMadeAt(began, 4), idMadeAt(began, 5), idMadeAt(began, 6)
	r.do(t, began, &command.MakeBatch{NS: ns, ID: batch})
	r.do(t, began, &command.MakeBatch{NS: ns, ID: open})
	r.do(t, began, &command.Enqueue{NS: ns, ID: member, Queue: "q", Retry: command.DefaultRetry(), Batch: batch})
	r.do(t, began, &command.Enqueue{NS: ns, ID: waits, Queue: "idle", Retry: command.DefaultRetry(), Batch: open})
	r.do(t, began, &command.Enqueue{NS: ns, ID: step, Queue: "q", Retry: command.DefaultRetry(), Chain: &command.Chain{ID: chain, Steps: []command.Step{{Queue: "q"}}}})
	r.do(t, began, &command.SealBatch{NS: ns, ID: batch})
	r.do(t, began, &command.Fetch{NS: ns, Jobs: []job.ID{member, step}, Worker: "w", Lease: time.Hour})
	r.do(t, began, &command.Ack{NS: ns, ID: member, Usage: &command.Usage{Provider: "p", Model: "m", Input: 5}})
	r.do(t, began, &command.Ack{NS: ns, ID: step})
	left := func(now int64) (batches, chains, jobs int) {
		r.retain(t, walk, policy, now)
		b, _, err := stateread.ReadBatches(r.store, ns, job.BatchID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := stateread.ReadChains(r.store, ns, job.ChainID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(b), len(c), len(r.audit(t))
	}
	if b, c, j := left(began + int64(70*time.Minute)); b != 2 || c != 1 || j != 1 {
		t.Fatalf("after the shorter time: %d batches, %d chains, %d jobs; want 2, 1 and 1", b, c, j)
	}
	if b, c, j := left(began + int64(130*time.Minute)); b != 1 || c != 0 || j != 1 {
		t.Fatalf("after the longer time: %d batches, %d chains, %d jobs; want what is open", b, c, j)
	}
	usage := func() (hours int) {
		if err := stateread.ReadUsage(r.store, ns, 0, records.HourOf(began)+1, func(stateread.HourUsage) bool { hours++; return true }); err != nil {
			t.Fatal(err)
		}
		return hours
	}
	if left(began + int64(24*time.Hour)); usage() != 1 {
		t.Fatal("the usage is gone too early")
	}
	if left(began + int64(26*time.Hour)); usage() != 0 {
		t.Fatal("the usage is still there")
	}
}

func TestRetention_AQueueMaySayItself(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	walk := stateread.NewRetention(ns)
	began := r.now
	short := &command.SetQueue{NS: ns, Queue: "short", Set: command.SetRetention, Retention: command.QueueRetention{Completed: time.Minute}}
	r.do(t, began, short)
	r.work(t, ns, "q", began, []job.ID{idMadeAt(began, 1)}, false)
	r.work(t, ns, "short", began, []job.ID{idMadeAt(began, 2)}, false)
	r.work(t, ns, "short", began, []job.ID{idMadeAt(began, 3)}, true)
	r.retain(t, walk, keeping(time.Hour, time.Hour, 0), began+int64(2*time.Minute))
	heads := r.audit(t)
	if _, there := heads[idMadeAt(began, 2)]; there || len(heads) != 2 {
		t.Fatalf("left are %v; want all but the completed one of the queue that keeps them for a minute", heads)
	}
}
