package queue

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
)

func everySecond(name string) ScheduleInput {
	return ScheduleInput{Name: name, Cron: "* * * * * *", Job: EnqueueInput{Queue: "q"}}
}

func (r *rig) schedule(in ScheduleInput) Schedule {
	r.t.Helper()
	s, err := r.CreateSchedule(r.ctx(), r.caller, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// ticks is how many jobs there are of each tick of a schedule.
func (r *rig) ticks(id job.ScheduleID) map[int64]int {
	r.t.Helper()
	out := map[int64]int{}
	store := r.shard.Store()
	heads, _, _, err := stateread.NewHeadReader(store).Heads(r.caller.Namespace, job.ID{}, 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range heads {
		b, err := stateread.ReadBody(store, r.caller.Namespace, h.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		if b.Schedule == id {
			out[b.Tick]++
		}
	}
	return out
}

// R-T4, INV-12: over restarts every tick has exactly one job.
func TestINV12_RestartsLoseAndDoubleNoTick(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	d := grouptest.InMemory()
	r := open(t, d)
	s := r.schedule(everySecond("often"))
	for range 4 {
		time.Sleep(700 * time.Millisecond)
		r.stop()
		r = open(t, d)
	}
	time.Sleep(1200 * time.Millisecond)
	got := r.ticks(scheduleOf(s.ID))
	first, last := s.NextRunAt.UnixNano(), int64(0)
	for at, n := range got {
		if n != 1 {
			t.Errorf("tick %d has %d jobs", at, n)
		}
		last = max(last, at)
	}
	if want := int((last-first)/int64(time.Second)) + 1; len(got) != want || want < 4 {
		t.Errorf("%d ticks have a job, want all %d from %d to %d", len(got), want, first, last)
	}
	now, err := r.Schedule(r.ctx(), r.caller, scheduleOf(s.ID))
	if err != nil || now.Missed != 0 || now.LastJobID == "" || len(now.NextRuns) != NextRunsShown {
		t.Errorf("afterwards it is %+v, %v", now, err)
	}
	r.stop()
}

// What the old rule was waiting for says nothing of the new one.
func TestSchedule_AChangeToEarlierTicksBeginsAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	yearly := everySecond("changed")
	yearly.Cron = "0 0 1 1 *"
	s := r.schedule(yearly)
	next, err := r.PutSchedule(r.ctx(), r.caller, scheduleOf(s.ID), 0, everySecond("changed"))
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(r.t, patience, "the first tick of the new rule", func() bool { return len(r.ticks(scheduleOf(s.ID))) > 0 })
	if got := r.ticks(scheduleOf(s.ID)); got[next.NextRunAt.UnixNano()] != 1 {
		t.Errorf("ticks %v, want one at %d", got, next.NextRunAt.UnixNano())
	}
}

// Ticks that nobody could make in their time are made good by policy, and counted.
func TestPlan_CatchesUpByPolicy(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		policy  command.CatchUp
		late    time.Duration
		ticks   int
		missed  uint64
		lastAgo time.Duration // Of the last tick, before now.
	}{
		{"in time", command.CatchUpSkip, 3 * time.Millisecond, 1, 0, 3 * time.Millisecond},
		{"a change of leader is not an outage", command.CatchUpSkip, 3 * time.Second, 1, 0, 3 * time.Second},
		{"skip", command.CatchUpSkip, 30 * time.Second, 0, 1, 0},
		{"skip with one on time", command.CatchUpSkip, 3*time.Minute + time.Second, 1, 3, time.Second},
		{"once makes the latest", command.CatchUpOnce, 3*time.Minute + 30*time.Second, 1, 3, 30 * time.Second},
		{"once, with one on time", command.CatchUpOnce, 3*time.Minute + time.Second, 1, 3, time.Second},
		{"all", command.CatchUpAll, 3*time.Minute + 30*time.Second, 4, 0, 30 * time.Second},
		{"all is a hundred", command.CatchUpAll, 1000 * time.Minute, 100, 901, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &records.Schedule{Schedule: command.Schedule{Cron: "* * * * *", Zone: "UTC", CatchUp: c.policy}, Next: due.UnixNano(), Since: due.UnixNano()}
			now := due.Add(c.late)
			p, err := Plan(job.ScheduleID{1}, s, now.UnixNano())
			if err != nil || len(p.Ticks) != c.ticks || p.Missed != c.missed {
				t.Fatalf("%d ticks, %d missed, %v; want %d and %d", len(p.Ticks), p.Missed, err, c.ticks, c.missed)
			}
			if n := len(p.Ticks); n > 0 && p.Ticks[n-1] != now.Add(-c.lastAgo).UnixNano() {
				t.Errorf("the last tick is %s before now, want %s", time.Duration(now.UnixNano()-p.Ticks[n-1]), c.lastAgo)
			}
			if next := time.Unix(0, p.Next); next.Before(now) || next.Sub(now) > time.Minute {
				t.Errorf("goes on at %s, now is %s", next, now)
			}
		})
	}
}

func TestSchedule_RefusesByField(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.CreateSchedule(r.ctx(), r.caller, ScheduleInput{
		Name: "a\nb", Cron: "61 * * * *", Timezone: "Mars/Olympus", Jitter: 48 * time.Hour, Overlap: "never", CatchUp: "some",
		Job: EnqueueInput{Queue: "a b", Payload: []byte("{"), Priority: "urgent", MaxRetries: ptr(-1), ExpireAfter: ptr(time.Duration(-1))},
	})
	equal(t, "fields", paths(err), []string{
		"name", "timezone", "cron", "jitter", "overlap", "catch_up", "queue", "payload", "priority", "max_retries", "expire_after",
	})
	_, err = r.CreateSchedule(r.ctx(), r.caller, ScheduleInput{})
	equal(t, "fields of nothing", paths(err), []string{"name", "cron", "queue"})
	_, err = r.PreviewSchedule(r.ctx(), "0 0 30 2 *", "UTC")
	equal(t, "fields of a preview", paths(err), []string{"cron"})

	r.schedule(everySecond("taken"))
	_, err = r.CreateSchedule(r.ctx(), r.caller, everySecond("taken"))
	if f := fault.As(err); f == nil || f.Code != fault.Conflict || len(f.Fields) != 1 || f.Fields[0].Path != "name" {
		t.Errorf("a name twice: %v", err)
	}
}

// A pause and changes at the same time all count.
func TestSchedule_ChangesAtTheSameTimeUndoNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	s := r.schedule(ScheduleInput{Name: "n", Cron: "@yearly", Job: EnqueueInput{Queue: "q"}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			in := ScheduleInput{Name: "n", Cron: "@yearly", Job: EnqueueInput{Queue: "other"}}
			if _, err := r.PutSchedule(r.ctx(), r.caller, scheduleOf(s.ID), 0, in); err != nil {
				t.Errorf("change: %v", err)
			}
		})
	}
	all.Go(func() {
		if err := r.PauseSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); err != nil {
			t.Errorf("pause: %v", err)
		}
	})
	all.Wait()
	now, err := r.Schedule(r.ctx(), r.caller, scheduleOf(s.ID))
	if err != nil || !now.Paused || now.Queue != "other" || now.Version != 6 || now.NextRunAt != nil {
		t.Errorf("it is %+v, %v", now, err)
	}
	if _, err := r.PutSchedule(r.ctx(), r.caller, scheduleOf(s.ID), s.Version, everySecond("n")); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a change of what was read long ago: %v", err)
	}
}

func TestSchedule_LifeAndOverlap(t *testing.T) {
	t.Parallel()
	r := start(t)
	s := r.schedule(ScheduleInput{
		Name: "nightly", Cron: "0 2 * * *", Timezone: "Europe/Berlin", Overlap: "skip", Paused: ptr(true),
		Job: EnqueueInput{Queue: "q", Payload: []byte(`{"n":1}`), Priority: "high", MaxRetries: ptr(7), Tags: map[string]string{"k": "v"}},
	})
	if s.NextRunAt != nil || s.NextRuns != nil || !s.Paused {
		t.Errorf("paused: %+v", s)
	}
	run, err := r.RunSchedule(r.ctx(), r.caller, scheduleOf(s.ID))
	if err != nil {
		t.Fatal(err)
	}
	if j := r.job(idOf(run.JobID)); j.ScheduleID != s.ID || string(j.Payload) != `{"n":1}` || j.Priority != int(job.High) || j.MaxRetries != 7 || j.Tags["k"] != "v" {
		t.Errorf("its job is %+v", j)
	}
	if _, err := r.RunSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); reason(err) != "CONFLICT" {
		t.Errorf("a second run while the first is pending: %v", err)
	}
	if g := r.one(); g.JobID != run.JobID {
		t.Errorf("handed out %s", g.JobID)
	}
	if err := r.ResumeSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); err != nil {
		t.Fatal(err)
	}
	if s, err = r.Schedule(r.ctx(), r.caller, scheduleOf(s.ID)); err != nil || s.NextRunAt == nil || s.LastJobID != run.JobID {
		t.Errorf("resumed: %+v, %v", s, err)
	}
	if err := r.DeleteSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"read":   func() error { _, err := r.Schedule(r.ctx(), r.caller, scheduleOf(s.ID)); return err }(),
		"delete": r.DeleteSchedule(r.ctx(), r.caller, scheduleOf(s.ID)),
		"pause":  r.PauseSchedule(r.ctx(), r.caller, scheduleOf(s.ID)),
		"run":    func() error { _, err := r.RunSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); return err }(),
	} {
		if reason(err) != "NOT_FOUND" {
			t.Errorf("%s of a deleted schedule: %v", what, err)
		}
	}
	r.job(idOf(run.JobID)) // Stays.
}

// Pages are complete and in order, and another namespace sees none of it.
func TestSchedules_PageByPage(t *testing.T) {
	t.Parallel()
	r := start(t)
	var want []string
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		want = append(want, r.schedule(ScheduleInput{Name: name, Cron: "@daily", Job: EnqueueInput{Queue: "q"}}).ID)
	}
	var got []string
	for cursor := "first"; cursor != ""; {
		if cursor == "first" {
			cursor = ""
		}
		page, err := r.Schedules(r.ctx(), r.caller, PageInput{Cursor: cursor, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Schedules {
			got = append(got, s.ID)
		}
		cursor = page.Cursor
	}
	equal(t, "ids", got, slices.Sorted(slices.Values(want)))
	other := r.caller
	other.Namespace = job.Namespace{6}
	if page, err := r.Schedules(r.ctx(), other, PageInput{}); err != nil || len(page.Schedules) != 0 {
		t.Errorf("another namespace sees %+v, %v", page, err)
	}
	id, err := job.ParseScheduleID(got[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Schedule(r.ctx(), other, id); reason(err) != "NOT_FOUND" {
		t.Errorf("another namespace reads it: %v", err)
	}
	_, err = r.Schedules(r.ctx(), r.caller, PageInput{Cursor: "nonsense", Limit: -1})
	equal(t, "fields", paths(err), []string{"cursor", "limit"})
}

// A full disk takes no ticks and loses none, and soon after there is space they go on.
func TestSchedule_FullDiskPutsTicksOff(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.shard.RefuseJobs([]string{"n2"})
	s := r.schedule(everySecond("often"))
	eventually.True(r.t, patience, "the schedule is put off", func() bool {
		now, err := r.Schedule(r.ctx(), r.caller, scheduleOf(s.ID))
		return err == nil && now.NextRunAt.Sub(*s.NextRunAt) > time.Second
	})
	if n := len(r.ticks(scheduleOf(s.ID))); n != 0 {
		t.Errorf("%d jobs on a full disk", n)
	}
	if _, err := r.RunSchedule(r.ctx(), r.caller, scheduleOf(s.ID)); reason(err) != "DISK_FULL" {
		t.Errorf("by hand: %v", err)
	}
	rec, err := r.readSchedule(t.Context(), r.caller, permission.ScheduleRead, scheduleOf(s.ID))
	if err != nil || rec.Since != s.NextRunAt.UnixNano() || rec.Missed != 0 {
		t.Errorf("ticks since %d, missed %d, %v; want since %d", rec.Since, rec.Missed, err, s.NextRunAt.UnixNano())
	}
	r.shard.RefuseJobs(nil)
	eventually.True(r.t, 12*time.Second, "it ticks again", func() bool { return len(r.ticks(scheduleOf(s.ID))) > 0 })
}

// The store's memory is used again after a scan: a payload that was a part of it would be other bytes by the time
// it is sent.
func TestSchedules_KeepNothingOfTheStoresMemory(t *testing.T) {
	t.Parallel()
	r := start(t)
	in := everySecond("s")
	in.Job.Payload = []byte(`{"a":1}`)
	r.schedule(in)
	g := r.shard.Store()
	list, err := stateread.ReadSchedules(g, r.caller.Namespace, job.ScheduleID{}, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d schedules: %v", len(list), err)
	}
	payload := list[0].Job.Payload
	from, to := keys.In(g.Prefix()).SchedulesAfter(r.caller.Namespace, job.ScheduleID{})
	if err := g.Scan(from, to, func(_, value []byte) (bool, error) {
		for i := range value {
			if &value[i] == &payload[0] {
				t.Error("the payload is a part of the store's memory")
			}
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
}
