package e2e_test

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// R-T4, INV-12: a schedule that ticks every second has exactly one job for every tick,
// although its leader is killed twice.
func TestINV12_KilledLeadersLoseAndDoubleNoTick(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, time.Minute)
	call := func(method, path string, in, out any) {
		t.Helper()
		for {
			status, err := tenant.Call(ctx, method, path, in, out)
			if err == nil && status < 300 {
				return
			}
			if ctx.Err() != nil || status != 0 && status < 500 {
				t.Fatalf("%s %s: %d, %v", method, path, status, err)
			}
		}
	}
	type schedule struct {
		ID        string    `json:"id"`
		NextRunAt time.Time `json:"next_run_at"`
		Missed    uint64    `json:"missed"`
	}
	var made, now schedule
	call("POST", "/api/v1/schedules", map[string]any{"name": "often", "cron": "* * * * * *", "queue": "ticks"}, &made)
	for range 2 {
		time.Sleep(2500 * time.Millisecond)
		leader := c.Leader(c.Shard, 10*time.Second)
		c.Nodes[leader].Kill()
		enqueueUntil(ctx, t, tenant)
		c.Nodes[leader].Start()
		c.Nodes[leader].WaitReady(30 * time.Second)
	}
	time.Sleep(2500 * time.Millisecond)
	call("POST", "/api/v1/schedules/"+made.ID+"/pause", nil, nil)
	call("GET", "/api/v1/schedules/"+made.ID, nil, &now)
	if now.Missed != 0 {
		t.Errorf("%d ticks were missed", now.Missed)
	}

	jobs := map[time.Time]int{}
	last := made.NextRunAt
	for {
		job, ok, err := tenant.FetchLease(ctx, "ticks", "w", 0, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		var j struct {
			ScheduleID  string    `json:"schedule_id"`
			ScheduledAt time.Time `json:"scheduled_at"`
		}
		call("GET", "/api/v1/jobs/"+job.JobID, nil, &j)
		if j.ScheduleID != made.ID {
			t.Errorf("job %s is of schedule %q", job.JobID, j.ScheduleID)
		}
		at := j.ScheduledAt.UTC()
		if jobs[at]++; at.After(last) {
			last = at
		}
	}
	for at := made.NextRunAt.UTC(); !at.After(last); at = at.Add(time.Second) {
		if jobs[at] != 1 {
			t.Errorf("tick %s has %d jobs", at, jobs[at])
		}
		delete(jobs, at)
	}
	if len(jobs) > 0 || last.Sub(made.NextRunAt) < 6*time.Second {
		t.Errorf("jobs of no tick: %v; the last tick was %s after the first", jobs, last.Sub(made.NextRunAt))
	}
}
