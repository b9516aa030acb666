package shard

import (
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// handClock goes on when the test says so.
type handClock struct {
	mu   sync.Mutex // Guards the rest.
	wall time.Time
	mono time.Duration
}

func newHandClock() *handClock {
	return &handClock{wall: time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC), mono: time.Hour}
}

func (c *handClock) Now() (time.Time, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.mono
}

// jump moves the wall alone: the machine slept, or somebody set its clock.
func (c *handClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// pass lets time pass for a stepper that does nothing but look every second.
func (c *handClock) pass(s *stepper, d time.Duration) {
	for range d / time.Second {
		c.mu.Lock()
		c.wall, c.mono = c.wall.Add(time.Second), c.mono+time.Second
		c.mu.Unlock()
		s.step()
	}
}

func (s *stepper) scheduled(at time.Time) job.ID {
	c := s.newJob()
	c.ScheduledAt = at.UnixNano()
	s.do(Request{After: []command.Command{c}})
	return c.ID
}

// Eight hours of suspend: what the calendar named is due, and no lease and no retry is.
func TestClock_AfterEightHoursOfSuspendTheCalendarIsRightAndLeasesStand(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := stepBy(t, Options{}, clock)
	leased, expiring := s.enqueue(), s.newJob()
	s.fetch(2 * time.Minute)
	expiring.ExpireAt = clock.wall.Add(6 * time.Hour).UnixNano()
	expiring.Queue = "other"
	s.do(Request{After: []command.Command{expiring}})
	retried := s.newJob()
	retried.Retry.BaseDelay, retried.Retry.Backoff = time.Hour, job.BackoffFixed
	s.do(Request{After: []command.Command{retried}})
	g := s.fetch(time.Minute)
	s.do(settle(&command.Fail{NS: stepNS, ID: g.ID, By: holder(g), Error: "boom"}))
	early, late := s.scheduled(clock.wall.Add(7*time.Hour)), s.scheduled(clock.wall.Add(9*time.Hour))

	clock.jump(8 * time.Hour)
	s.step()
	if h := s.head(early); h.State != job.Scheduled {
		t.Fatalf("a wall that jumped was followed at once: the job of 05:00 is %s", h.State)
	}
	clock.pass(s, time.Minute)
	for id, want := range map[job.ID]job.State{
		leased: job.Active, retried.ID: job.Retrying, early: job.Pending, late: job.Scheduled, expiring.ID: job.Dead,
	} {
		if h := s.head(id); h.State != want {
			t.Errorf("a minute after the suspend job %x is %s, want %s", id, h.State, want)
		}
	}
	made := s.enqueue()
	body, err := stateread.ReadBody(s.shard.store, stepNS, made)
	if err != nil {
		t.Fatal(err)
	}
	if off := clock.wall.Sub(time.Unix(0, body.CreatedAt)); off < -time.Second || off > time.Second {
		t.Fatalf("created_at is %s off", off)
	}
	clock.pass(s, 90*time.Second)
	if h := s.head(leased); h.State != job.Pending || h.Crashes != 1 {
		t.Fatalf("the lease of two minutes, of which two and a half passed awake: the job is %s", h.State)
	}
}

// A wall that is set an hour ahead and back within seconds moves nothing; one that stays
// ahead and is set back lets leases, retries and throttles go on while the calendar waits.
func TestClock_WhileTheCalendarWaitsForTheWallLeasesAndRetriesGoOn(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := stepBy(t, Options{}, clock)
	soon := s.scheduled(clock.wall.Add(30 * time.Minute))
	clock.jump(time.Hour)
	clock.pass(s, 10*time.Second)
	clock.jump(-time.Hour)
	clock.pass(s, time.Minute)
	if h := s.head(soon); h.State != job.Scheduled {
		t.Fatalf("a wall that was ahead for ten seconds made a scheduled job %s", h.State)
	}
	clock.jump(time.Hour)
	clock.pass(s, time.Minute)
	if h := s.head(soon); h.State != job.Pending {
		t.Fatalf("the wall is an hour ahead for a minute, nobody contradicts, and the job is %s", h.State)
	}
	clock.jump(-time.Hour)
	later := s.scheduled(clock.wall.Add(70 * time.Minute))
	c := s.newJob()
	c.Queue, c.Retry.BaseDelay, c.Retry.Backoff = "r", 30*time.Second, job.BackoffFixed
	s.do(Request{After: []command.Command{c}})
	rep := s.do(Request{Fetch: &Fetch{NS: stepNS, Queues: []string{"r"}, Count: 1, Worker: "w", Lease: 20 * time.Second}})
	g := rep.Grants[0]
	clock.pass(s, 25*time.Second)
	if h := s.head(c.ID); h.State != job.Pending || h.Crashes != 1 {
		t.Fatalf("a lease of 20 s after 25 s: the job is %s with %d crashes", h.State, h.Crashes)
	}
	rep = s.do(Request{Fetch: &Fetch{NS: stepNS, Queues: []string{"r"}, Count: 1, Worker: "w", Lease: time.Hour}})
	g = rep.Grants[0]
	s.do(settle(&command.Fail{NS: stepNS, ID: g.ID, By: holder(g), Error: "boom"}))
	clock.pass(s, 40*time.Second)
	if h := s.head(c.ID); h.State != job.Pending {
		t.Fatalf("a retry after 30 s: after 40 s the job is %s", h.State)
	}
	if d := s.sleep(s.group.Now()); d > 10*time.Second {
		t.Fatalf("the loop sleeps %s: it would not notice a jump", d)
	}
	if h := s.head(later); h.State != job.Scheduled {
		t.Fatalf("a job of 70 minutes later is %s while calendar time stands still", h.State)
	}
}

// A leader whose calendar stands still does not look again and again at a row that is due
// a moment later.
func TestClock_AStandingCalendarIsNotPolled(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := stepBy(t, Options{}, clock)
	s.scheduled(clock.wall.Add(10 * time.Millisecond))
	s.step()
	s.step()
	if d := s.sleep(s.group.Now()); d > 10*time.Millisecond {
		t.Fatalf("a row is due in 10 ms, the loop sleeps %s", d)
	}
	clock.jump(-time.Hour)
	if d := s.sleep(s.group.Now()); d < 500*time.Millisecond {
		t.Fatalf("calendar time stands still for an hour, the loop sleeps %s", d)
	}
}
