package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	// usageLease and a cell's name are the lease on metering it.
	usageLease = "usage/"
	// readingsPerWrite bounds a transaction: others wait for the writer of SQLite.
	readingsPerWrite = 500
	// proxyHours before the next to be closed are those of which proxies are asked: what they
	// tell late is a correction.
	proxyHours = 24
	// sourcesKept is how long runs of proxies are remembered.
	sourcesKept = 7 * 24 * time.Hour
)

// meter fetches what a cell counted, and closes its hours. All that it needs is in the database:
// what it keeps in memory only saves work.
type meter struct {
	*Loop
	name    string
	cell    Cell
	tenants map[string]string  // By namespace, which never changes.
	told    map[toldKey]toldIs // By proxies, as it was written last.
}

type toldKey struct {
	source, epoch, namespaceID string
	hour                       int64
}

type toldIs struct {
	store.Counts
	seq int64
}

func newMeter(l *Loop, name string, cell Cell) *meter {
	return &meter{l, name, cell, make(map[string]string), make(map[toldKey]toldIs)}
}

// take asks the cell, and closes the hours that are complete. One loop at a time does; two do
// no harm.
func (m *meter) take(ctx context.Context) error {
	mine, err := m.mine(ctx, usageLease+m.name, max(3*m.o.Usage, time.Minute))
	if err != nil || !mine {
		return err
	}
	if err := m.takeAll(ctx); err != nil {
		return fmt.Errorf("meter cell %s: %w", m.name, err)
	}
	return nil
}

func (m *meter) takeAll(ctx context.Context) error {
	// Nodes of a cell that was replaced count what is counted by the one that replaced it.
	if err := m.guard(ctx, m.name, m.cell, false); err != nil {
		return err
	}
	shards, err := m.shardsOf(ctx, m.name, m.cell)
	if err != nil {
		return fmt.Errorf("ask for its shards: %w", err)
	}
	var failed []error
	for _, shard := range shards {
		if err := m.takeShard(ctx, shard); err != nil {
			failed = append(failed, fmt.Errorf("shard %d: %w", shard, err))
		}
	}
	if err := m.takeProxies(ctx); err != nil {
		failed = append(failed, fmt.Errorf("proxies: %w", err))
		return errors.Join(failed...) // What they would have told may be missing.
	}
	return errors.Join(append(failed, m.closeHours(ctx, shards))...)
}

// walked is all that one walk over a source's readings gave.
type walked struct {
	epoch    string
	position metering.Position
	readings []*cellv1.Reading
}

// takeShard asks a shard for what is new since it was asked last.
func (m *meter) takeShard(ctx context.Context, shard uint32) error {
	source := fmt.Sprintf("shard/%d", shard)
	known, err := m.sourceOf(ctx, source)
	if err != nil {
		return err
	}
	r := &cellv1.ListReadingsRequest{Shard: shard, AfterSeq: uint64(known.Seq), AfterCompleteNs: nanos(known.CompleteTo)}
	w, err := walkShard(ctx, m.cell, r)
	if err == nil && known.Epoch != "" && w.epoch != known.Epoch {
		// It counts positions anew. Hours that were complete before aren't told again.
		w, err = walkShard(ctx, m.cell, &cellv1.ListReadingsRequest{Shard: shard, FromHour: metering.Hour(known.CompleteTo)})
	}
	if err != nil || w.epoch == "" {
		return err
	}
	return m.write(ctx, source, w)
}

// sourceOf is the epoch of a shard that has not ended; none at first.
func (m *meter) sourceOf(ctx context.Context, source string) (known store.UsageSource, _ error) {
	all, err := store.Get(ctx, m.store.ReadService, func(tx *store.Tx) ([]store.UsageSource, error) { return tx.UsageSources(ctx, m.name, m.o.Now()) })
	for _, s := range all {
		if s.Source == source && !s.Ended {
			known = s
		}
	}
	return known, err
}

// readings asks; a node from before cells counted says nothing.
func readings(ctx context.Context, cell Cell, r *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	res, err := cell.ListReadings(ctx, r)
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return &cellv1.ListReadingsResponse{}, nil
	}
	return res, err
}

// errMixed: between two pages the shard became another one, or a page said nothing.
var errMixed = errors.New("the pages of an answer don't belong together")

func walkShard(ctx context.Context, cell Cell, r *cellv1.ListReadingsRequest) (w walked, _ error) {
	for first := true; ; first = false {
		res, err := readings(ctx, cell, r)
		if err != nil {
			return w, err
		}
		if len(res.GetReadings()) == 0 {
			if first {
				return w, nil // The cell doesn't count yet.
			}
			return w, errMixed
		}
		page := res.GetReadings()[0]
		at := metering.Position{Seq: number(res.GetSeq()), CompleteTo: time.Unix(0, page.GetCompleteToNs()).UTC()}
		switch {
		case first:
			w.epoch, w.position = page.GetEpoch(), at
		case page.GetEpoch() != w.epoch:
			return w, errMixed
		}
		// What one page says is complete counts for all only if each says so.
		w.position.Seq = min(w.position.Seq, at.Seq)
		if at.CompleteTo.Before(w.position.CompleteTo) {
			w.position.CompleteTo = at.CompleteTo
		}
		w.readings = append(w.readings, page.GetList()...)
		if !page.GetMore() {
			return w, nil
		}
		r.Next = page.GetNext()
	}
}

// takeProxies asks for what all proxies counted in the last hours.
func (m *meter) takeProxies(ctx context.Context) error {
	at, err := store.Get(ctx, m.store.ReadService, func(tx *store.Tx) (store.UsageClosing, error) { return tx.GetUsageClosing(ctx, m.name) })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	from := max(at.Hour-proxyHours, 0)
	maps.DeleteFunc(m.told, func(k toldKey, _ toldIs) bool { return k.hour < from })
	all, err := walkProxies(ctx, m.cell, from)
	if err != nil {
		return err
	}
	for _, run := range slices.SortedFunc(maps.Keys(all), func(a, b proxyRun) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.epoch, b.epoch))
	}) {
		w := all[run]
		w.readings = slices.DeleteFunc(w.readings, func(r *cellv1.Reading) bool {
			is, has := m.told[keyOf(run, r)]
			return has && is == toldOf(r)
		})
		if err := m.write(ctx, run.source, *w); err != nil {
			return err
		}
		for _, r := range w.readings {
			m.told[keyOf(run, r)] = toldOf(r)
		}
	}
	return nil
}

type proxyRun struct{ source, epoch string }

func keyOf(run proxyRun, r *cellv1.Reading) toldKey {
	return toldKey{run.source, run.epoch, r.GetNamespaceId(), r.GetHour()}
}

func toldOf(r *cellv1.Reading) toldIs { return toldIs{countsOf(r), number(r.GetSeq())} }

func walkProxies(ctx context.Context, cell Cell, from int64) (map[proxyRun]*walked, error) {
	all := make(map[proxyRun]*walked)
	for r := (&cellv1.ListReadingsRequest{FromHour: from}); ; {
		res, err := readings(ctx, cell, r)
		if err != nil {
			return nil, err
		}
		r.Next = nil
		for _, page := range res.GetReadings() {
			run := proxyRun{page.GetSource(), page.GetEpoch()}
			complete := time.Unix(0, page.GetCompleteToNs()).UTC()
			w := all[run]
			if w == nil {
				w = &walked{epoch: run.epoch, position: metering.Position{CompleteTo: complete}}
				all[run] = w
			}
			if complete.Before(w.position.CompleteTo) {
				w.position.CompleteTo = complete
			}
			w.readings = append(w.readings, page.GetList()...)
			if page.GetMore() {
				r.Next = page.GetNext()
			}
		}
		if len(r.GetNext()) == 0 {
			return all, nil
		}
	}
}

// write takes what a source said, in parts; the last one has the position, so that after any
// crash the source is asked again from where everything is written.
func (m *meter) write(ctx context.Context, source string, w walked) error {
	readings, err := m.owned(ctx, source, w.readings)
	if err != nil {
		return err
	}
	for first := true; first || len(readings) > 0; first = false {
		said := metering.Said{Cell: m.name, Source: source, Epoch: w.epoch, Readings: readings[:min(len(readings), readingsPerWrite)]}
		if readings = readings[len(said.Readings):]; len(readings) == 0 {
			said.Position = &w.position
		}
		now := m.o.Now()
		taken, err := store.Get(ctx, m.store.Service, func(tx *store.Tx) (metering.Taken, error) { return metering.Take(ctx, tx, said, now) })
		if err != nil {
			return err
		}
		m.report(ctx, said, taken)
		if taken.Ended {
			return nil
		}
	}
	return nil
}

func (m *meter) report(ctx context.Context, said metering.Said, taken metering.Taken) {
	if taken.Ended {
		m.o.Log.WarnContext(ctx, "readings of an epoch that has ended were left out", "cell", said.Cell, "source", said.Source, "epoch", said.Epoch)
	}
	for _, a := range taken.Alarms {
		m.o.Log.ErrorContext(ctx, "a reading can't be; see usage_alarms", "problem", a.Problem, "cell", a.Cell, "source", a.Source, "epoch", a.Epoch,
			"tenant", a.TenantID, "namespace", a.NamespaceID, "hour", metering.Start(a.Hour).Format(time.RFC3339))
	}
	if taken.Revised > 0 {
		m.o.Log.InfoContext(ctx, "closed hours were corrected", "cell", said.Cell, "source", said.Source, "hours", taken.Revised)
	}
}

// owned finds the tenants of readings. Those of namespaces that the database doesn't have are
// left out: nobody could be billed.
func (m *meter) owned(ctx context.Context, source string, list []*cellv1.Reading) ([]metering.Reading, error) {
	if err := m.learn(ctx, list); err != nil {
		return nil, err
	}
	missing := make(map[string]bool)
	var out []metering.Reading
	for _, r := range list {
		id := r.GetNamespaceId()
		tenantID, known := m.tenants[id]
		if !known && !missing[id] {
			missing[id] = true
			m.o.Log.WarnContext(ctx, "a reading isn't billed, because the database doesn't have its namespace",
				"cell", m.name, "source", source, "namespace", id, "hour", metering.Start(r.GetHour()).Format(time.RFC3339))
		}
		if known {
			out = append(out, metering.Reading{UsageKey: store.UsageKey{TenantID: tenantID, NamespaceID: id, Hour: r.GetHour()}, Seq: number(r.GetSeq()),
				Counts: countsOf(r), OpenJobs: r.GetOpenJobs(), StoredBytes: r.GetStoredBytes()})
		}
	}
	return out, nil
}

// learn reads the tenants of namespaces that are new.
func (m *meter) learn(ctx context.Context, list []*cellv1.Reading) error {
	fresh := make(map[string]bool)
	for _, r := range list {
		if _, known := m.tenants[r.GetNamespaceId()]; !known {
			fresh[r.GetNamespaceId()] = true
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(fresh)), readingsPerWrite) {
		found, err := store.Get(ctx, m.store.ReadService, func(tx *store.Tx) (map[string]string, error) { return tx.TenantsOfNamespaces(ctx, ids) })
		if err != nil {
			return err
		}
		maps.Copy(m.tenants, found)
	}
	return nil
}

// closeHours closes the hours of which all sources have told.
func (m *meter) closeHours(ctx context.Context, shards []uint32) error {
	now := m.o.Now()
	for more := true; more; {
		// The sources are read in the transaction: another loop may know of one more.
		err := m.store.Service(ctx, func(tx *store.Tx) error {
			sources, err := tx.UsageSources(ctx, m.name, now.Add(-metering.SilentFor))
			if err == nil {
				more, err = metering.Close(ctx, tx, m.name, metering.Complete(sources, shards, now), now)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("close hours: %w", err)
		}
	}
	return m.store.Service(ctx, func(tx *store.Tx) error {
		_, err := metering.Forget(ctx, tx, m.name)
		if err == nil {
			_, err = tx.DeleteUsageSources(ctx, now.Add(-sourcesKept))
		}
		return err
	})
}

func countsOf(r *cellv1.Reading) store.Counts {
	return store.Counts{JobsEnqueued: r.GetJobsEnqueued(), Executions: r.GetExecutions(), PayloadBytes: r.GetPayloadBytes(),
		StoredByteHours: r.GetStoredByteHours(), EgressBytes: r.GetEgressBytes(), StreamsPeak: r.GetStreamsPeak()}
}

// number is a position as the tables keep it; a raft log never gets that long.
func number(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// nanos is 0 for a time that is not set.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
