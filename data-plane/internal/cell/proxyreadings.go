package cell

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// readingsPart is how many readings one report or answer has at most.
	readingsPart = 5000
	// readingsMax is how many a node keeps, about 100 MB. Beyond, the oldest hours of all
	// proxies go, which were asked for most often.
	readingsMax = 300_000
	// tellersMax is how many runs of proxies a node remembers, and teller's time.
	tellersMax     = 1024
	tellerKept     = 24 * time.Hour
	proxySource    = "proxy/"
	readingNameMax = 128
)

// readings are what proxies told this node that they counted, since its start, in memory.
// Counts are cumulative, so of each only the newest is kept, and everything may be told and
// read again.
type readings struct {
	mu      sync.Mutex
	tellers map[string]*teller // By source and epoch. Guarded by mu, as is count.
	count   int
}

// teller is one run of a proxy.
type teller struct {
	source, epoch string
	completeTo    int64
	heard         time.Time
	list          map[counted]*cellv1.Reading
}

type counted struct {
	hour      int64
	namespace string
}

func newReadings() *readings { return &readings{tellers: make(map[string]*teller)} }

// take notes what a proxy counted for namespaces that the cell has, which bounds what is
// kept.
func (s *readings) take(v *View, in *cellv1.Readings, now time.Time) error {
	if err := checkReadings(in, now); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.teller(in, now)
	t.heard, t.completeTo = now, max(t.completeTo, in.GetCompleteToNs())
	for _, r := range in.GetList() {
		ns, err := job.ParseNamespace(r.GetNamespaceId())
		if _, known := v.NamespaceByID(ns); err != nil || !known {
			continue
		}
		at := counted{r.GetHour(), r.GetNamespaceId()}
		had, ok := t.list[at]
		if ok && had.GetSeq() >= r.GetSeq() {
			continue
		}
		if !ok {
			s.count++
		}
		t.list[at] = &cellv1.Reading{NamespaceId: r.GetNamespaceId(), Hour: r.GetHour(), Seq: r.GetSeq(), EgressBytes: r.GetEgressBytes(), StreamsPeak: r.GetStreamsPeak()}
	}
	s.trim(readingsMax)
	return nil
}

func checkReadings(in *cellv1.Readings, now time.Time) error {
	p := &problems{path: "readings."}
	name, isProxy := strings.CutPrefix(in.GetSource(), proxySource)
	p.require(isProxy && isReadingName(name), "source", "must be proxy/ and up to %d printable ASCII characters", readingNameMax)
	p.require(isReadingName(in.GetEpoch()), "epoch", "must be 1 to %d printable ASCII characters", readingNameMax)
	p.require(in.GetCompleteToNs() >= 0, "complete_to_ns", "can't be negative")
	p.require(len(in.GetList()) <= readingsPart, "list", "can't have more than %d readings", readingsPart)
	last := now.Add(time.Hour).Unix() / 3600 // Clocks differ.
	for i, r := range in.GetList() {
		at := fmt.Sprintf("list[%d].", i)
		p.require(r.GetHour() >= 0 && r.GetHour() <= last, at+"hour", "is not an hour of the past")
		p.require(r.GetEgressBytes() >= 0, at+"egress_bytes", "can't be negative")
		p.require(r.GetStreamsPeak() >= 0, at+"streams_peak", "can't be negative")
	}
	if len(p.fields) > 0 {
		return fault.InvalidFields(p.fields)
	}
	return nil
}

func isReadingName(s string) bool { return s != "" && len(s) <= readingNameMax && isPrintable(s) }

// teller finds or adds the run of a proxy, and forgets those that were not heard for long. It
// is called with mu held.
func (s *readings) teller(in *cellv1.Readings, now time.Time) *teller {
	key := in.GetSource() + "\x00" + in.GetEpoch()
	if t, ok := s.tellers[key]; ok {
		return t
	}
	for k, t := range s.tellers {
		if now.Sub(t.heard) > tellerKept {
			s.forget(k)
		}
	}
	if len(s.tellers) >= tellersMax {
		s.forget(s.leastHeard())
	}
	t := &teller{source: in.GetSource(), epoch: in.GetEpoch(), list: make(map[counted]*cellv1.Reading)}
	s.tellers[key] = t
	return t
}

func (s *readings) leastHeard() (key string) {
	var at time.Time
	for k, t := range s.tellers {
		if key == "" || t.heard.Before(at) {
			key, at = k, t.heard
		}
	}
	return key
}

func (s *readings) forget(key string) {
	s.count -= len(s.tellers[key].list)
	delete(s.tellers, key)
}

// trim drops the oldest hours, whole, while there are more than most. It is called with mu
// held.
func (s *readings) trim(most int) {
	for s.count > most {
		oldest := int64(-1)
		for _, t := range s.tellers {
			for at := range t.list {
				if oldest < 0 || at.hour < oldest {
					oldest = at.hour
				}
			}
		}
		for _, t := range s.tellers {
			for at := range t.list {
				if at.hour == oldest {
					delete(t.list, at)
					s.count--
				}
			}
		}
	}
}

// page is at most so many readings of hours from one on, in the order of places, after a
// place. The first page has every proxy, also those without readings: until when they have
// told everything.
func (s *readings) page(req *cellv1.ListReadingsRequest, most int, now time.Time) []*cellv1.Readings {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]*cellv1.Readings)
	for k, t := range s.tellers {
		if now.Sub(t.heard) > tellerKept {
			s.forget(k)
			continue
		}
		r := &cellv1.Readings{Source: t.source, Epoch: t.epoch, CompleteToNs: t.completeTo}
		found[k] = r
		for at, one := range t.list {
			if at.hour >= req.GetFromHour() && place(r, one) > string(req.GetNext()) {
				r.List = append(r.List, one)
			}
		}
	}
	return cutPage(found, most, false, len(req.GetNext()) == 0)
}

// place of a reading in the order in which all are listed.
func place(of *cellv1.Readings, r *cellv1.Reading) string {
	return fmt.Sprintf("%s\x00%s\x00%019d\x00%s", of.GetSource(), of.GetEpoch(), r.GetHour(), r.GetNamespaceId())
}

// cutPage orders what was found, and cuts it after so many readings; more says that there are
// others than these, and first keeps proxies without readings.
func cutPage(found map[string]*cellv1.Readings, most int, more, first bool) []*cellv1.Readings {
	var out []*cellv1.Readings
	for _, r := range found {
		slices.SortFunc(r.GetList(), func(a, b *cellv1.Reading) int {
			return cmp.Or(cmp.Compare(a.GetHour(), b.GetHour()), cmp.Compare(a.GetNamespaceId(), b.GetNamespaceId()))
		})
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *cellv1.Readings) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetEpoch(), b.GetEpoch()))
	})
	var last string
	for _, r := range out {
		n := 0
		for n < len(r.GetList()) && most > 0 {
			last, n, most = place(r, r.GetList()[n]), n+1, most-1
		}
		more = more || n < len(r.GetList())
		r.List = r.GetList()[:n]
	}
	if !first {
		out = slices.DeleteFunc(out, func(r *cellv1.Readings) bool { return len(r.GetList()) == 0 })
	}
	if n := len(out); n > 0 && more {
		out[n-1].More, out[n-1].Next = true, []byte(last)
	}
	return out
}

// proxyReadings asks all nodes at once what proxies told them, and takes the newest of each
// reading. A node that is silent leaves out what it alone was told. If it goesNoFurther,
// another node asks for this one's own.
func (m *Membership) proxyReadings(ctx context.Context, req *cellv1.ListReadingsRequest, goesNoFurther bool) *cellv1.ListReadingsResponse {
	if goesNoFurther {
		return &cellv1.ListReadingsResponse{Readings: m.cell.readings.page(req, readingsPart, time.Now())}
	}
	nodes := m.cell.View().Nodes()
	answers := make([][]*cellv1.Readings, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			var err error
			if answers[i], err = m.proxyReadingsOf(ctx, n, req); err != nil {
				m.logger.Debug("ask a node for the readings of proxies", "node", n.GetId(), "err", err)
			}
		})
	}
	asked.Wait()
	return &cellv1.ListReadingsResponse{Readings: mergeReadings(answers, readingsPart, len(req.GetNext()) == 0)}
}

func (m *Membership) proxyReadingsOf(ctx context.Context, n *cellv1.Node, req *cellv1.ListReadingsRequest) ([]*cellv1.Readings, error) {
	if n.GetId() == m.cell.NodeID() {
		return m.cell.readings.page(req, readingsPart, time.Now()), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, _ := m.peers.of(n)
	res, err := client.ListReadings(ctx, carried(req))
	if err != nil {
		return nil, Fault(err)
	}
	return res.Msg.GetReadings(), nil
}

// mergeReadings makes one page of those of several nodes. Each of them has told its first ones,
// as many as a page has, so that the first ones of all are complete.
func mergeReadings(answers [][]*cellv1.Readings, most int, first bool) []*cellv1.Readings {
	type both struct {
		of      *cellv1.Readings
		newest  map[counted]*cellv1.Reading
		ordered []counted
	}
	found, more := make(map[string]*both), false
	for _, list := range answers {
		for _, r := range list {
			more = more || r.GetMore()
			key := r.GetSource() + "\x00" + r.GetEpoch()
			b := found[key]
			if b == nil {
				b = &both{of: &cellv1.Readings{Source: r.GetSource(), Epoch: r.GetEpoch()}, newest: make(map[counted]*cellv1.Reading)}
				found[key] = b
			}
			b.of.CompleteToNs = max(b.of.GetCompleteToNs(), r.GetCompleteToNs())
			for _, one := range r.GetList() {
				at := counted{one.GetHour(), one.GetNamespaceId()}
				if had, ok := b.newest[at]; !ok {
					b.ordered = append(b.ordered, at)
				} else if had.GetSeq() >= one.GetSeq() {
					continue
				}
				b.newest[at] = one
			}
		}
	}
	merged := make(map[string]*cellv1.Readings, len(found))
	for key, b := range found {
		for _, at := range b.ordered {
			b.of.List = append(b.of.List, proto.CloneOf(b.newest[at]))
		}
		merged[key] = b.of
	}
	return cutPage(merged, most, more, first)
}
