package admission

import (
	"runtime/metrics"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/processors"
)

const (
	// tooLong is how long a goroutine may wait for a processor.
	tooLong = time.Millisecond
	// idleLeast is the part of the processors' time below which they are short.
	idleLeast = 0.1
	// idleEvery is how often that is looked at: the system counts in hundredths of a second.
	idleEvery = 100 * time.Millisecond
)

// pressure knows whether processors are short: from what goroutines wait for a place to
// run, and, since a process may have more threads than there are processors, from how much
// of these is idle.
type pressure struct {
	waited func() time.Duration
	load   processors.Load
	now    func() time.Time
	looked time.Time
	idle   float64
}

func newPressure() *pressure {
	return &pressure{waited: newScheduler().pressure, load: processors.Watch(), now: time.Now, idle: 1}
}

func (p *pressure) busy() bool {
	if now := p.now(); now.Sub(p.looked) >= idleEvery {
		p.looked = now
		if idle, _, ok := p.load(); ok {
			p.idle = idle
		} else {
			p.idle = 1
		}
	}
	return p.waited() > tooLong || p.idle < idleLeast
}

const schedulerMetric = "/sched/latencies:seconds"

// slowest is the part of all waits that counts: the slowest hundredth. A call meets dozens
// of them on its way.
const slowest = 100

// scheduler knows how long goroutines were ready before they ran.
type scheduler struct {
	sample []metrics.Sample
	before []uint64
}

func newScheduler() *scheduler {
	return &scheduler{sample: []metrics.Sample{{Name: schedulerMetric}}}
}

// pressure is how long the slowest hundredth of all goroutines that got a processor since
// the last call waited for it, at least. It is 0 where the runtime does not say.
func (s *scheduler) pressure() time.Duration {
	metrics.Read(s.sample)
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := s.sample[0].Value.Float64Histogram()
	if len(s.before) != len(h.Counts) {
		s.before = make([]uint64, len(h.Counts))
	}
	var all uint64
	for i, n := range h.Counts {
		all += n - s.before[i]
	}
	rest := all / slowest
	at := time.Duration(0)
	for i := len(h.Counts) - 1; i >= 0; i-- {
		n := h.Counts[i] - s.before[i]
		if n > rest {
			at = time.Duration(max(h.Buckets[i], 0) * float64(time.Second))
			break
		}
		rest -= n
	}
	copy(s.before, h.Counts)
	return at
}
