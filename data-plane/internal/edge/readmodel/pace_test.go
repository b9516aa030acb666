package readmodel

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// machine is a node whose load and clock a test sets: it idles as much as is free
// and not used by the read models.
type machine struct {
	*pace
	clock time.Time
	free  float64 // Processors that nobody but read models wants, of two.
	known bool
	// changes of jobs go on unless it is quiet.
	changes uint64
	quiet   bool

	// held is how much longer than its processor time a piece takes, because of other work.
	held           float64
	ran            time.Duration // Processor time.
	worked, rested time.Duration // Since the last look.
	longest        time.Duration // Rest.
}

func newMachine(free float64) *machine {
	m := &machine{clock: time.Unix(0, epoch), free: free, known: true}
	m.pace = &pace{
		share: shareMax,
		now:   func() time.Time { return m.clock },
		used:  func() time.Duration { return m.ran },
		sleep: func(_ context.Context, d time.Duration) {
			d = max(d, 0)
			m.clock = m.clock.Add(d)
			m.rested += d
			m.longest = max(m.longest, d)
		},
		load: func() (float64, float64, bool) {
			mine := m.worked.Seconds() / max(m.worked+m.rested, 1).Seconds()
			m.worked, m.rested = 0, 0
			return max(m.free-mine, 0) / 2, 2, m.known
		},
	}
	m.heed(func() uint64 {
		if !m.quiet {
			m.changes++
		}
		return m.changes
	})
	return m
}

// work does pieces of work for as long as d and returns which part of it that was.
func (m *machine) work(d time.Duration) float64 { return m.workFor(d, 0) }

func (m *machine) workFor(d time.Duration, least float64) float64 {
	const piece = 8 * time.Millisecond
	var worked time.Duration
	began := m.clock
	for m.clock.Sub(began) < d {
		w := m.begin(context.Background())
		w.least = least
		m.clock = m.clock.Add(time.Duration(float64(piece) * max(m.held, 1)))
		m.ran += piece
		m.worked += piece
		worked += piece
		w.end()
	}
	return worked.Seconds() / m.clock.Sub(began).Seconds()
}

// On a busy machine other work delays a piece of work. That is no reason to pause longer.
func TestPace_ARebuildGetsItsShareOfABusyNode(t *testing.T) {
	t.Parallel()
	m := newMachine(0)
	m.held = 4
	m.workFor(2*time.Second, shareRebuild) // To settle.
	if got := m.workFor(10*time.Second, shareRebuild); got < shareRebuild*0.9 || got > shareRebuild*1.1 {
		t.Errorf("worked %.3f of the time, want %.3f", got, shareRebuild)
	}
	m.workFor(restMax, 0)
	if got := m.workFor(10*time.Second, 0); got < shareMin*0.9 || got > shareMin*1.1 {
		t.Errorf("without a rebuild it worked %.3f of the time, want %.3f", got, shareMin)
	}
}

func TestPace_TakesWhatIsFreeAndYieldsWhenSaturated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		free        float64
		least, most float64
	}{
		{"nobody else", 2, 0.85, 1},
		{"what it causes itself", 1.7, 0.8, 1}, // Collecting garbage, compactions.
		{"half the machine is used", 1.2, 0.2, 0.6},
		{"little is left", 0.7, shareMin * 0.9, shareMin * 1.5},
		{"saturated", 0, shareMin * 0.9, shareMin * 1.5},
	} {
		m := newMachine(c.free)
		m.work(2 * time.Second) // To settle.
		if got := m.work(10 * time.Second); got < c.least || got > c.most {
			t.Errorf("%s: worked %.3f of the time, want %.3f to %.3f", c.name, got, c.least, c.most)
		}
		if m.longest > restMax {
			t.Errorf("%s: rested for %s", c.name, m.longest)
		}
	}
}

// After a fill the stores go on compacting for a while: nobody waits for that.
func TestPace_TakesAllWhileNoJobChanges(t *testing.T) {
	t.Parallel()
	m := newMachine(0.5)
	m.quiet = true
	if got := m.work(10 * time.Second); got < 0.85 {
		t.Errorf("worked %.3f of the time while no job changed", got)
	}
	m.quiet = false
	m.work(2 * time.Second)
	if got := m.work(5 * time.Second); got > shareMin*1.5 {
		t.Errorf("worked %.3f of the time once jobs changed again", got)
	}
}

func TestPace_CatchesUpWhenTheLoadIsOver(t *testing.T) {
	t.Parallel()
	m := newMachine(0)
	m.work(5 * time.Second)
	m.free = 2
	m.work(restMax)
	if got := m.work(time.Second); got < 0.8 {
		t.Fatalf("worked %.3f of the first second on an idle machine", got)
	}
	m.free = 0
	m.work(time.Second)
	if got := m.work(5 * time.Second); got > shareMin*1.5 {
		t.Fatalf("worked %.3f of the time once it was saturated again", got)
	}
}

// A rest that began on a busy node ends soon once nobody else wants the processors.
func TestPace_ARestEndsSoonOnceTheNodeIsIdle(t *testing.T) {
	t.Parallel()
	m := newMachine(0)
	m.work(5 * time.Second)
	m.charge(m.clock, time.Minute, 0)
	m.free = 2
	began := m.clock
	m.turn(t.Context())
	if rested := m.clock.Sub(began); rested > restMax/3 {
		t.Fatalf("rested for %s, of which the node was idle for all", rested)
	}
}

// All read models of a node share one limiter.
func TestPace_IsSharedByTheShardsOfANode(t *testing.T) {
	t.Parallel()
	m := newMachine(0)
	m.work(5 * time.Second)
	const piece = 8 * time.Millisecond
	m.charge(m.clock.Add(-piece), piece, 0)
	first := m.paid
	m.charge(m.clock.Add(-piece), piece, 0)
	if more := m.paid.Sub(first); more < time.Duration(float64(piece)*0.9/shareMin) {
		t.Fatalf("the work of the second shard costs a rest of %s", more)
	}
}

func TestPace_WhereTheLoadIsNotKnown(t *testing.T) {
	t.Parallel()
	m := newMachine(0)
	m.known = false
	m.work(time.Second)
	if got := m.work(5 * time.Second); got < shareBlind*0.9 || got > shareBlind*1.1 {
		t.Fatalf("worked %.3f of the time, want %.2f", got, shareBlind)
	}
}

// A saturated node drops nothing: the changes are in the model once there is time, and
// until then a list reports its lag.
func TestRun_FallsBehindOnASaturatedNodeAndCatchesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	resting, idle := make(chan struct{}, 1), make(chan struct{})
	began := time.Now()
	var slept atomic.Int64
	r.models.pace.now = func() time.Time { return began.Add(time.Duration(slept.Load())) } // Work never gets its pause by itself.
	r.models.pace.sleep = func(ctx context.Context, d time.Duration) {
		select {
		case resting <- struct{}{}:
		default:
		}
		select {
		case <-idle:
		case <-ctx.Done():
		}
		slept.Add(int64(d))
	}
	r.run()
	r.enqueue(nsA, "mail")
	<-resting
	for range 5 {
		r.some(nsA)
	}
	p := r.page(nsA, Filter{})
	if p.Lag <= 0 && !p.Rebuilding {
		t.Fatalf("a late list does not say so: %+v", p)
	}
	close(idle)
	r.wantTruth(nsA)
}
