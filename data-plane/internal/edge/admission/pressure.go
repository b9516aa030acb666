package admission

import (
	"runtime/metrics"
	"time"
)

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
