package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// countedAt is an hour of a namespace.
type countedAt struct {
	namespace string
	hour      int64
}

// countingShard is a shard that counts, or a run of a proxy.
type countingShard struct {
	source, epoch string
	seq           uint64
	completeTo    time.Time
	counts        map[countedAt]*cellv1.Reading
}

func (s *countingShard) clone() *countingShard {
	c := *s
	c.counts = make(map[countedAt]*cellv1.Reading)
	for at, r := range s.counts {
		c.counts[at], _ = proto.Clone(r).(*cellv1.Reading)
	}
	return &c
}

func (s *countingShard) at(at countedAt) *cellv1.Reading {
	s.seq++
	if s.counts[at] == nil {
		s.counts[at] = &cellv1.Reading{NamespaceId: at.namespace, Hour: at.hour}
	}
	s.counts[at].Seq = s.seq
	return s.counts[at]
}

// countingCell answers ListReadings as a cell does, badly: answers are lost, come late, in
// small pages, in any order and twice.
type countingCell struct {
	reconcile.Cell

	mu      sync.Mutex
	random  *rand.Rand
	faults  bool
	id      string
	shards  map[uint32]*countingShard
	before  map[uint32]*countingShard // As they were a while ago.
	proxies []*countingShard
	asked   []*cellv1.ListReadingsRequest
}

func newCountingCell(seed uint64) *countingCell {
	c := &countingCell{random: rand.New(rand.NewPCG(seed, 1)), id: "cell-1", shards: make(map[uint32]*countingShard), before: make(map[uint32]*countingShard)}
	for _, n := range []uint32{1, 2} {
		c.shards[n] = &countingShard{source: fmt.Sprintf("shard/%d", n), epoch: c.id, counts: make(map[countedAt]*cellv1.Reading)}
		c.before[n] = c.shards[n].clone()
	}
	return c
}

func (c *countingCell) Control(context.Context) (celladmin.Control, error) {
	return celladmin.Control{}, nil
}

func (c *countingCell) State(context.Context) (*cellv1.State, error) {
	return &cellv1.State{Shards: []uint32{1, 2}}, nil
}

var errLost = errors.New("the answer was lost")

func (c *countingCell) ListReadings(_ context.Context, r *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, _ := proto.Clone(r).(*cellv1.ListReadingsRequest)
	c.asked = append(c.asked, asked)
	if c.faults && c.random.IntN(8) == 0 {
		return nil, errLost
	}
	if r.GetShard() == 0 {
		res := &cellv1.ListReadingsResponse{}
		for _, p := range c.proxies {
			res.Readings = append(res.Readings, c.page(p, r, len(p.counts)))
		}
		return res, nil
	}
	s := c.shards[r.GetShard()]
	if c.faults && len(r.GetNext()) == 0 && c.random.IntN(6) == 0 {
		s = c.before[r.GetShard()] // It was a long way.
	}
	size := len(s.counts) + 1
	if c.faults {
		size = 1 + c.random.IntN(4)
	}
	return &cellv1.ListReadingsResponse{Readings: []*cellv1.Readings{c.page(s, r, size)}, Seq: s.seq}, nil
}

// page is a part of what is asked for; next is the place after it, and the epoch.
func (c *countingCell) page(s *countingShard, r *cellv1.ListReadingsRequest, size int) *cellv1.Readings {
	var all []*cellv1.Reading
	for _, at := range slices.SortedFunc(maps.Keys(s.counts), func(a, b countedAt) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if reading := s.counts[at]; reading.GetHour() >= r.GetFromHour() && reading.GetSeq() > r.GetAfterSeq() {
			copied, _ := proto.Clone(reading).(*cellv1.Reading)
			all = append(all, copied)
		}
	}
	var from int
	var epoch string
	if _, err := fmt.Sscanf(string(r.GetNext()), "%d %s", &from, &epoch); err == nil && (epoch != s.epoch || from > len(all)) {
		from = len(all)
	}
	list := all[from:min(from+size, len(all))]
	next := from + len(list)
	if c.faults {
		c.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if len(list) > 0 {
			list = append(list, list[c.random.IntN(len(list))])
		}
	}
	return &cellv1.Readings{Source: s.source, Epoch: s.epoch, CompleteToNs: s.completeTo.UnixNano(), List: list, More: next < len(all), Next: fmt.Appendf(nil, "%d %s", next, s.epoch)}
}

// brokenStore loses transactions, before or after they are committed, as a process does that
// is killed.
type brokenStore struct {
	store.Store

	mu     sync.Mutex
	random *rand.Rand
	faults bool
	// failAt counts down to the one that fails; 0: none.
	failAt int
	after  bool
}

var errCrash = errors.New("the process was killed")

func (s *brokenStore) Service(ctx context.Context, f func(*store.Tx) error) error {
	s.mu.Lock()
	before := s.faults && s.random.IntN(10) == 0
	after := s.faults && s.random.IntN(10) == 0
	if s.failAt > 0 {
		if s.failAt--; s.failAt == 0 {
			before, after = !s.after, s.after
		}
	}
	s.mu.Unlock()
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		err := f(tx)
		if err == nil && before {
			err = errCrash
		}
		return err
	})
	if err == nil && after {
		return errCrash
	}
	return err
}

// meterWorld is a cell that counts, two control planes over one database, and what the test
// counted by itself.
type meterWorld struct {
	*cloudtest.World
	t       testing.TB
	cell    *countingCell
	broken  *brokenStore
	loops   []*reconcile.Loop
	meters  []func(context.Context) error
	tenants map[string]string // By namespace.
	// truth is what is to be billed; peaks by proxy.
	truth map[countedAt]*cellv1.Reading
	peaks map[countedAt]map[string]int64
	// settled is what epochs of shards before counted, and floor what the one of now must
	// exceed.
	settled, floor map[countedAt]int64
}

func newMeterWorld(t testing.TB, w *cloudtest.World, seed uint64) *meterWorld {
	m := &meterWorld{World: w, t: t, cell: newCountingCell(seed), tenants: make(map[string]string), truth: make(map[countedAt]*cellv1.Reading),
		peaks: make(map[countedAt]map[string]int64), settled: make(map[countedAt]int64), floor: make(map[countedAt]int64)}
	m.broken = &brokenStore{Store: w.Store, random: rand.New(rand.NewPCG(seed, 2))}
	for i := range 3 {
		tn, _ := w.Tenant(t, fmt.Sprintf("tenant-%d", i), fmt.Sprintf("ada@%d.test", i))
		for j := range 2 {
			ns := store.Namespace{TenantID: tn.ID, ID: fmt.Sprintf("ns_%d%d", i, j), Name: fmt.Sprintf("ns-%d", j), CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
			w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNamespace(ctx, ns) })
			m.tenants[ns.ID] = tn.ID
		}
	}
	for range 2 {
		l := reconcile.New(m.broken, map[string]reconcile.Cell{"test": m.cell}, nil, reconcile.Options{Now: w.Now})
		m.loops, m.meters = append(m.loops, l), append(m.meters, l.Meter("test"))
	}
	return m
}

func (m *meterWorld) truthAt(at countedAt) *cellv1.Reading {
	if m.truth[at] == nil {
		m.truth[at] = &cellv1.Reading{}
	}
	return m.truth[at]
}

// work lets jobs run in the hour of now.
func (m *meterWorld) work(random *rand.Rand) {
	m.cell.mu.Lock()
	defer m.cell.mu.Unlock()
	ids := slices.Sorted(maps.Keys(m.tenants))
	at := countedAt{ids[random.IntN(len(ids))], metering.Hour(m.Now())}
	r := m.cell.shards[1+uint32(len(at.namespace)+int(at.namespace[3]))%2].at(at)
	n := random.Int64N(5)
	r.JobsEnqueued += n
	r.Executions += 2 * n
	r.PayloadBytes += 100 * n
	r.StoredByteHours += 7 * n
	r.OpenJobs = n
	if len(m.cell.proxies) > 0 {
		p := m.cell.proxies[random.IntN(len(m.cell.proxies))]
		r, peak := p.at(at), random.Int64N(50)
		r.EgressBytes += n
		r.StreamsPeak = max(r.GetStreamsPeak(), peak)
		m.truthAt(at).EgressBytes += n
		if m.peaks[at] == nil {
			m.peaks[at] = make(map[string]int64)
		}
		m.peaks[at][p.source] = max(m.peaks[at][p.source], peak)
	}
}

// told lets the sources say that they are complete to now.
func (m *meterWorld) told(random *rand.Rand) {
	m.cell.mu.Lock()
	defer m.cell.mu.Unlock()
	for n, s := range m.cell.shards {
		if random.IntN(3) == 0 {
			m.cell.before[n] = s.clone()
		}
		s.completeTo = m.Now()
	}
	for _, p := range m.cell.proxies {
		p.completeTo = m.Now()
	}
}

// startProxy begins a run of a proxy. What one before told stays known.
func (m *meterWorld) startProxy(random *rand.Rand) {
	m.cell.mu.Lock()
	defer m.cell.mu.Unlock()
	m.cell.proxies = append(m.cell.proxies, &countingShard{source: fmt.Sprintf("proxy/%d", random.IntN(2)), epoch: fmt.Sprintf("run-%d", len(m.cell.proxies)),
		completeTo: m.Now(), counts: make(map[countedAt]*cellv1.Reading)})
}

// recover makes the cell another one, which lacks some of what was counted in the hour of now.
func (m *meterWorld) recover(random *rand.Rand) {
	m.cell.mu.Lock()
	defer m.cell.mu.Unlock()
	m.cell.id += "x"
	for n, s := range m.cell.shards {
		fewer := s.clone()
		fewer.epoch, fewer.seq, fewer.completeTo = m.cell.id, 1, m.Now()
		for _, at := range slices.SortedFunc(maps.Keys(s.counts), func(a, b countedAt) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			r, had := fewer.at(at), s.counts[at].GetJobsEnqueued() // Positions begin anew.
			m.settled[at] += max(0, had-m.floor[at])
			m.floor[at] = max(m.floor[at], had)
			if at.hour == metering.Hour(m.Now()) {
				lost := random.Int64N(had + 1)
				r.JobsEnqueued, r.Executions, r.PayloadBytes, r.StoredByteHours = had-lost, 2*(had-lost), 100*(had-lost), 7*(had-lost)
			}
		}
		m.cell.shards[n], m.cell.before[n] = fewer, fewer.clone()
	}
}

// pass lets both control planes meter at once.
func (m *meterWorld) pass() (failed error) {
	var both sync.WaitGroup
	errs := make([]error, len(m.meters))
	for i, meter := range m.meters {
		both.Go(func() { errs[i] = meter(m.t.Context()) })
	}
	both.Wait()
	return errors.Join(errs...)
}

// check ends all faults, lets time pass until every hour is closed, and demands that the
// ledger has what the test counted.
func (m *meterWorld) check() {
	m.t.Helper()
	m.cell.set(false)
	m.broken.set(false)
	m.Advance(2 * time.Hour)
	m.told(rand.New(rand.NewPCG(0, 0)))
	for range 2 {
		if err := m.pass(); err != nil {
			m.t.Fatal(err)
		}
	}
	want := make(map[countedAt]store.Counts)
	for at := range m.truth {
		want[at] = store.Counts{EgressBytes: m.truth[at].GetEgressBytes()}
	}
	for at, peaks := range m.peaks {
		c := want[at]
		for _, p := range peaks {
			c.StreamsPeak += p
		}
		want[at] = c
	}
	for _, s := range m.cell.shards {
		for at, r := range s.counts {
			c := want[at]
			c.JobsEnqueued = m.settled[at] + max(0, r.GetJobsEnqueued()-m.floor[at])
			c.Executions, c.PayloadBytes, c.StoredByteHours = 2*c.JobsEnqueued, 100*c.JobsEnqueued, 7*c.JobsEnqueued
			want[at] = c
		}
	}
	maps.DeleteFunc(want, func(at countedAt, c store.Counts) bool { return c == store.Counts{} || m.tenants[at.namespace] == "" })
	m.compare(want)
}

func (m *meterWorld) compare(want map[countedAt]store.Counts) {
	m.t.Helper()
	got := make(map[countedAt]store.Counts)
	days, wantDays := make(map[countedAt]store.Counts), make(map[countedAt]store.Counts)
	m.Service(m.t, func(ctx context.Context, tx *store.Tx) error {
		for _, tenantID := range slices.Compact(slices.Sorted(maps.Values(m.tenants))) {
			hours, err := tx.UsageByHour(ctx, tenantID, 0, 1<<40, true)
			if err != nil {
				return err
			}
			for _, h := range hours {
				got[countedAt{h.NamespaceID, h.At}] = h.Counts
			}
			sums, err := tx.UsageByDay(ctx, tenantID, 0, 1<<40, true)
			if err != nil {
				return err
			}
			for _, d := range sums {
				days[countedAt{d.NamespaceID, d.At}] = d.Counts
			}
		}
		alarms, err := tx.ListUsageAlarms(ctx, time.Time{}, 10)
		if len(alarms) > 0 {
			m.t.Errorf("alarms %+v", alarms)
		}
		return err
	})
	for at, c := range want {
		if got[at] != c {
			m.t.Errorf("%+v: the ledger has %+v, counted were %+v", at, got[at], c)
		}
		day := countedAt{at.namespace, at.hour / 24}
		s := wantDays[day]
		s.JobsEnqueued, s.Executions, s.PayloadBytes = s.JobsEnqueued+c.JobsEnqueued, s.Executions+c.Executions, s.PayloadBytes+c.PayloadBytes
		s.StoredByteHours, s.EgressBytes, s.StreamsPeak = s.StoredByteHours+c.StoredByteHours, s.EgressBytes+c.EgressBytes, max(s.StreamsPeak, c.StreamsPeak)
		wantDays[day] = s
	}
	for at, c := range got {
		if _, has := want[at]; !has {
			m.t.Errorf("%+v: the ledger has %+v, nothing was counted", at, c)
		}
	}
	if !maps.Equal(days, wantDays) {
		m.t.Errorf("days\n%+v, want\n%+v", days, wantDays)
	}
}

func (c *countingCell) set(faults bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = faults
}

func (s *brokenStore) set(faults bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Whatever is lost, doubled, delayed and killed, the ledger has what was counted.
func TestUsage_TheLedgerIsWhatWasCounted(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				if seed > 0 {
					w = cloudtest.New(t)
				}
				simulate(t, newMeterWorld(t, w, seed), rand.New(rand.NewPCG(seed, 3)))
			})
		}
	})
}

func simulate(t *testing.T, m *meterWorld, random *rand.Rand) {
	m.cell.set(true)
	m.broken.set(true)
	failures := 0
	for step := range 150 {
		for range random.IntN(8) {
			m.work(random)
		}
		m.Advance(time.Duration(random.Int64N(int64(12 * time.Minute))))
		if random.IntN(3) > 0 {
			m.told(random)
		}
		if random.IntN(20) == 0 {
			m.startProxy(random)
		}
		if m.pass() != nil {
			failures++
		}
		if random.IntN(15) == 0 { // A control plane starts anew.
			m.meters[step%2] = m.loops[step%2].Meter("test")
		}
		if step == 60 || step == 110 {
			// All that was told before the recovery has been heard, and all that it knows
			// after it.
			m.cell.set(false)
			m.broken.set(false)
			if err := m.pass(); err != nil {
				t.Fatal(err)
			}
			m.recover(random)
			if err := m.pass(); err != nil {
				t.Fatal(err)
			}
			m.cell.set(true)
			m.broken.set(true)
		}
	}
	if failures < 20 {
		t.Errorf("only %d passes failed: the test is blind", failures)
	}
	m.check()
}

// A kill before or after each transaction changes nothing of what is billed in the end.
func TestUsage_AKillBetweenAnyTwoStepsCountsOnce(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for step := 1; step <= 8; step++ {
			m := newMeterWorld(t, cloudtest.New(t), uint64(step))
			m.meters = m.meters[:1]
			random := rand.New(rand.NewPCG(uint64(step), 4))
			m.startProxy(random)
			for range 20 {
				m.work(random)
				m.Advance(20 * time.Minute)
			}
			m.told(random)
			m.broken.failAt, m.broken.after = step, after
			if err := m.pass(); !errors.Is(err, errCrash) {
				t.Fatalf("step %d: %v, want a kill", step, err)
			}
			m.meters = []func(context.Context) error{m.loops[1].Meter("test")}
			m.check()
		}
	}
}

// Only what is new is asked for, and a cell under another id from where the one before was
// complete.
func TestUsage_AsksFromWhereItsLastAnswerEnded(t *testing.T) {
	t.Parallel()
	m := newMeterWorld(t, cloudtest.New(t), 1)
	random := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		m.work(random)
	}
	m.told(random)
	m.cell.before[1], m.cell.before[2] = m.cell.shards[1].clone(), m.cell.shards[2].clone()
	of := func() (asked []*cellv1.ListReadingsRequest) {
		m.cell.asked = nil
		if err := m.meters[0](t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range m.cell.asked {
			if r.GetShard() == 1 {
				asked = append(asked, r)
			}
		}
		return asked
	}
	if first := of(); len(first) != 1 || first[0].GetAfterSeq() != 0 {
		t.Errorf("first asked %v", first)
	}
	if second := of(); len(second) != 1 || second[0].GetAfterSeq() != m.cell.shards[1].seq || second[0].GetAfterCompleteNs() != m.Now().UnixNano() {
		t.Errorf("then asked %v", second)
	}
	m.recover(random)
	if third := of(); len(third) != 2 || third[1].GetAfterSeq() != 0 || third[1].GetFromHour() != metering.Hour(m.Now()) {
		t.Errorf("after the recovery asked %v", third)
	}
	m.check()
}

// What nobody can be billed for stops nothing.
func TestUsage_UnknownNamespacesAreLeftOut(t *testing.T) {
	t.Parallel()
	m := newMeterWorld(t, cloudtest.New(t), 1)
	m.cell.shards[1].at(countedAt{"ns_unknown", metering.Hour(m.Now())}).JobsEnqueued = 5
	m.work(rand.New(rand.NewPCG(1, 1)))
	m.check()
}

// A control plane that is asked to follow a cell of before says nothing of hours.
func TestUsage_ACellThatDoesNotCountYetClosesNothing(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	f, client := newFakeCell(t)
	f.state.Shards = []uint32{1}
	l := reconcile.New(w.Store, map[string]reconcile.Cell{"main": client}, nil, reconcile.Options{Now: w.Now})
	if err := l.Meter("main")(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		at, err := tx.GetUsageClosing(ctx, "main")
		if err == nil && at.Hour > 0 {
			t.Errorf("closed up to %d", at.Hour)
		}
		return nil
	})
}
