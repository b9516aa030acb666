package bench

import (
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms count microseconds from 1 µs to 5 minutes with three digits.
const (
	latencyMin = 1
	latencyMax = int64(5 * time.Minute / time.Microsecond)
	digits     = 3
)

// latencies gives every caller a histogram of its own, so that recording needs
// no lock.
type latencies struct {
	mu     sync.Mutex // Guards shards.
	shards []*hdrhistogram.Histogram
}

func (l *latencies) shard() *hdrhistogram.Histogram {
	h := hdrhistogram.New(latencyMin, latencyMax, digits)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shards = append(l.shards, h)
	return h
}

// record counts one call that took d for n jobs. Values off the scale are
// recorded at its end: the maximum is then a lower bound.
func record(h *hdrhistogram.Histogram, d time.Duration, n int) {
	us := min(max(d.Microseconds(), latencyMin), latencyMax)
	_ = h.RecordValues(us, int64(n)) // Within the scale by the line above.
}

// Percentiles are milliseconds.
type Percentiles struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func (l *latencies) percentiles() Percentiles {
	sum := hdrhistogram.New(latencyMin, latencyMax, digits)
	for _, h := range l.shards {
		sum.Merge(h)
	}
	at := func(q float64) float64 { return float64(sum.ValueAtQuantile(q)) / 1000 }
	return Percentiles{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(sum.Max()) / 1000}
}

func plural(n int) string {
	if n == 1 {
		return "1 job"
	}
	return strconv.Itoa(n) + " jobs"
}
