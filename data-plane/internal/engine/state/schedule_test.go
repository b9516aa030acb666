package state

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// R-T4, INV-12: whatever several leaders propose, each from what it saw of a schedule
// that ticks every ten seconds, and however often, no tick has two jobs, and none is
// lost that some leader proposed in time.
func TestINV12_StaleLeadersMakeNoTickTwice(t *testing.T) {
	t.Parallel()
	const step = int64(10 * time.Second)
	rapid.Check(t, func(t *rapid.T) {
		r := newReplica(t)
		defer r.close(t)
		ns, id := job.Namespace{'n'}, job.ScheduleID{'s'}
		put := &command.PutSchedule{NS: ns, ID: id, Next: epoch + step, Schedule: command.Schedule{
			Name: "s", Cron: "a", Zone: "UTC", Job: command.Template{Queue: "q", Retry: command.DefaultRetry()},
		}}
		r.do(t, epoch, put)
		seen := make([]records.Schedule, 3)
		look := func(i int) {
			var err error
			if seen[i], err = stateread.ReadSchedule(r.store, ns, id); err != nil {
				t.Fatalf("read: %v", err)
			}
		}
		for i := range seen {
			look(i)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "leader")
			now := r.now + int64(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds"))*time.Second)
			switch rapid.SampledFrom([]string{"look", "tick", "tick", "look and tick", "change", "restart"}).Draw(t, "what") {
			case "look":
				look(i)
			case "look and tick":
				look(i)
				fallthrough
			case "tick":
				s := seen[i]
				c := &command.Tick{NS: ns, ID: id, Due: s.Next, Version: s.Version}
				for c.Next = s.Next; c.Next <= now; c.Next += step {
					c.Ticks = append(c.Ticks, c.Next)
				}
				r.do(t, now, c)
			case "change":
				c := *put
				c.Change, c.Version = true, seen[i].Version
				c.Schedule.Job.Queue = rapid.SampledFrom([]string{"q", "p"}).Draw(t, "queue")
				r.do(t, now, &c)
			case "restart":
				r.machine = New(r.store, nil)
			}
		}
		r.audit(t)
		s, err := stateread.ReadSchedule(r.store, ns, id)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		jobs := map[int64]int{}
		heads, _, _, err := stateread.NewHeadReader(r.store).Heads(ns, job.ID{}, 1000)
		if err != nil {
			t.Fatalf("heads: %v", err)
		}
		for _, h := range heads {
			b, err := stateread.ReadBody(r.store, ns, h.ID)
			if err != nil {
				t.Fatalf("body: %v", err)
			}
			jobs[b.Tick]++
		}
		for at := epoch + step; at < s.Next; at += step {
			if jobs[at] != 1 {
				t.Fatalf("tick %s has %d jobs", timeText(at), jobs[at])
			}
			delete(jobs, at)
		}
		if len(jobs) > 0 {
			t.Fatalf("jobs of ticks that have not come: %v", jobs)
		}
	})
}

// A namespace whose data went as a range leaves due rows of its schedules; they go
// when their time comes.
func TestSchedule_DueRowsOutliveNoNamespace(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{'n'}, job.ScheduleID{'s'}
	r.do(t, epoch, &command.PutSchedule{NS: ns, ID: id, Next: epoch + 1e9, Schedule: command.Schedule{Name: "s", Job: command.Template{Queue: "q"}}})
	txn := r.store.NewTxn()
	txn.DeleteRange(keys.In(r.store.Prefix()).NamespaceSpan(ns))
	r.index++
	var err error
	if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
		t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	r.do(t, epoch+2e9, &command.Fire{Due: keys.Due{At: epoch + 1e9, Kind: keys.DueSchedule, NS: ns, ID: job.ID(id)}})
	if rows, err := bothDue(r.store, 0, epoch+3e9, 10); err != nil || len(rows) != 0 {
		t.Errorf("due rows are left: %v, %v", rows, err)
	}
}

// A namespace has so many schedules and no more, and a deleted one makes room again.
func TestSchedule_ANamespaceHasABoundedNumber(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{'n'}
	put := func(n int, name string) *command.PutSchedule {
		return &command.PutSchedule{NS: ns, ID: job.ScheduleID{1, byte(n >> 8), byte(n)}, Next: epoch + 1e9, Schedule: command.Schedule{
			Name: name, Cron: "a", Zone: "UTC", Job: command.Template{Queue: "q", Retry: command.DefaultRetry()},
		}}
	}
	cmds := make([]command.Command, SchedulesMax)
	for n := range cmds {
		cmds[n] = put(n, fmt.Sprint(n))
	}
	r.apply(t, logEntry{now: epoch, cmds: cmds})
	refused := func(want Refusal, c command.Command) {
		t.Helper()
		if got := r.do(t, r.now+1, c).Refusal; got != want {
			t.Fatalf("%+v: refusal %d, want %d", c, got, want)
		}
	}
	refused(TooMany, put(SchedulesMax, "more"))
	refused(Exists, put(1, "more"))
	change := put(2, "2")
	change.Change, change.Version, change.Schedule.Paused = true, 1, true
	refused(Accepted, change)
	refused(Accepted, &command.DeleteSchedule{NS: ns, ID: put(3, "").ID})
	refused(NotFound, &command.DeleteSchedule{NS: ns, ID: put(3, "").ID})
	refused(Exists, put(SchedulesMax, "4")) // And it is not counted.
	refused(Accepted, put(SchedulesMax, "more"))
	refused(TooMany, put(SchedulesMax+1, "yet more"))
}

// A schedule that had its last tick, and is changed so that it ticks again, does not
// make a job anew for an instant that it had: a slow clock may name one (R-T4).
func TestINV12_AScheduleThatEndedMakesNoTickTwice(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id, tick := job.Namespace{'n'}, job.ScheduleID{'s'}, epoch+1e9
	put := &command.PutSchedule{NS: ns, ID: id, Next: tick, Schedule: command.Schedule{Name: "s", Cron: "once", Job: command.Template{Queue: "q"}}}
	r.do(t, epoch, put)
	first := r.do(t, tick, &command.Tick{NS: ns, ID: id, Due: tick, Version: 1, Ticks: []int64{tick}})
	r.do(t, tick, &command.Delete{NS: ns, ID: first.ID})
	again := *put
	again.Change, again.Version, again.Schedule.Cron = true, 1, "twice"
	if res := r.do(t, tick, &again); res.Refusal != Accepted {
		t.Fatalf("the change answered %+v", res)
	}
	r.do(t, tick, &command.Tick{NS: ns, ID: id, Due: tick, Version: 2, Ticks: []int64{tick}, Next: tick + 1e9})
	if jobs := r.audit(t); len(jobs) != 0 {
		t.Errorf("the tick made another job: %+v", jobs)
	}
}
