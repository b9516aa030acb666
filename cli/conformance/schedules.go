package conformance

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// everySecond is a schedule for rules that wait for ticks. A tick is made also when it
// is some seconds late, so these rules hold on a machine that stands still for a while.
const everySecond = "* * * * * *"

// scheduleView is a cron schedule as it is shown.
type scheduleView struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Cron         string            `json:"cron"`
	Timezone     string            `json:"timezone"`
	Queue        string            `json:"queue"`
	Payload      JSON              `json:"payload"`
	Priority     string            `json:"priority"`
	Tags         map[string]string `json:"tags"`
	MaxRetries   *int              `json:"max_retries"`
	Backoff      string            `json:"retry_backoff"`
	BaseDelayMS  *int64            `json:"retry_base_delay_ms"`
	UniqueKey    string            `json:"unique_key"`
	UniquePeriod int               `json:"unique_period"`
	ExpireAfter  string            `json:"expire_after"`
	Jitter       string            `json:"jitter"`
	Overlap      string            `json:"overlap"`
	CatchUp      string            `json:"catch_up"`
	Paused       bool              `json:"paused"`
	NextRunAt    time.Time         `json:"next_run_at"`
	NextRuns     []time.Time       `json:"next_runs"`
	LastRunAt    time.Time         `json:"last_run_at"`
	LastJobID    string            `json:"last_job_id"`
	Missed       int               `json:"missed"`
	CreatedAt    time.Time         `json:"created_at"`
}

const schedulesPath = "/api/v1/schedules"

func schedulePath(id, rest string) string { return schedulesPath + "/" + id + rest }

// Schedule makes a schedule for a queue, by default every second and with the queue's
// name.
func (t *T) Schedule(q string, more object) scheduleView {
	s := Post[scheduleView](t, schedulesPath, object{"queue": q, "name": q, "cron": everySecond}.with(more))
	t.Made(schedulePath(s.ID, ""))
	return s
}

// ScheduleNow shows a schedule.
func (t *T) ScheduleNow(id string) scheduleView { return Get[scheduleView](t, schedulePath(id, "")) }

// DoSchedule asks for an action on a schedule and wants its status.
func (t *T) DoSchedule(id, action, want string) { t.Status(schedulePath(id, "/"+action), nil, want) }

// RunSchedule makes a job of a schedule by hand.
func (t *T) RunSchedule(id string) string {
	out := Post[Enqueued](t, schedulePath(id, "/run"), nil)
	Equal(t, "status of a run", out.Status, "pending")
	return out.ID
}

// ticks waits until seconds have passed on the clock of the server, which makes ticks.
func (t *T) ticks(n int) {
	q := t.Queue()
	s := t.Schedule(q, nil)
	for range n {
		t.Fetch(q)
	}
	t.Call(http.MethodDelete, schedulePath(s.ID, ""), nil, nil)
}

// Runs asks when an expression would run.
func (t *T) Runs(cron, zone string) []time.Time {
	return Post[scheduleView](t, schedulesPath+"/preview", object{"cron": cron, "timezone": zone}).NextRuns
}

var scheduleRules = []Rule{
	{Name: "each tick makes one job, and none is left out", Timed: true, Needs: "schedules", Run: func(t *T, q string) {
		s := t.Schedule(q, nil)
		first := s.NextRunAt
		t.FailIf(first.IsZero() || first.Nanosecond() != 0 || !s.LastRunAt.IsZero() || s.LastJobID != "", "made as %+v", s)
		ticks := map[time.Time]bool{}
		note := func(l Lease) {
			j := t.Job(l.ID)
			Equal(t, "schedule of the job", j.ScheduleID, s.ID)
			at := j.ScheduledAt
			t.FailIf(ticks[at] || at.Before(first) || j.StartedAt.Before(at), "a job for the tick at %s, started at %s; the first tick was at %s, there were %v", at, j.StartedAt, first, ticks)
			ticks[j.ScheduledAt] = true
		}
		for range 3 {
			note(t.Fetch(q))
		}
		t.DoSchedule(s.ID, "pause", "paused")
		for all := t.QueueNow(q).Enqueued; len(ticks) < all; {
			note(t.Fetch(q))
		}
		for i := range len(ticks) {
			at := first.Add(time.Duration(i) * time.Second)
			t.FailIf(!ticks[at], "no job for the tick at %s, but for %v", at, ticks)
		}
		s = t.ScheduleNow(s.ID)
		Equal(t, "missed", s.Missed, 0)
		Equal(t, "tick of the last job", t.Job(s.LastJobID).ScheduledAt, first.Add(time.Duration(len(ticks)-1)*time.Second))
	}},
	{Name: "the job of a tick has the options of its schedule", Timed: true, Needs: "schedules", Run: func(t *T, q string) {
		s := t.Schedule(q, object{
			"payload": JSON(`{"a":[1]}`), "priority": "high", "tags": object{"k": "v"}, "max_retries": 7, "retry_backoff": "linear",
			"retry_base_delay_ms": 1500, "unique_key": "u", "expire_after": "1h",
		})
		l := t.Fetch(q)
		Equal(t, "payload, attempts and tag", [3]any{l.Payload, l.MaxRetries, l.Tags["k"]}, [3]any{JSON(`{"a":[1]}`), 7, "v"})
		j := t.Job(l.ID)
		Equal(t, "schedule and key", [2]string{j.ScheduleID, j.UniqueKey}, [2]string{s.ID, "u"})
		t.FailIf(j.Priority != 1 || j.Backoff != "linear" || j.BaseDelayMS != 1500 || !about(j.ExpireAt.Sub(j.CreatedAt), time.Hour), "its job is %+v", j)
		t.Eventually("a tick that makes no job, for the key is held", func() bool { return t.ScheduleNow(s.ID).Missed > 0 })
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 1)
		t.Ack(l)
		again := t.Fetch(q)
		t.FailIf(again.ID == l.ID, "the key was not freed")
	}},
	{Name: "what a schedule leaves open about retries its queue decides", Needs: "schedules", Run: func(t *T, q string) {
		t.SetQueue(q, object{"max_retries": 9, "retry_backoff": "fixed"})
		s := t.Schedule(q, object{"max_retries": 2, "paused": true})
		t.RunSchedule(s.ID)
		l := t.Fetch(q)
		Equal(t, "attempts and backoff", [2]any{l.MaxRetries, t.Job(l.ID).Backoff}, [2]any{2, "fixed"})
	}},
	{Name: "a paused schedule makes no job, and what it left out is not made good", Timed: true, Needs: "schedules", Once: true, Run: func(t *T, q string) {
		s := t.Schedule(q, object{"paused": true, "catch_up": "all"})
		t.FailIf(!s.Paused || !s.NextRunAt.IsZero() || len(s.NextRuns) > 0, "paused, it is %+v", s)
		t.ticks(2)
		t.Refused(t.Try(http.MethodGet, queuePath(q, ""), nil, nil), notFound) // No job ever made it.
		t.DoSchedule(s.ID, "resume", "resumed")
		next := t.ScheduleNow(s.ID).NextRunAt
		l := t.Fetch(q)
		at := t.Job(l.ID).ScheduledAt
		t.FailIf(at.Before(next.Add(-time.Second)) || at.Before(s.CreatedAt.Add(time.Second)), "resumed, it runs for the tick at %s, want %s", at, next)
		t.DoSchedule(s.ID, "pause", "paused")
		t.DoSchedule(s.ID, "pause", "paused")
		made := t.QueueNow(q).Enqueued
		t.ticks(2)
		Equal(t, "enqueued while it is paused", t.QueueNow(q).Enqueued, made)
		Equal(t, "missed", t.ScheduleNow(s.ID).Missed, 0) // Nobody wanted them.
	}},
	{Name: "run makes a job at once, paused or not, and moves no tick", Needs: "schedules", Run: func(t *T, q string) {
		s := t.Schedule(q, object{"cron": "@yearly", "payload": 5})
		id := t.RunSchedule(s.ID)
		l := t.Fetch(q)
		Equal(t, "job and payload", [2]string{l.ID, string(l.Payload)}, [2]string{id, "5"})
		now := t.ScheduleNow(s.ID)
		Equal(t, "next run", now.NextRunAt, s.NextRunAt)
		Equal(t, "last job", now.LastJobID, id)
		t.DoSchedule(s.ID, "pause", "paused")
		again := t.RunSchedule(s.ID)
		t.FailIf(again == id, "two runs are one job")
		Equal(t, "job", t.Fetch(q).ID, again)
		t.Nothing(q)
	}},
	{Name: "overlap skip: no job while the one before has not ended", Needs: "schedules", Run: func(t *T, q string) {
		s := t.Schedule(q, object{"overlap": "skip"})
		l := t.Fetch(q)
		t.Eventually("two ticks without a job", func() bool { return t.ScheduleNow(s.ID).Missed >= 2 })
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 1)
		t.Refused(t.Try(http.MethodPost, schedulePath(s.ID, "/run"), nil, nil), conflict)
		t.Ack(l)
		next := t.Fetch(q)
		t.FailIf(next.ID == l.ID, "the same job again")
		t.Do(next.ID, "cancel", "cancelling")
		t.Fail(Fail{ID: next.ID, Token: next.Token, Error: "stopped"}) // Any end will do.
		t.Fetch(q)
	}},
	{Name: "overlap cancel: the job before is cancelled, and its worker asked to let go", Needs: "schedules", Run: func(t *T, q string) {
		s := t.Schedule(q, object{"cron": "@yearly", "overlap": "cancel"})
		t.RunSchedule(s.ID)
		running := t.Fetch(q)
		waiting := t.RunSchedule(s.ID)
		Equal(t, "word of a heartbeat", t.Heartbeat(running), "cancel")
		Equal(t, "status", t.Fail(Fail{ID: running.ID, Token: running.Token, Error: "stopped"}).Status, "cancelled")
		t.State(waiting, "pending")
		last := t.RunSchedule(s.ID)
		t.State(waiting, "cancelled")
		Equal(t, "job", t.Fetch(q).ID, last)
		t.Nothing(q)
	}},
	{Name: "overlap cancel holds for ticks", Timed: true, Needs: "schedules", Once: true, Run: func(t *T, q string) {
		s := t.Schedule(q, object{"overlap": "cancel"})
		t.Eventually("three ticks", func() bool {
			v := t.ScheduleNow(s.ID)
			return v.LastJobID != "" && t.QueueNow(q).Enqueued >= 3
		})
		t.DoSchedule(s.ID, "pause", "paused")
		v := t.QueueNow(q)
		Equal(t, "pending and cancelled", [2]int{v.Pending, v.Cancelled}, [2]int{1, v.Enqueued - 1})
		Equal(t, "job", t.Fetch(q).ID, t.ScheduleNow(s.ID).LastJobID)
	}},
	{Name: "a tick that makes no job is counted as missed", Timed: true, Needs: "schedules", Once: true, Run: func(t *T, q string) {
		t.SetQueue(q, object{})
		t.Call(http.MethodPost, queuePath(q, "/drain"), nil, nil)
		s := t.Schedule(q, nil)
		t.Eventually("a missed tick", func() bool { return t.ScheduleNow(s.ID).Missed > 0 })
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 0)
		t.Refused(t.Try(http.MethodPost, schedulePath(s.ID, "/run"), nil, nil), draining, "queue")
		t.DoQueue(q, "resume", "resumed")
		t.Fetch(q)
	}},
	{Name: "the next runs are those of the time zone, also over a change of its clocks", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		runs := t.Runs("30 12 1 1,7 *", "Europe/Berlin")
		Equal(t, "runs", len(runs), 5)
		for i, at := range runs {
			hour := map[time.Month]int{time.January: 11, time.July: 10}[at.UTC().Month()]
			t.FailIf(at.UTC().Hour() != hour || at.UTC().Minute() != 30 || at.UTC().Day() != 1 || i > 0 && at.Sub(runs[i-1]) < 180*24*time.Hour, "half past twelve in Berlin is %v", runs)
		}
		s := t.Schedule(q, object{"cron": "30 12 1 1,7 *", "timezone": "Europe/Berlin"})
		t.FailIf(!slices.EqualFunc(s.NextRuns, runs, time.Time.Equal) || !s.NextRunAt.Equal(runs[0]), "a preview of %v, a schedule of %v, next at %s", runs, s.NextRuns, s.NextRunAt)
		utc := t.Runs("30 12 1 1,7 *", "")
		t.FailIf(utc[0].UTC().Hour() != 12, "without a zone it runs at %v", utc)
	}},
	{Name: "expressions of five and six fields, macros and intervals are understood", Needs: "schedules", Once: true, Run: func(t *T, _ string) {
		for cron, gap := range map[string]time.Duration{
			"* * * * *": time.Minute, "*/20 * * * * *": 20 * time.Second, "@daily": 24 * time.Hour, "@hourly": time.Hour,
			"@every 90s": 90 * time.Second, "0 6 * * MON": 7 * 24 * time.Hour, "15 3 * * *": 24 * time.Hour,
		} {
			runs := t.Runs(cron, "UTC")
			Equal(t, "runs of "+cron, len(runs), 5)
			for i := range runs[1:] {
				Equal(t, "time between runs of "+cron, runs[i+1].Sub(runs[i]), gap)
			}
		}
		runs := t.Runs("0 0 29 2 *", "UTC")
		t.FailIf(len(runs) == 0 || runs[0].Month() != time.February || runs[0].Day() != 29, "leap days %v", runs)
	}},
	{Name: "a schedule that is wrong is refused with every wrong field named, and not made", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		kept := t.Schedule(q, object{"cron": "@yearly"})
		for _, w := range []struct {
			member string
			value  any
		}{
			{"cron", ""},
			{"cron", "61 * * * *"},
			{"cron", "* * * *"},
			{"cron", "@sometimes"},
			{"cron", "@every 500ms"},
			{"cron", "TZ=UTC * * * * *"},
			{"cron", "0 0 31 2 *"},
			{"timezone", "Mars/Olympus"},
			{"timezone", "Local"},
			{"name", ""},
			{"name", " x"},
			{"queue", "a b"},
			{"overlap", "queue"},
			{"catch_up", "some"},
			{"jitter", "25h"},
			{"priority", "urgent"},
			{"max_retries", -1},
			{"expire_after", "-1s"},
			{"time_zone", "UTC"},
			{"scheduled_at", "2040-01-01T00:00:00Z"},
		} {
			o := object{"queue": q, "name": q + "-new", "cron": "@yearly"}.with(object{w.member: w.value})
			for method, path := range map[string]string{http.MethodPost: schedulesPath, http.MethodPut: schedulePath(kept.ID, "")} {
				t.RefusedFor(fmt.Sprint(method, " with ", w.member, " ", w.value), t.Try(method, path, o, nil), invalid, w.member)
			}
		}
		t.Refused(t.Try(http.MethodPost, schedulesPath, object{"cron": "x", "timezone": "y", "queue": "a b", "overlap": "z"}, nil),
			invalid, "cron", "timezone", "queue", "overlap", "name")
		t.Refused(t.Try(http.MethodPost, schedulesPath+"/preview", object{"cron": "x", "timezone": "y"}, nil), invalid, "cron", "timezone")
		now := t.ScheduleNow(kept.ID)
		Equal(t, "expression and name", [2]string{now.Cron, now.Name}, [2]string{kept.Cron, kept.Name})
	}},
	{Name: "a schedule is shown as it was given, and changed as a whole", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		o := object{
			"cron": "30 2 * * *", "timezone": "Asia/Tokyo", "payload": JSON(`[1]`), "priority": "high", "tags": object{"k": "v"}, "max_retries": 4,
			"retry_backoff": "linear", "retry_base_delay_ms": 1500, "unique_key": "u", "unique_period": 60, "expire_after": "1h0m0s",
			"jitter": "5s", "overlap": "skip", "catch_up": "all",
		}
		s := t.Schedule(q, o)
		got := [...]any{
			s.Name, s.Queue, s.Cron, s.Timezone, string(s.Payload), s.Priority, s.Tags["k"], *s.MaxRetries, s.Backoff, *s.BaseDelayMS,
			s.UniqueKey, s.UniquePeriod, s.ExpireAfter, s.Jitter, s.Overlap, s.CatchUp, s.Paused,
		}
		Equal(t, "made as", got, [...]any{q, q, "30 2 * * *", "Asia/Tokyo", "[1]", "high", "v", 4, "linear", int64(1500), "u", 60, "1h0m0s", "5s", "skip", "all", false})
		t.DoSchedule(s.ID, "pause", "paused")
		var put scheduleView
		t.Call(http.MethodPut, schedulePath(s.ID, ""), object{"name": q + "-b", "queue": q, "cron": "@daily"}, &put)
		t.FailIf(put.Name != q+"-b" || put.Timezone != "UTC" || put.MaxRetries != nil || put.UniqueKey != "" || put.Overlap != "allow" || put.CatchUp != "once" || string(put.Payload) != "{}", "changed to little, it is %+v", put)
		t.FailIf(!put.Paused || !put.CreatedAt.Equal(s.CreatedAt) || put.ID != s.ID, "changed, it is %+v; it was %+v", put, s)
	}},
	{Name: "what somebody else changed meanwhile is not overwritten", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		s := t.Schedule(q, object{"cron": "@yearly"})
		put := object{"name": q, "queue": q, "cron": "@daily"}
		late := *t.admin
		late.target = t.admin.target.with("If-Match", `"99999"`)
		_, err := late.call(t.Context, http.MethodPut, schedulePath(s.ID, ""), put, nil)
		t.Refused(err, conflict)
		Equal(t, "expression", t.ScheduleNow(s.ID).Cron, "@yearly")
		late.target = t.admin.target.with("If-Match", "nonsense")
		_, err = late.call(t.Context, http.MethodPut, schedulePath(s.ID, ""), put, nil)
		t.Refused(err, invalid, "If-Match")
	}},
	{Name: "two schedules do not have one name", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		a, b := t.Schedule(q, object{"cron": "@yearly"}), t.Schedule(q, object{"cron": "@yearly", "name": q + "-b"})
		put := object{"name": q, "queue": q, "cron": "@yearly"}
		t.Refused(t.Try(http.MethodPost, schedulesPath, put, nil), conflict, "name")
		t.Refused(t.Try(http.MethodPut, schedulePath(b.ID, ""), put, nil), conflict, "name")
		t.Call(http.MethodDelete, schedulePath(a.ID, ""), nil, nil)
		t.Call(http.MethodPut, schedulePath(b.ID, ""), put, nil)
	}},
	{Name: "schedules are listed page by page in the order they were made", Needs: "schedules", Once: true, Run: func(t *T, q string) {
		var want, got []string
		for i := range 3 {
			want = append(want, t.Schedule(q, object{"cron": "@yearly", "name": fmt.Sprint(q, i)}).ID)
		}
		for _, s := range pages[scheduleView](t, schedulesPath+"?limit=2", "schedules", math.MaxInt) {
			if s.Queue == q {
				got = append(got, s.ID)
			}
		}
		t.FailIf(!slices.Equal(got, want), "listed %v, made %v", got, want)
		t.Refused(t.Try(http.MethodGet, schedulesPath+"?limit=0&queue=q", nil, nil), invalid, "limit", "queue")
	}},
	{Name: "a deleted schedule makes no more jobs, and those it made stay", Timed: true, Needs: "schedules", Once: true, Run: func(t *T, q string) {
		s := t.Schedule(q, nil)
		t.Fetch(q)
		t.Call(http.MethodDelete, schedulePath(s.ID, ""), nil, nil)
		v := t.QueueNow(q)
		t.ticks(2)
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, v.Enqueued)
		Equal(t, "active", t.QueueNow(q).Active, 1)
		for _, c := range [][2]string{
			{http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, "/run"}, {http.MethodPost, "/pause"}, {http.MethodPost, "/resume"},
		} {
			t.Refused(t.Try(c[0], schedulePath(s.ID, c[1]), nil, nil), notFound)
			t.Refused(t.Try(c[0], schedulePath("nonsense", c[1]), nil, nil), notFound)
		}
		t.Refused(t.Try(http.MethodPut, schedulePath(s.ID, ""), object{"name": q, "queue": q, "cron": "@daily"}, nil), notFound)
	}},
}
