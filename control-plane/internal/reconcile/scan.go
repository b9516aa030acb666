package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// scanPage is how many records one transaction reads.
const scanPage = 500

// scan finds records that should have an outbox row and have none.
func (l *Loop) scan(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.o.Claim/2) // As for a row that asks for it.
	defer cancel()
	return errors.Join(l.applyTokenKeys(limited, false), l.scanUnobserved(ctx))
}

// scanUnobserved leaves a row for each record whose generation its cell has not
// applied.
func (l *Loop) scanUnobserved(ctx context.Context) error {
	tenants := pages(ctx, l, func(tx *store.Tx, p store.Page) ([]store.Tenant, error) { return tx.UnobservedTenants(ctx, p) },
		func(t store.Tenant) (string, observed) {
			return t.ID, observed{store.OutboxTenant, t.ID, t.ID, t.Generation, ""}
		})
	namespaces := pages(ctx, l, func(tx *store.Tx, p store.Page) ([]store.Namespace, error) { return tx.UnobservedNamespaces(ctx, p) },
		func(n store.Namespace) (string, observed) {
			return n.ID, observed{store.OutboxNamespace, n.TenantID, n.ID, n.Generation, ""}
		})
	keys := pages(ctx, l, func(tx *store.Tx, p store.Page) ([]store.Key, error) { return tx.UnobservedKeys(ctx, p) },
		func(k store.Key) (string, observed) {
			return k.ID, observed{store.OutboxKey, k.TenantID, k.ID, k.Generation, ""}
		})
	if err := errors.Join(tenants, namespaces, keys); err != nil {
		return fmt.Errorf("look for what cells do not know: %w", err)
	}
	return nil
}

// pages walks a listing and leaves a row for each record.
func pages[T any](ctx context.Context, l *Loop, list func(*store.Tx, store.Page) ([]T, error), of func(T) (string, observed)) error {
	for after := ""; ; {
		var n int
		next := after
		err := l.store.Service(ctx, func(tx *store.Tx) error {
			page, err := list(tx, store.Page{After: after, Limit: scanPage})
			if err != nil {
				return err
			}
			n = len(page)
			for _, r := range page {
				id, o := of(r)
				next = id
				if err := l.leave(ctx, tx, o); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || n < scanPage {
			return err
		}
		after = next
	}
}

// leave puts a row into the outbox unless one is already waiting. Rows due later are
// about something else.
func (l *Loop) leave(ctx context.Context, tx *store.Tx, o observed) error {
	now := l.o.Now()
	waits, err := tx.HasOutbox(ctx, o.tenantID, o.kind, o.id, now.Add(l.o.ParkFor+l.o.BackoffMax))
	if err != nil || waits {
		return err
	}
	err = tx.InsertOutbox(ctx, store.Outbox{
		TenantID: o.tenantID, ID: "out_scan_" + o.id, Kind: o.kind, Subject: o.id, CreatedAt: now, DueAt: now,
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// compareCells asks every cell for its state and leaves a row for what differs from the
// database: a cell may have been restored, or a secret may have expired unnoticed. It
// leaves alone what only the cell has, and what was deleted long ago and only the
// database has.
func (l *Loop) compareCells(ctx context.Context) error {
	var failed []error
	for name, cell := range l.cells {
		state, err := cell.State(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("ask cell %s for its state: %w", name, err))
			continue
		}
		if _, err := l.compare(ctx, name, cell, newIndex(state)); err != nil {
			failed = append(failed, fmt.Errorf("compare cell %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// index of a cell's state by id.
type index struct {
	tenants    map[string]*cellv1.Tenant
	namespaces map[string]*cellv1.Namespace
	keys       map[string]*cellv1.Key
	// living are the live namespaces of a tenant in the cell.
	living map[string][]string
}

func newIndex(s *cellv1.State) index {
	x := index{make(map[string]*cellv1.Tenant), make(map[string]*cellv1.Namespace), make(map[string]*cellv1.Key), make(map[string][]string)}
	for _, t := range s.GetTenants() {
		x.tenants[t.GetId()] = t
	}
	for _, n := range s.GetNamespaces() {
		x.namespaces[n.GetId()] = n
		if !n.GetDeleted() {
			x.living[n.GetTenantId()] = append(x.living[n.GetTenantId()], n.GetId())
		}
	}
	for _, k := range s.GetKeys() {
		x.keys[k.GetId()] = k
	}
	return x
}

// compare walks the tenants of a cell. It compares only what the cell has had once: the
// rest is on its way. It counts the tenants that seem to differ.
func (l *Loop) compare(ctx context.Context, name string, cell Cell, x index) (differ int, _ error) {
	for after := ""; ; {
		page, err := store.Get(ctx, l.store.ReadService, func(tx *store.Tx) ([]store.Tenant, error) {
			return tx.ListTenants(ctx, store.Page{After: after, Limit: scanPage})
		})
		if err != nil {
			return differ, err
		}
		suspects := make(map[string][]observed)
		for _, t := range page {
			after = t.ID
			if t.Cell != name {
				continue
			}
			if d, err := l.differences(ctx, t.ID, x); err != nil {
				return differ, err
			} else if len(d) > 0 {
				suspects[t.ID] = d
			}
		}
		differ += len(suspects)
		if err := l.mend(ctx, cell, suspects); err != nil {
			return differ, err
		}
		if len(page) < scanPage {
			return differ, nil
		}
	}
}

// mend leaves rows for what still differs, at the same generation, from a state newer
// than the records: changes carried between the first state and the records also looked
// like differences.
func (l *Loop) mend(ctx context.Context, cell Cell, suspects map[string][]observed) error {
	if len(suspects) == 0 {
		return nil
	}
	state, err := cell.State(ctx)
	if err != nil {
		return fmt.Errorf("ask once more: %w", err)
	}
	x := newIndex(state)
	for id, first := range suspects {
		differ, err := l.differences(ctx, id, x)
		if err != nil {
			return err
		}
		differ = slices.DeleteFunc(differ, func(d observed) bool { return !slices.Contains(first, d) })
		if len(differ) == 0 {
			continue
		}
		l.o.Log.WarnContext(ctx, "the cell differs from the database; writing the database's records again", "tenant", id, "records", len(differ), "first", differ[0])
		err = l.store.Tenant(ctx, id, func(tx *store.Tx) error {
			for _, d := range differ {
				if err := l.leave(ctx, tx, d); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		l.Wake()
	}
	return nil
}

// differences of one tenant between the database and a state of its cell.
func (l *Loop) differences(ctx context.Context, tenantID string, x index) (differ []observed, err error) {
	err = l.store.ReadTenant(ctx, tenantID, func(tx *store.Tx) error {
		differ = nil
		t, err := tx.FindTenant(ctx, tenantID)
		if err != nil {
			return err
		}
		has := x.tenants[t.ID]
		if has == nil && !t.DeletedAt.IsZero() {
			return nil // Forgotten, with all its records.
		}
		want, err := l.tenant(ctx, tx, t)
		if err != nil {
			return err
		}
		if t.Observed >= t.Generation && !proto.Equal(has, want) {
			differ = append(differ, observed{store.OutboxTenant, t.ID, t.ID, t.Generation, ""})
		}
		namespaces, err := compareNamespaces(ctx, tx, t.ID, x)
		if err != nil {
			return err
		}
		keys, err := compareKeys(ctx, tx, t.ID, x)
		differ = append(append(differ, namespaces...), keys...)
		return err
	})
	return differ, err
}

// compareNamespaces finds live ones that differ, and ended ones that are live in the
// cell.
func compareNamespaces(ctx context.Context, tx *store.Tx, tenantID string, x index) (differ []observed, err error) {
	for n, err := range tx.AllNamespaces(ctx, tenantID) {
		if err != nil {
			return nil, err
		}
		if n.Observed >= n.Generation && !sameNamespace(x.namespaces[n.ID], namespace(n)) {
			differ = append(differ, observed{store.OutboxNamespace, tenantID, n.ID, n.Generation, ""})
		}
	}
	for _, id := range x.living[tenantID] {
		n, err := tx.GetNamespace(ctx, tenantID, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil && !n.DeletedAt.IsZero() && n.Observed >= n.Generation {
			differ = append(differ, observed{store.OutboxNamespace, tenantID, n.ID, n.Generation, ""})
		}
	}
	return differ, nil
}

func compareKeys(ctx context.Context, tx *store.Tx, tenantID string, x index) (differ []observed, err error) {
	reader := policy.NewReader(tx, tenantID)
	for k, err := range tx.AllKeys(ctx, tenantID, true) {
		if err != nil {
			return nil, err
		}
		may, err := reader.OfKey(ctx, k)
		if err != nil {
			return nil, err
		}
		if k.Observed >= k.Generation && !sameKey(x.keys[k.ID], Key(k, may.Grants)) {
			differ = append(differ, observed{store.OutboxKey, tenantID, k.ID, k.Generation, ""})
		}
	}
	return differ, nil
}

// sameKey ignores ended secrets, which only the cell remembers, and a revoked key that the
// cell has forgotten.
func sameKey(has, want *cellv1.Key) bool {
	if has == nil {
		return want.GetRevoked()
	}
	bare, _ := proto.Clone(has).(*cellv1.Key)
	bare.RetiredDigests = nil
	return proto.Equal(bare, want)
}

// sameNamespace ignores what only the cell decides: the shard, and what the shard still
// has.
func sameNamespace(has, want *cellv1.Namespace) bool {
	if has == nil {
		return false
	}
	placed, _ := proto.Clone(want).(*cellv1.Namespace)
	placed.Shard, placed.Swept = has.GetShard(), has.GetSwept()
	return proto.Equal(has, placed)
}

// Health is the state of the loop.
type Health struct {
	// Waiting counts the rows of all loops, including those to be retried soon. The
	// oldest has been due since Oldest.
	Waiting int
	Oldest  time.Time
	// OldestChange is since when the oldest change that no cell has taken has been due,
	// parked or not; zero if none is.
	OldestChange time.Time
	// Parked rows were refused again and again; their last_error says why.
	Parked int
	// LastProblem happened at LastProblemAt; failures are normal while a cell is away.
	LastProblem   string
	LastProblemAt time.Time
	// TakenAt is when Waiting was counted.
	TakenAt time.Time
}

// Health is the state of the loop at its last check.
func (l *Loop) Health() Health { return l.health.get() }

type healthBook struct {
	mu sync.Mutex
	h  Health // Guarded by mu.
}

func (b *healthBook) get() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.h
}

func (b *healthBook) fail(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.h.LastProblem, b.h.LastProblemAt = problemText(err), now
}

func (l *Loop) takeHealth(ctx context.Context) error {
	var n, parked int
	var oldest, change time.Time
	err := l.store.ReadService(ctx, func(tx *store.Tx) (err error) {
		// Rows with a longer wait after a failure are parked; the others are due
		// later.
		soon := l.o.Now().Add(l.o.BackoffMax)
		if n, oldest, err = tx.CountOutbox(ctx, soon); err != nil {
			return err
		}
		if change, err = tx.OldestOutbox(ctx, l.o.Now(), cellKinds...); err != nil {
			return err
		}
		parked, err = tx.CountParked(ctx, soon)
		return err
	})
	if err != nil {
		return fmt.Errorf("count the outbox: %w", err)
	}
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	l.health.h.Waiting, l.health.h.Parked, l.health.h.Oldest, l.health.h.TakenAt = n, parked, oldest, l.o.Now()
	l.health.h.OldestChange = change
	return nil
}
