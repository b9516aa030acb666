package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// measured is what an aim is read from.
type measured struct {
	report *Report
	base   *Report // Of the scenario that this one is compared with; may be nil.
	limits *Calibration
	peers  []*PeerRun
	// problems are why there is nothing to compare with.
	problems []string
}

// aim is one expectation of a run.
type aim struct {
	name   string
	unit   string
	atMost bool
	value  float64                        // 0: none; the figure is worth seeing.
	of     func(measured) (float64, bool) // False: not known.
	peer   Peer                           // Whom it compares with.
}

func throughput(atLeast float64) aim {
	return aim{unit: "jobs/s", value: atLeast, of: func(m measured) (float64, bool) { return m.report.Phase.PerSecond, true }}
}

func syncs(atMost float64) aim {
	return aim{name: "syncs per 1,000 jobs", unit: "syncs", atMost: true, value: atMost, of: func(m measured) (float64, bool) { return known(m.report.Phase.SyncsPerThousand) }}
}

// aboveSync is what a call takes beyond the median sync of this machine, delay included.
func aboveSync(name string, atMost float64, of func(Percentiles) float64) aim {
	return aim{name: name + " above the sync", unit: "ms", atMost: true, value: atMost, of: func(m measured) (float64, bool) {
		sync := m.limits.of(limitSync(time.Duration(m.report.Durability.SyncDelayMS * float64(time.Millisecond))))
		return of(m.report.Phase.Latency) - sync, sync >= 0
	}}
}

// ofLimit is how much of a limit of the machine is reached.
func ofLimit(limit string, atLeast float64) aim {
	return aim{name: "÷ " + limit, unit: "%", value: atLeast, of: func(m measured) (float64, bool) {
		return known(percent(m.report.Phase.PerSecond, m.limits.of(limit)))
	}}
}

// ratio is how many times what a peer did in the same run.
func ratio(p Peer, atLeast float64) aim {
	return aim{name: "÷ " + string(p), unit: "×", value: atLeast, peer: p, of: func(m measured) (float64, bool) {
		for _, run := range m.peers {
			if run.Peer == p && run.Valid {
				return m.report.Phase.PerSecond / run.PerSecond, true
			}
		}
		return 0, false
	}}
}

// shareOfBase compares with the scenario's base.
func shareOfBase(name string, atLeast float64) aim {
	return aim{name: "÷ " + name, unit: "%", value: atLeast, of: func(m measured) (float64, bool) {
		if m.base == nil {
			return 0, false
		}
		return known(percent(m.report.Phase.PerSecond, m.base.Phase.PerSecond))
	}}
}

func aboveBase(name string, atMost float64) aim {
	return aim{name: "p50 above " + name, unit: "ms", atMost: true, value: atMost, of: func(m measured) (float64, bool) {
		if m.base == nil {
			return 0, false
		}
		return m.report.Phase.Latency.P50 - m.base.Phase.Latency.P50, true
	}}
}

// known is for figures of which a negative one stands for none.
func known(v float64) (float64, bool) { return v, v >= 0 }

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return -1
	}
	return 100 * part / whole
}

func p50(p Percentiles) float64 { return p.P50 }
func p99(p Percentiles) float64 { return p.P99 }

func (a aim) row(scenario string, m measured) Row {
	value, known := a.of(m)
	row := Row{Name: strings.Join(strings.Fields(scenario+" "+a.name), " "), Unit: a.unit, Aim: a.value, AtMost: a.atMost, Measured: value, Report: m.report}
	if !known {
		row.Problems = m.why(a)
	}
	return row.judged(known)
}

// why is what went wrong with what an aim is read from.
func (m measured) why(a aim) []string {
	all := slices.Clone(m.problems)
	for _, run := range m.peers {
		if run.Peer == a.peer && !run.Valid {
			all = append(all, run.String())
		}
	}
	return all
}

// judged says whether the aim was met.
func (r Row) judged(known bool) Row {
	r.Known = known
	r.Met = known && (r.Measured == r.Aim || r.Measured > r.Aim != r.AtMost)
	return r
}

// scenario is one run and what is expected of it.
type scenario struct {
	name      string
	syncDelay time.Duration
	options   Options
	aims      []aim
	nodes     int    // 0 is a node alone; otherwise so many behind a proxy.
	base      string // The scenario that this one is compared with.
	peers     []Peer // Who does the same work.
}

// payloadBytes is the size of a payload unless a row says another.
const payloadBytes = 100

// The rows that others are compared with.
const (
	tenStreams  = "1 ms: enqueue, 10 streams"
	fiftyHTTP   = "bare: enqueue, 50 HTTP connections"
	idleHandler = "1 ms: enqueue to idle handler"
)

// scenarios is the table of aims: what the design should reach on two cores that
// client and server share, with 100-byte payloads and every commit synced. Aims in
// jobs/s were seen on a machine whose sync takes 0.03 ms; on another one, read the
// shares of its limits and the ratios to peers.
func scenarios() []scenario {
	const ms = time.Millisecond
	run := func(w Workload, p Protocol, jobs, batch, connections, concurrency int) Options {
		return Options{Workload: w, Protocol: p, Jobs: jobs, Batch: batch, Connections: connections, Concurrency: concurrency, PayloadBytes: payloadBytes}
	}
	sized := func(o Options, payload int) Options { o.PayloadBytes = payload; return o }
	all := []Peer{Beanstalkd, Asynq, JetStream, River}
	const direct = "without a proxy"
	return []scenario{
		{name: "1 ms: enqueue, 10 producers on one connection", syncDelay: ms, options: run(Enqueue, Stream, 60_000, 1, 1, 10), peers: all,
			aims: []aim{throughput(7_500), syncs(110), ratio(Asynq, 1.4)}},
		{name: "1 ms: enqueue, 50 producers on one connection", syncDelay: ms, options: run(Enqueue, Stream, 200_000, 1, 1, 50), peers: all,
			aims: []aim{throughput(34_000), syncs(25), ratio(Asynq, 2.5)}},
		{name: tenStreams, syncDelay: ms, options: run(Enqueue, Stream, 60_000, 1, 10, 1), peers: all,
			aims: []aim{throughput(6_500), syncs(110), ratio(Asynq, 1.2)}},
		{name: "1 ms: enqueue, 50 streams", syncDelay: ms, options: run(Enqueue, Stream, 150_000, 1, 50, 1), peers: all,
			aims: []aim{throughput(19_000), ratio(Asynq, 1.4)}},
		{name: "1 ms: enqueue, 10 HTTP connections", syncDelay: ms, options: run(Enqueue, HTTP, 60_000, 1, 10, 1), peers: all,
			aims: []aim{throughput(6_500), ratio(Asynq, 1.2)}},
		{name: "1 ms: enqueue, 50 HTTP connections", syncDelay: ms, options: run(Enqueue, HTTP, 150_000, 1, 50, 1), peers: all,
			aims: []aim{throughput(19_000), ratio(Asynq, 1.4)}},
		{name: "1 ms: enqueue, 10 callers by unary RPC", syncDelay: ms, options: run(Enqueue, RPC, 60_000, 1, 1, 10), peers: all,
			aims: []aim{throughput(0)}},
		{name: "1 ms: lifecycle, 10 handlers on one connection", syncDelay: ms, options: run(Lifecycle, Stream, 60_000, 1, 1, 10), peers: all,
			aims: []aim{throughput(7_500), syncs(110), ratio(Beanstalkd, 10)}},
		{name: "1 ms: lifecycle, 50 handlers on one connection", syncDelay: ms, options: run(Lifecycle, Stream, 200_000, 1, 1, 50), peers: all,
			aims: []aim{throughput(30_000), syncs(25), ratio(Beanstalkd, 35)}},
		{name: "1 ms: enqueue, frames of 64, 10 connections", syncDelay: ms, options: run(Enqueue, Stream, 1_000_000, 64, 10, 1), aims: []aim{throughput(200_000)}},
		{name: "1 ms: lifecycle, frames of 64, 10 connections", syncDelay: ms, options: run(Lifecycle, Stream, 600_000, 64, 10, 1), aims: []aim{throughput(115_000)}},

		{name: "bare: lifecycle, 10 handlers on one connection", options: run(Lifecycle, Stream, 300_000, 1, 1, 10), peers: all,
			aims: []aim{throughput(48_000), ratio(Beanstalkd, 2)}},
		{name: "bare: lifecycle, 50 handlers on one connection", options: run(Lifecycle, Stream, 500_000, 1, 1, 50), peers: all,
			aims: []aim{throughput(85_000), ratio(Beanstalkd, 4)}},
		{name: "bare: enqueue, frames of 64, 10 connections", options: run(Enqueue, Stream, 1_500_000, 64, 10, 1),
			aims: []aim{throughput(350_000), ofLimit(limitBatch(0, 1), 45)}},
		{name: "bare: lifecycle, frames of 64, 10 connections", options: run(Lifecycle, Stream, 800_000, 64, 10, 1),
			aims: []aim{throughput(150_000), ofLimit(limitBatch(0, 1), 20)}},
		{name: fiftyHTTP, options: run(Enqueue, HTTP, 250_000, 1, 50, 1), peers: append([]Peer{AsynqRaw}, all...),
			aims: []aim{throughput(42_000), ofLimit(limitEcho(HTTP, 50), 65), ratio(AsynqRaw, 0.9)}},
		{name: "bare: lifecycle, 50 HTTP connections", options: run(Lifecycle, HTTP, 120_000, 1, 50, 1), peers: all,
			aims: []aim{throughput(18_000), ofLimit(limitEcho(HTTP, 50), 27)}},

		{name: "1 ms: one caller, enqueue p50", syncDelay: ms, options: run(Single, Stream, 5_000, 1, 1, 1), aims: []aim{aboveSync("", 0.10, p50)}},
		{name: idleHandler, syncDelay: ms, options: run(Latency, Stream, 1_000, 1, 1, 1), aims: []aim{aboveSync("p50", 0.3, p50), aboveSync("p99", 0.6, p99)}},
		{name: "bare: enqueue to idle handler", options: run(Latency, Stream, 1_000, 1, 1, 1), aims: []aim{aboveSync("p50", 0.3, p50), aboveSync("p99", 0.6, p99)}},

		{name: "bare: enqueue, frames of 64, 10 connections, 1 kB", options: sized(run(Enqueue, Stream, 500_000, 64, 10, 1), 1_000), aims: []aim{throughput(0)}},
		{name: "bare: enqueue, frames of 64, 10 connections, 10 kB", options: sized(run(Enqueue, Stream, 80_000, 64, 10, 1), 10_000), aims: []aim{throughput(0)}},
		{name: "bare: lifecycle, 50 handlers on one connection, 10 kB", options: sized(run(Lifecycle, Stream, 80_000, 1, 1, 50), 10_000), aims: []aim{throughput(0)}},

		{name: "proxy, " + tenStreams, syncDelay: ms, options: run(Enqueue, Stream, 60_000, 1, 10, 1), nodes: 1, base: tenStreams,
			aims: []aim{throughput(0), shareOfBase(direct, 85)}},
		{name: "proxy, " + fiftyHTTP, options: run(Enqueue, HTTP, 250_000, 1, 50, 1), nodes: 1, base: fiftyHTTP,
			aims: []aim{throughput(0), shareOfBase(direct, 85)}},
		{name: "proxy, " + idleHandler, syncDelay: ms, options: run(Latency, Stream, 1_000, 1, 1, 1), nodes: 1, base: idleHandler,
			aims: []aim{aboveBase(direct, 0.2)}},

		{name: "three nodes, 1 ms: enqueue, frames of 64, 10 connections", syncDelay: ms, options: run(Enqueue, Stream, 400_000, 64, 10, 1), nodes: 3, aims: []aim{throughput(85_000)}},
		{name: "three nodes, 1 ms: lifecycle, frames of 64, 10 connections", syncDelay: ms, options: run(Lifecycle, Stream, 250_000, 64, 10, 1), nodes: 3, aims: []aim{throughput(50_000)}},
		{name: "three nodes, bare: enqueue, frames of 64, 10 connections", options: run(Enqueue, Stream, 700_000, 64, 10, 1), nodes: 3, aims: []aim{throughput(150_000)}},
		{name: "three nodes, bare: lifecycle, frames of 64, 10 connections", options: run(Lifecycle, Stream, 300_000, 64, 10, 1), nodes: 3, aims: []aim{throughput(60_000)}},
	}
}

// rivals are the peers that an aim compares with.
func (sc scenario) rivals() (all []Peer) {
	for _, a := range sc.aims {
		if a.peer != "" {
			all = append(all, a.peer)
		}
	}
	return all
}

func (sc scenario) callers() int { return sc.options.Connections * sc.options.Concurrency }

// callsPerJob is two where a handler acks with one call and fetches with another; a frame of a
// stream does both.
func (sc scenario) callsPerJob() int {
	if sc.options.Workload == Lifecycle && sc.options.Protocol != Stream {
		return 2
	}
	return 1
}

// limit is the lowest limit of the machine that bounds this scenario's throughput.
func (sc scenario) limit(c *Calibration) *Limit {
	var lowest *Limit
	for _, l := range sc.limits(c) {
		if l.Value > 0 && (lowest == nil || l.Value < lowest.Value) {
			lowest = &l
		}
	}
	return lowest
}

func (sc scenario) limits(c *Calibration) []Limit {
	const unit = "jobs/s"
	o := sc.options
	shared := func(name string, calls int) Limit {
		if calls == 1 {
			return Limit{name, unit, c.of(name)}
		}
		return Limit{fmt.Sprintf("%s, ÷ %d", name, calls), unit, c.of(name) / float64(calls)}
	}
	calls := sc.callsPerJob()
	// Whoever waits for a sync does no more than one call in its time.
	waiting := Limit{fmt.Sprintf("callers ÷ %s", limitSync(sc.syncDelay)), unit, -1}
	if calls > 1 {
		waiting.Name = fmt.Sprintf("callers ÷ %d × %s", calls, limitSync(sc.syncDelay))
	}
	if sync := c.of(limitSync(sc.syncDelay)); sync > 0 {
		waiting.Value = float64(sc.callers()*o.Batch) / (sync * float64(calls)) * 1000
	}
	all := []Limit{waiting}
	if o.Workload == Enqueue { // What is added is written to the log before it is acknowledged.
		all = append(all, Limit{limitWrite(), unit, c.of(limitWrite()) * megabyte / float64(o.PayloadBytes)})
	}
	// Raft alone bounds none of them: calls that wait together share an entry.
	switch {
	case o.Batch > 1:
		all = append(all, shared(limitBatch(sc.syncDelay, 10), 1))
	case o.Concurrency == 1: // A connection each.
		all = append(all, shared(limitEcho(o.Protocol, o.Connections), calls))
	}
	return all
}
