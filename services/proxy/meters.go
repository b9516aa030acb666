package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// tellReadingsEvery is how much of what was counted is lost with the process.
	tellReadingsEvery = 5 * time.Second
	// wholeEvery is how often a node is told everything, because it may have been started
	// again.
	wholeEvery        = time.Minute
	readingsPerReport = 5000
	// hoursKept is how long an hour is told again after its end.
	hoursKept = 6
)

// meters count what namespaces use of this proxy, by the hour.
type meters struct {
	mu sync.RWMutex
	of map[string]*meter // By namespace id. Guarded by mu.

	// telling is held by the one who tells. It guards the rest.
	telling sync.Mutex
	seq     uint64               // Numbers what is told.
	nodes   map[string]*toldNode // By base URL.
}

// toldNode is what a node was told.
type toldNode struct {
	seq   uint64
	whole time.Time // When it was told everything.
}

// meter counts for one namespace.
type meter struct {
	current atomic.Pointer[hourCount]

	mu   sync.Mutex
	open int64 // Streams and waiting fetches. Guarded by mu, as is past.
	past []*hourCount
}

// hourCount is one hour of a namespace.
type hourCount struct {
	hour         int64 // Since 1970.
	egress, peak atomic.Int64
	// What was told last, and its number. Guarded by meters.telling.
	toldEgress, toldPeak int64
	seq                  uint64
}

func newMeters() *meters {
	return &meters{of: make(map[string]*meter), nodes: make(map[string]*toldNode)}
}

func hourOf(at time.Time) int64 { return at.Unix() / 3600 }

// at is the meter of a namespace, which counts in an hour from now on.
func (ms *meters) at(namespace string, hour int64) *meter {
	ms.mu.RLock()
	m := ms.of[namespace]
	ms.mu.RUnlock()
	if m == nil {
		m = ms.add(namespace, hour)
	}
	m.in(hour)
	return m
}

func (ms *meters) add(namespace string, hour int64) *meter {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.of[namespace]
	if m == nil {
		m = &meter{}
		m.current.Store(&hourCount{hour: hour})
		ms.of[namespace] = m
	}
	return m
}

// in is what is counted of an hour. One before the current hour is over: what comes late is
// counted now, so that it is counted once.
func (m *meter) in(hour int64) *hourCount {
	if h := m.current.Load(); h.hour >= hour {
		return h
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.current.Load()
	if h.hour < hour {
		m.past = append(m.past, h)
		h = &hourCount{hour: hour}
		h.peak.Store(m.open)
		m.current.Store(h)
	}
	return h
}

// wrote counts bytes of an answer. Of a call without a key: nil.
func (m *meter) wrote(n int, at time.Time) {
	if m != nil && n > 0 {
		m.in(hourOf(at)).egress.Add(int64(n))
	}
}

// opens counts a stream or waiting fetch, and closes that it has ended.
func (m *meter) opens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	if h := m.current.Load(); m.open > h.peak.Load() {
		h.peak.Store(m.open)
	}
}

func (m *meter) closes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
}

// read is what was counted in all hours that are kept. A reading has the number of the call
// that first found it as it is.
// It is called with telling held.
func (ms *meters) read(hour int64) []*cellv1.Reading {
	ms.seq++
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var out []*cellv1.Reading
	for namespace, m := range ms.of {
		hours, idle := m.hours(hour)
		if idle {
			delete(ms.of, namespace)
			continue
		}
		for _, h := range hours {
			egress, peak := h.egress.Load(), h.peak.Load()
			if egress != h.toldEgress || peak != h.toldPeak {
				h.toldEgress, h.toldPeak, h.seq = egress, peak, ms.seq
			}
			if h.seq > 0 {
				out = append(out, &cellv1.Reading{NamespaceId: namespace, Hour: h.hour, Seq: h.seq, EgressBytes: egress, StreamsPeak: peak})
			}
		}
	}
	return out
}

// hours are those that are kept. It is idle if the namespace has used nothing for so long.
func (m *meter) hours(now int64) (kept []*hourCount, idle bool) {
	m.mu.Lock()
	open := m.open > 0
	m.mu.Unlock()
	if open {
		m.in(now) // A stream is open in each hour that it lasts.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.past) > 0 && m.past[0].hour < now-hoursKept {
		m.past = m.past[1:]
	}
	current := m.current.Load()
	return append(m.past[:len(m.past):len(m.past)], current), current.hour < now-hoursKept && m.open == 0
}

// tellReadings tells the nodes what was counted, until ctx ends, and then once more.
func (p *Proxy) tellReadings(ctx context.Context) {
	tick := time.NewTicker(tellReadingsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTellBudget)
			defer cancel()
			p.tellReadingsOnce(last)
			return
		case <-tick.C:
			p.tellReadingsOnce(ctx)
		}
	}
}

func (p *Proxy) tellReadingsOnce(ctx context.Context) {
	p.meters.telling.Lock()
	defer p.meters.telling.Unlock()
	now := p.now()
	all := p.meters.read(hourOf(now))
	err := p.tellSome(func(base string) error {
		err := p.sayReadingsTo(ctx, base, p.meters.told(base), all, now)
		if err != nil {
			p.log.Debug("can't tell a node what was counted; trying again", "readings", len(all), "err", err)
		}
		return err
	})
	if err != nil {
		p.log.Debug("told no node what was counted", "err", err)
	}
}

func (ms *meters) told(base string) *toldNode {
	n := ms.nodes[base]
	if n == nil {
		n = &toldNode{}
		ms.nodes[base] = n
	}
	return n
}

// sayReadingsTo tells a node what is new to it, in parts of which the last says until when
// that is everything.
func (p *Proxy) sayReadingsTo(ctx context.Context, base string, node *toldNode, all []*cellv1.Reading, now time.Time) error {
	whole := now.Sub(node.whole) >= wholeEvery
	var fresh []*cellv1.Reading
	for _, r := range all {
		if whole || r.GetSeq() > node.seq {
			fresh = append(fresh, r)
		}
	}
	client := cellv1connect.NewCellServiceClient(p.cellClient, base)
	for last := false; !last; {
		part := fresh[:min(readingsPerReport, len(fresh))]
		fresh = fresh[len(part):]
		last = len(fresh) == 0
		report := &cellv1.Readings{Source: "proxy/" + p.id, Epoch: p.id, List: part}
		if last {
			report.CompleteToNs = now.UnixNano()
		}
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		_, err := client.ReportReadings(ctx, connect.NewRequest(&cellv1.ReportReadingsRequest{Readings: report}))
		cancel()
		if err != nil {
			node.whole = time.Time{} // It may be another run of the node by now.
			return fmt.Errorf("node %s: %w", base, err)
		}
	}
	node.seq = p.meters.seq
	if whole {
		node.whole = now
	}
	return nil
}
