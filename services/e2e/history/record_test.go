package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// story builds a record event by event.
type story struct {
	Record
	now int64
}

func (s *story) event(kind wire.EventType, id string, from, to wire.State) {
	s.now += int64(10 * time.Millisecond)
	if kind == wire.EventStarted {
		s.Jobs[id].Attempt++
	}
	s.Events = append(s.Events, &wire.Event{Seq: uint64(len(s.Events)) + 1, Type: kind, AtNS: s.now, JobID: id, Data: &wire.EventData{State: to, From: from, Attempt: s.Jobs[id].Attempt}})
	s.Jobs[id].State = to
	if kind == wire.EventLeaseExpired {
		s.Jobs[id].Crashes++
	}
	s.Rows[id] = wire.JobRow{ID: id, Queue: s.Jobs[id].Queue, Priority: s.Jobs[id].Priority, State: to, Attempt: s.Jobs[id].Attempt, Crashes: s.Jobs[id].Crashes}
}

func (s *story) make(id, queue string) *corvo.JobInfo { return s.rank(id, queue, 0) }

func (s *story) rank(id, queue string, priority int) *corvo.JobInfo {
	s.Jobs[id] = &corvo.JobInfo{ID: id, Queue: queue, Priority: priority}
	s.event(wire.EventEnqueued, id, "", wire.Pending)
	return s.Jobs[id]
}

func (s *story) start(id string)    { s.event(wire.EventStarted, id, wire.Pending, wire.Active) }
func (s *story) complete(id string) { s.event(wire.EventCompleted, id, wire.Active, wire.Completed) }
func (s *story) run(id string)      { s.start(id); s.complete(id) }

func (s *story) step(id string, step int) { s.stepOf("c", id, step) }

func (s *story) stepOf(chain, id string, step int) {
	job := s.make(id, "steps of "+chain)
	job.ChainID, job.ChainStep, job.Payload = chain, new(step), json.RawMessage(`{"steps":2}`)
}

// die runs a job for the last time.
func (s *story) die(id string) {
	s.start(id)
	s.event(wire.EventFailed, id, wire.Active, wire.Dead)
	s.event(wire.EventDead, id, "", wire.Dead)
}

// remove takes jobs out of the record, with their events.
func (s *story) remove(ids ...string) {
	for _, id := range ids {
		delete(s.Jobs, id)
		delete(s.Rows, id)
	}
	s.Events = slices.DeleteFunc(s.Events, func(e *wire.Event) bool { return slices.Contains(ids, e.JobID) })
	for i, e := range s.Events {
		e.Seq = uint64(i) + 1
	}
}

// pausedAfter pauses the schedule so long after it was made.
func (s *story) pausedAfter(d time.Duration) {
	s.Schedules[0].UpdatedAt = s.Schedules[0].CreatedAt.Add(d)
}

// tick makes the job of a tick, when its time has come.
func (s *story) tick(id string, at int64) {
	s.now = max(s.now, time.Unix(at, 0).UnixNano())
	job := s.make(id, "ticks")
	job.ScheduleID, job.ScheduledAt = "s", time.Unix(at, 0)
}

// good is a namespace in which everything went well.
func good() *story {
	s := &story{now: time.Unix(1000, 0).UnixNano(), Record: Record{Jobs: map[string]*corvo.JobInfo{}, Rows: map[string]wire.JobRow{}}}
	s.make("a", "limited")
	s.make("b", "limited")
	s.start("a")
	s.event(wire.EventLeaseExpired, "a", wire.Active, wire.Pending)
	s.run("b")
	s.run("a")

	s.make("u", "once").UniqueKey = "k"
	s.run("u")
	s.make("u2", "once").UniqueKey = "k"
	s.run("u2")

	s.make("m", "members").BatchID = "b1"
	s.make("m2", "members").BatchID = "b1"
	s.Batches = []wire.Batch{{ID: "b1", Total: 2}}
	s.run("m")
	s.run("m2")
	s.make("called", "callbacks").Payload = json.RawMessage(`{"batch_id":"b1"}`)

	s.step("c0", 0)
	s.run("c0")
	s.step("c1", 1)
	s.run("c1")
	s.step("cx", onExit)

	s.Schedules = []wire.Schedule{{ID: "s", Name: "often", Missed: 1, CreatedAt: time.Unix(1000, 0), Paused: true, UpdatedAt: time.Unix(1004, 0)}}
	s.tick("t1", 1001)
	s.tick("t3", 1003)
	return s
}

func TestRecord_EveryBreachIsFound(t *testing.T) {
	t.Parallel()
	limits := map[string]Limit{"limited": {Concurrency: 1}, "throttled": {Starts: 2, Window: 50 * time.Millisecond, Until: time.Unix(2000, 0)}, "flaky": {Backoff: 500 * time.Millisecond, Until: time.Unix(2000, 0)}}
	for _, tt := range []struct {
		name, breach string
		change       func(s *story)
	}{
		{"nothing wrong", "", func(*story) {}},
		{"events are lost", "INV-13: the service no longer has", func(s *story) { s.Lost = true }},
		{"an event is missing", "INV-13: event 2 comes in place 1", func(s *story) { s.Events = s.Events[1:] }},
		{"time goes back", "INV-19", func(s *story) { s.Events[4].AtNS -= int64(time.Second) }},
		{"a job is gone", "INV-1: event", func(s *story) { delete(s.Jobs, "b") }},
		{"a change has another beginning", "INV-4: event 3", func(s *story) { s.Events[2].Data.From = wire.Retrying }},
		{"a first event is none", "INV-4: the first event of a", func(s *story) { s.Events[0].Data.From = wire.Retrying }},
		{"a change without a beginning", "INV-4: event 3", func(s *story) { s.Events[2].Data.From = "" }},
		{"ready again without a cause", `INV-4: x is "active", and event`, func(s *story) {
			s.make("x", "other")
			s.start("x")
			s.event(wire.EventEnqueued, "x", wire.Active, wire.Pending)
		}},
		{"again after its end", `INV-4: a is "completed", and event`, func(s *story) { s.event(wire.EventEnqueued, "a", wire.Completed, wire.Pending) }},
		{"made twice", `INV-4: x is "pending", and event`, func(s *story) { s.make("x", "other"); s.event(wire.EventEnqueued, "x", "", wire.Pending) }},
		{"begun by its first event", `INV-4: x is "", and event`, func(s *story) {
			s.Jobs["x"] = &corvo.JobInfo{ID: "x", Queue: "other"}
			s.event(wire.EventStarted, "x", "", wire.Active)
		}},
		{"begun while it is scheduled", `INV-4: x is "scheduled", and event`, func(s *story) {
			s.Jobs["x"] = &corvo.JobInfo{ID: "x", Queue: "other"}
			s.event(wire.EventScheduled, "x", "", wire.Scheduled)
			s.event(wire.EventStarted, "x", wire.Scheduled, wire.Active)
		}},
		{"begun twice", `INV-4: x is "active", and event`, func(s *story) { s.make("x", "other"); s.start("x"); s.event(wire.EventStarted, "x", "", wire.Active) }},
		{"completed twice", `INV-3: a is "completed", and event`, func(s *story) { s.event(wire.EventCompleted, "a", wire.Completed, wire.Completed) }},
		{"completed twice, without a change", `INV-3: a is "completed", and event`, func(s *story) { s.event(wire.EventCompleted, "a", "", wire.Completed) }},
		{"completed without a lease", `INV-3: x is "pending", and event`, func(s *story) { s.make("x", "other"); s.event(wire.EventCompleted, "x", wire.Pending, wire.Completed) }},
		{"deleted, and still there", `INV-4: a is "completed", and event`, func(s *story) { s.event(wire.EventDeleted, "a", wire.Completed, "") }},
		{"a failure and its second event", "", func(s *story) {
			s.make("x", "other")
			s.start("x")
			s.event(wire.EventFailed, "x", wire.Active, wire.Retrying)
			s.event(wire.EventRetrying, "x", "", wire.Retrying)
			s.event(wire.EventPromoted, "x", wire.Retrying, wire.Pending)
			s.run("x")
		}},
		{"a lease that ran out is not in the job", "INV-4: a has 0 crashes", func(s *story) { s.Jobs["a"].Crashes = 0 }},
		{"a crash that no lease tells of", "INV-4: b has 1 crashes", func(s *story) { s.Jobs["b"].Crashes = 1 }},
		{"ended, and ready again: promoted", `INV-4: a is "completed", and event`, again(wire.EventPromoted, wire.Pending)},
		{"ended, and ready again: given back", `INV-4: a is "completed", and event`, again(wire.EventReleased, wire.Pending)},
		{"ended, and ready again: its lease ran out", `INV-4: a is "completed", and event`, again(wire.EventLeaseExpired, wire.Pending)},
		{"ended, and ended again: it expired", `INV-4: a is "completed", and event`, again(wire.EventExpired, wire.Dead)},
		{"expired while it ran", `INV-4: x is "active", and event`, func(s *story) {
			s.make("x", "other")
			s.start("x")
			s.event(wire.EventExpired, "x", wire.Active, wire.Dead)
		}},
		{"another end than the events tell", "INV-9: b is pending", func(s *story) { s.Jobs["b"].State = wire.Pending }},
		{"two hold a key", "INV-5", func(s *story) { s.make("u3", "once").UniqueKey = "k"; s.lockTwice() }},
		{"two at a time", "INV-6", func(s *story) { s.make("x", "limited"); s.make("y", "limited"); s.start("x"); s.start("y") }},
		{"two at a time, one of which is being cancelled", "INV-6", func(s *story) {
			s.make("x", "limited")
			s.make("y", "limited")
			s.start("x")
			s.event(wire.EventCancelRequested, "x", wire.Active, wire.Cancelling)
			s.start("y")
		}},
		{"too many starts", "INV-7", func(s *story) {
			for _, id := range []string{"x", "y", "z"} {
				s.make(id, "throttled")
			}
			for _, id := range []string{"x", "y", "z"} {
				s.run(id)
			}
		}},
		{"starts while lease time catches up", "", func(s *story) { s.starts("throttled", 24*time.Millisecond) }},
		{"starts that come sooner than that", "INV-7", func(s *story) { s.starts("throttled", 23*time.Millisecond) }},
		{"out of turn", "INV-8", func(s *story) { s.make("x", "other"); s.make("y", "other"); s.start("y") }},
		{"in another order in one entry", "", func(s *story) {
			s.make("x", "other")
			s.make("y", "other")
			s.start("y")
			s.now -= int64(10 * time.Millisecond)
			s.start("x")
		}},
		{"before a better priority", "INV-8: event", func(s *story) { s.rank("x", "other", 1); s.rank("y", "other", 2); s.start("y") }},
		{"before a better priority of another queue", "", func(s *story) { s.rank("x", "other", 1); s.rank("y", "another", 2); s.start("y") }},
		{"a better priority first", "", func(s *story) {
			s.rank("x", "other", 2)
			s.rank("y", "other", 1)
			s.start("y")
			s.start("x")
		}},
		{"before a better priority that comes with the same entry", "", func(s *story) {
			s.rank("x", "other", 2)
			s.rank("y", "other", 1)
			s.now -= int64(10 * time.Millisecond)
			s.start("x")
		}},
		{"out of turn after a lost lease", "INV-8", func(s *story) { s.Events[4], s.Events[6] = s.Events[6], s.Events[4]; s.renumber() }},
		{"a row is missing", "INV-15: the lists do not show b", func(s *story) { delete(s.Rows, "b") }},
		{"a row too many", "INV-15: the lists show z", func(s *story) { s.Rows["z"] = wire.JobRow{} }},
		{"a row of an earlier attempt", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.Attempt-- })},
		{"a row with other retries", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.MaxRetries++ })},
		{"a row that died of something else", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.DeadReason = wire.DeadReason("other") })},
		{"a row made at another time", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.CreatedAt = time.Unix(1, 0) })},
		{"a row completed at another time", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.CompletedAt = time.Unix(1, 0) })},
		{"a row failed at another time", "INV-15: the lists show a as", row(func(r *wire.JobRow) { r.FailedAt = time.Unix(1, 0) })},
		{"a late row", "INV-15: the lists show a as", func(s *story) { s.Rows["a"] = wire.JobRow{Queue: "limited", State: wire.Active, Crashes: 1} }},
		{"no callback", "INV-10: batch b1 has ended", func(s *story) { s.Jobs["called"].Payload = nil }},
		{"two callbacks", "INV-10: batch b1 has ended", func(s *story) { s.make("again", "callbacks").Payload = json.RawMessage(`{"batch_id":"b1"}`) }},
		{"a callback too early", "INV-10: batch b1 has 2 jobs, 0 of them open", func(s *story) { s.make("m3", "members").BatchID = "b1" }},
		{"a callback with jobs open", "INV-10: batch b1 called back with", func(s *story) {
			s.make("m3", "members").BatchID = "b1"
			s.Batches[0].Total, s.Batches[0].Open = 3, 1
		}},
		{"a callback before the last end", "INV-10: batch b1 called back in event", func(s *story) {
			s.make("m3", "members").BatchID = "b1"
			s.Batches[0].Total = 3
			s.run("m3")
		}},
		{"a batch that counts another number open", "INV-10: batch b1 has 2 jobs, 1 of them open", func(s *story) { s.Batches[0].Open = 1 }},
		{"a callback of nothing", "INV-10: [called] are callbacks", func(s *story) { s.Batches = nil }},
		{"a batch that is gone with its callback", "are jobs of the batch b1, which is not there", func(s *story) { s.Batches = nil; s.remove("called") }},
		{"a step twice", "INV-11: step 1 of chain c is two jobs", func(s *story) { s.step("again", 1) }},
		{"a step out of nowhere", "INV-11: chain c has step 3", func(s *story) { s.step("far", 3) }},
		{"a step too early", "INV-11: step 1 of chain c was made in", func(s *story) { s.Jobs["c0"].State = wire.Dead }},
		{"a step before the one before it ended", "INV-11: step 1 of chain d was made in", func(s *story) {
			s.stepOf("d", "d0", 0)
			s.stepOf("d", "d1", 1)
			s.run("d0")
			s.run("d1")
			s.stepOf("d", "dx", onExit)
		}},
		{"a chain that stops", "INV-11: step 1 of chain c is completed", func(s *story) { s.Jobs["cx"].ChainID = "" }},
		{"on_exit before the steps", "INV-11: chain d has step -1 and not the one before", func(s *story) {
			s.stepOf("d", "d0", 0)
			s.stepOf("d", "dx", onExit)
		}},
		{"on_exit of a chain that failed", "INV-11: step -1 of chain c was made in", func(s *story) { s.Jobs["c1"].State = wire.Dead }},
		{"on_failure without a failure", "INV-11: cf is for a failure of chain c", func(s *story) { s.step("cf", onFailure) }},
		{"on_failure before the failure", "INV-11: df is for a failure of chain d", func(s *story) {
			s.stepOf("d", "d0", 0)
			s.stepOf("d", "df", onFailure)
			s.die("d0")
		}},
		{"a chain that failed", "", func(s *story) {
			s.stepOf("d", "d0", 0)
			s.die("d0")
			s.stepOf("d", "df", onFailure)
		}},
		{"a failure that nobody hears of", "INV-11: step 0 of chain d is dead and there is no step -2", func(s *story) {
			s.stepOf("d", "d0", 0)
			s.die("d0")
		}},
		{"a job of a chain of unknown length", "INV-11: step 1 of chain c does not tell", func(s *story) { s.Jobs["c1"].Payload = nil }},
		{"a tick twice", "INV-12: the tick of often at 1003", func(s *story) { s.tick("t4", 1003) }},
		{"a schedule that never ticks", "INV-12: often never ticked", func(s *story) { s.remove("t1", "t3"); s.pausedAfter(time.Minute) }},
		{"a schedule that was paused before its first tick", "", func(s *story) { s.remove("t1", "t3") }},
		{"a schedule that begins late", "INV-12: often was made at", func(s *story) { s.Schedules[0].CreatedAt = time.Unix(900, 0) }},
		{"a schedule that stops", "INV-12: often ticked last at", func(s *story) { s.pausedAfter(time.Hour) }},
		{"a schedule that stops and is not paused", "INV-12: often ticked last at", func(s *story) {
			s.Schedules[0].Paused = false
			s.now += int64(time.Hour)
			s.make("x", "other")
		}},
		{"a tick before its time", "INV-12: event", func(s *story) { s.Jobs["t3"].ScheduledAt = time.Unix(1004, 0); s.Schedules[0].Missed = 2 }},
		{"most ticks missed while others are served", "INV-12: of 60 ticks often has 3 jobs", func(s *story) {
			s.serve(60)
			s.tick("t60", 1060)
			s.Schedules[0].Missed = 57
			s.pausedAfter(time.Minute)
		}},
		{"most ticks missed while nobody was served", "", func(s *story) {
			s.tick("t60", 1060)
			s.Schedules[0].Missed = 57
			s.pausedAfter(time.Minute)
		}},
		{"a delayed job before its time", "INV-12: event", func(s *story) { s.delayed("x", time.Second, 900*time.Millisecond) }},
		{"a delayed job in its time", "", func(s *story) { s.delayed("x", time.Second, time.Second) }},
		{"tried again too soon", "INV-4: event", func(s *story) { s.triesAgain("x", 300*time.Millisecond) }},
		{"tried again in time", "", func(s *story) { s.triesAgain("x", 500*time.Millisecond) }},
		{"an attempt that is counted twice", "INV-4: event 3 starts attempt 2", func(s *story) { s.Events[2].Data.Attempt = 2 }},
		{"an attempt too many", "INV-4: b is in attempt 2", func(s *story) { s.Jobs["b"].Attempt = 2 }},
		{"an attempt that was given back", "", func(s *story) {
			s.make("x", "other")
			s.start("x")
			s.event(wire.EventReleased, "x", wire.Active, wire.Pending)
			s.Jobs["x"].Attempt--
			s.run("x")
		}},
		{"a row twice", "INV-15: the lists show a more than once", func(s *story) { s.Twice = []string{"a"} }},
		{"a tick lost", "INV-12: often ticked 4 times", func(s *story) { s.tick("t4", 1004); s.Schedules[0].Missed = 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := good()
			tt.change(s)
			found := strings.Join(s.Check(limits), "\n")
			if tt.breach == "" && found != "" || !strings.Contains(found, tt.breach) {
				t.Errorf("found %q, want %q", found, tt.breach)
			}
		})
	}
}

// serve has something happen in each of so many seconds.
func (s *story) serve(seconds int) {
	for i := range seconds {
		s.now += int64(time.Second)
		s.make(fmt.Sprint("served", i), "other")
	}
}

// starts begins three jobs, so long after each other.
func (s *story) starts(queue string, apart time.Duration) {
	for _, id := range []string{"x", "y", "z"} {
		s.make(id, queue)
	}
	for _, id := range []string{"x", "y", "z"} {
		s.now += int64(apart - 20*time.Millisecond) // A run is two events.
		s.run(id)
	}
}

// delayed makes a job with a delay, which is ready after so long.
func (s *story) delayed(id string, delay, after time.Duration) {
	s.Jobs[id] = &corvo.JobInfo{ID: id, Queue: "later"}
	s.event(wire.EventScheduled, id, "", wire.Scheduled)
	s.Jobs[id].ScheduledAt = time.Unix(0, s.now).Add(delay)
	s.now += int64(after - 10*time.Millisecond)
	s.event(wire.EventPromoted, id, wire.Scheduled, wire.Pending)
}

// triesAgain has a job fail, and be ready again after so long.
func (s *story) triesAgain(id string, after time.Duration) {
	s.make(id, "flaky")
	s.start(id)
	s.event(wire.EventFailed, id, wire.Active, wire.Retrying)
	s.now += int64(after - 10*time.Millisecond)
	s.event(wire.EventPromoted, id, wire.Retrying, wire.Pending)
}

// lockTwice makes one more job with the key of the last.
func (s *story) lockTwice() { s.make("u4", "once").UniqueKey = "k" }

func (s *story) renumber() {
	for i, e := range s.Events {
		e.Seq, e.AtNS = uint64(i)+1, time.Unix(1000, int64(i)*int64(time.Second/10)).UnixNano()
	}
}

// again has a job that is completed go on.
func again(kind wire.EventType, to wire.State) func(*story) {
	return func(s *story) { s.event(kind, "a", wire.Completed, to) }
}

// row has the lists show a job otherwise.
func row(change func(r *wire.JobRow)) func(*story) {
	return func(s *story) {
		r := s.Rows["a"]
		change(&r)
		s.Rows["a"] = r
	}
}

func TestRegister_AnswersNeedAnOrder(t *testing.T) {
	t.Parallel()
	r := NewRegister()
	r.Wrote(0, 1, time.Now(), true)
	maybe := time.Now()
	r.Read(1, 1, time.Now())
	r.Wrote(0, 2, maybe, false)
	r.Wrote(0, 9, maybe, false) // Nobody saw it.
	r.Read(1, 1, time.Now())
	r.Read(1, 2, time.Now())
	if found := r.Check(); len(found) > 0 {
		t.Errorf("a write that took its time is no breach: %v", found)
	}
	r.Read(1, 1, time.Now())
	for _, deaf := range []*Register{{calls: r.calls[:1]}, {calls: r.calls[1:2]}} {
		if found := deaf.Check(); len(found) == 0 {
			t.Error("a register that nobody read, or nobody wrote, passes")
		}
	}
	if found := r.Check(); len(found) == 0 {
		t.Error("a value that comes back after another was not found")
	}
}
