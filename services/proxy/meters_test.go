package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// counts are the readings of a namespace by hour: bytes, and most streams.
func counts(list []*cellv1.Reading, namespace string) map[int64][2]int64 {
	out := make(map[int64][2]int64)
	for _, r := range list {
		if r.GetNamespaceId() == namespace {
			out[r.GetHour()] = [2]int64{r.GetEgressBytes(), r.GetStreamsPeak()}
		}
	}
	return out
}

// counted is what a node was told by the proxy since the last call.
func (u *upstream) counted() []*cellv1.Readings {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	told := u.readings
	u.readings = nil
	return told
}

// forget makes the nodes take no reports.
func (r *rig) forget(on bool) {
	for _, u := range r.up {
		u.state.mu.Lock()
		u.forgetful = on
		u.state.mu.Unlock()
	}
}

func TestMeters_AnHourHasItsBytesAndItsMostStreamsAndOneThatIsOpenCountsInEach(t *testing.T) {
	t.Parallel()
	ms := newMeters()
	at := func(hour int64) time.Time { return time.Unix(hour*3600+1, 0) }
	m := ms.at("ns_1", 100)
	m.wrote(10, at(100))
	m.opens()
	m.opens()
	m.closes()
	m.opens()
	m.wrote(5, at(101)) // Over two streams that were opened in the hour before.
	m.closes()
	m.wrote(1, at(100)) // Late: the clock was corrected. It counts once.
	ms.at("ns_2", 101).wrote(7, at(101))

	first := ms.read(102)
	if got := counts(first, "ns_1"); got[100] != [2]int64{10, 2} || got[101] != [2]int64{6, 2} || got[102] != [2]int64{0, 1} || len(got) != 3 {
		t.Errorf("counted %v", got)
	}
	if got := counts(first, "ns_2"); got[101] != [2]int64{7, 0} || len(got) != 1 {
		t.Errorf("a neighbour's: %v", got)
	}
	ms.at("ns_2", 101).wrote(1, at(102))
	for _, r := range ms.read(102) {
		if fresh := r.GetNamespaceId() == "ns_2" && r.GetHour() == 102; fresh != (r.GetSeq() == 2) {
			t.Errorf("%v, which is new: %v", r, fresh)
		}
	}
	m.closes()
	if later := ms.read(102 + hoursKept); len(counts(later, "ns_1")) != 1 {
		t.Errorf("kept: %v", later)
	}
	if later := ms.read(103 + hoursKept); len(later) != 0 || len(ms.of) != 0 {
		t.Errorf("kept for ever: %v, %d namespaces", later, len(ms.of))
	}
}

func TestMeters_TwoNodesAreToldWhatIsNewAndTheWholeAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	namespace := r.acme.namespace("default").GetId()
	takers := len(r.up)
	told := func(what string, want int) (last *cellv1.Reading) {
		t.Helper()
		r.proxy.calls.waitEmpty(patience) // An answer is counted when it is written.
		r.proxy.tellReadingsOnce(t.Context())
		heard := 0
		for _, u := range r.up {
			reports := u.counted()
			heard += min(len(reports), 1)
			for _, s := range reports {
				n := 0
				for _, one := range s.GetList() {
					if one.GetNamespaceId() == namespace {
						n, last = n+1, one
					}
				}
				if n != want || s.GetSource() != "proxy/"+r.proxy.id || s.GetEpoch() != r.proxy.id || s.GetCompleteToNs() == 0 {
					t.Errorf("%s: node %s was told %v, want %d of the namespace", what, u.id, s, want)
				}
			}
		}
		if heard != takers {
			t.Errorf("%s: %d nodes were told, want %d", what, heard, takers)
		}
		return last
	}
	told("before anything", 0)
	got := r.ask(r.http1, http.MethodGet, "/api/v1/queues", "", withKey(r.acme.key))
	if first := told("after a call", 1); first.GetEgressBytes() != int64(len(got.body)) || first.GetStreamsPeak() != 0 {
		t.Errorf("counted %v, the answer has %d bytes", first, len(got.body))
	}
	told("nothing new", 0)
	r.proxy.meters.telling.Lock()
	for _, n := range r.proxy.meters.nodes {
		n.whole = n.whole.Add(-wholeEvery)
	}
	r.proxy.meters.telling.Unlock()
	told("after a while", 1)
	r.ask(r.http1, http.MethodGet, "/api/v1/queues", "", withKey(r.acme.key))
	r.forget(true)
	takers = 0
	told("no node takes it", 0)
	r.forget(false)
	takers = len(r.up)
	if again := told("as soon as they do", 1); again.GetEgressBytes() != 2*int64(len(got.body)) {
		t.Errorf("counted %v, want what two answers have", again)
	}
	r.ask(r.http1, http.MethodGet, "/api/v1/queues", "", nil)
	told("a call without a key", 0)
}

func TestMeters_AStreamCountsWithItsFramesAndTheLastReportComesAtTheEnd(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	s := r.worker(r.acme.key).StreamLifecycle(t.Context())
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); err != nil {
		t.Fatal(err)
	}
	_ = s.CloseRequest()
	_ = s.CloseResponse()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.proxy.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	var peak, egress int64
	for _, said := range r.up[0].counted() {
		for _, one := range said.GetList() {
			if one.GetNamespaceId() == r.acme.namespace("default").GetId() {
				peak, egress = max(peak, one.GetStreamsPeak()), max(egress, one.GetEgressBytes())
			}
		}
	}
	if peak != 1 || egress == 0 {
		t.Errorf("at the end %d streams and %d bytes were told", peak, egress)
	}
}

// Counting is on the path of every write.
func TestMeters_CountingAllocatesNothing(t *testing.T) { // Not in parallel: others allocate.
	ms, now := newMeters(), time.Now()
	ms.at("ns_1", hourOf(now))
	if n := testing.AllocsPerRun(1000, func() {
		m := ms.at("ns_1", hourOf(now))
		m.opens()
		m.wrote(100, now)
		m.closes()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMeterWrote(b *testing.B) {
	m, now := newMeters().at("ns_1", hourOf(time.Now())), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		m.wrote(100, now)
	}
}

func BenchmarkMeterOfACall(b *testing.B) {
	ms, now := newMeters(), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ms.at("ns_1", hourOf(now)).wrote(100, now)
		}
	})
}
