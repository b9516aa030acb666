package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	// generationSetting is the counter of everything that any loop applies.
	generationSetting = "reconcile/generation"
	// sourcePrefix and a tenant's id make the tenant's source in the cell, for
	// ever.
	sourcePrefix = "control/tenant/"
	// staleMax is how often records are read again at once after a newer write.
	staleMax = 5
)

// byTenant splits rows: those of one tenant are carried together.
func byTenant(rows []store.Outbox) (parts [][]store.Outbox) {
	at := make(map[string]int)
	for _, r := range rows {
		i, has := at[r.TenantID]
		if !has {
			i = len(parts)
			at[r.TenantID], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], r)
	}
	return parts
}

// carry applies the rows of one tenant to its cell: together, and if the cell
// refuses that, one by one, so that a bad one does not block the others.
func (l *Loop) carry(ctx context.Context, rows []store.Outbox) {
	if rows[0].Kind == store.OutboxTokenKeys { // The only kind without a tenant.
		l.carryTokenKeys(ctx, rows)
		return
	}
	err := l.carryOnce(ctx, rows, true)
	if err == nil {
		return
	}
	if !isRefusal(err) {
		for _, r := range rows {
			l.fail(ctx, r, false, err)
		}
		return
	}
	for _, r := range inOrder(rows) {
		if err := l.carryOnce(ctx, []store.Outbox{r}, false); err != nil {
			l.fail(ctx, r, isRefusal(err), err)
		}
	}
}

// inOrder puts first what others depend on.
func inOrder(rows []store.Outbox) []store.Outbox {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b store.Outbox) int { return slices.Index(cellKinds, a.Kind) - slices.Index(cellKinds, b.Kind) })
	return rows
}

// carryOnce is read, apply, wait, record. together: with everything else of the tenant
// that the cell does not know.
func (l *Loop) carryOnce(ctx context.Context, rows []store.Outbox, together bool) error {
	for try := 1; ; try++ {
		// Before a generation is drawn: drawing could make an older copy catch up with
		// the cell.
		if err := l.mayDraw(ctx); err != nil {
			return err
		}
		p, generation, err := l.look(ctx, rows, together)
		if err != nil {
			return err
		}
		if len(p.changes) == 0 {
			// Nothing is never applied: no records must not look like few.
			return l.finish(ctx, rows, nil)
		}
		cell, ok := l.cells[p.cell]
		if !ok {
			return fmt.Errorf("%w: tenant %s is in cell %q, which this control plane doesn't know", errRefused, p.tenantID, p.cell)
		}
		if err := l.guard(ctx, p.cell, cell, false); err != nil {
			return err
		}
		w := celladmin.Writer{Source: sourcePrefix + p.tenantID, Generation: generation, Incarnation: p.incarnation}
		index, err := cell.ApplyFor(ctx, w, p.changes...)
		var stale *celladmin.StaleError
		if errors.As(err, &stale) && try < staleMax {
			if err := l.guard(ctx, p.cell, cell, true); err != nil {
				return err
			}
			continue // A newer write was faster, perhaps this call's own: read again.
		}
		if err != nil {
			return fmt.Errorf("apply to cell %s: %w", p.cell, err)
		}
		if _, _, err := cell.WaitProxies(ctx, index); err != nil {
			return fmt.Errorf("wait for the proxies of cell %s: %w", p.cell, err)
		}
		return l.finish(ctx, rows, p.seen)
	}
}

// look reads the records and draws the generation in one transaction, so that the
// records with the higher generation are not older.
func (l *Loop) look(ctx context.Context, rows []store.Outbox, together bool) (p desired, generation uint64, err error) {
	now := l.o.Now()
	err = l.store.Service(ctx, func(tx *store.Tx) error {
		n, err := tx.RaiseSetting(ctx, generationSetting, now)
		if err != nil {
			return err
		}
		generation = uint64(n)
		if p, err = l.read(ctx, tx, rows, together); err != nil {
			return err
		}
		p.incarnation, err = Incarnation(ctx, tx, now)
		return err
	})
	if err != nil {
		return desired{}, 0, fmt.Errorf("read the desired state: %w", err)
	}
	return p, generation, nil
}

// errRefused is a refusal of our own.
var errRefused = errors.New("this change can't be applied")

// isRefusal tells a refusal, which the same records will get again, from a failure
// that passes.
func isRefusal(err error) bool {
	if errors.Is(err, errRefused) {
		return true
	}
	var refused *connect.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code() {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeOutOfRange, connect.CodeUnimplemented,
		connect.CodeResourceExhausted:
		return true
	}
	return false
}

// observed is a record's generation that a cell has applied.
type observed struct {
	kind         store.OutboxKind
	tenantID, id string
	generation   int64
	// rights is the digest of what a key may do there now.
	rights string
}

func (o observed) note(ctx context.Context, tx *store.Tx) error {
	switch o.kind {
	case store.OutboxTenant:
		return tx.ObserveTenant(ctx, o.tenantID, o.generation)
	case store.OutboxNamespace:
		return tx.ObserveNamespace(ctx, o.tenantID, o.id, o.generation)
	case store.OutboxKey:
		if err := tx.ToldKeyRights(ctx, o.tenantID, o.id, o.rights); err != nil {
			return err
		}
		return tx.ObserveKey(ctx, o.tenantID, o.id, o.generation)
	}
	return nil
}

// carryTokenKeys applies a rotation to the cells, and waits for their proxies.
func (l *Loop) carryTokenKeys(ctx context.Context, rows []store.Outbox) {
	err := l.applyTokenKeys(ctx, true)
	if err == nil {
		err = l.finish(ctx, rows, nil)
	}
	if err == nil {
		return
	}
	for _, r := range rows {
		l.fail(ctx, r, isRefusal(err), err)
	}
}

// applyTokenKeys gives every cell the keys that verify people's tokens, and may wait until
// their proxies have them.
func (l *Loop) applyTokenKeys(ctx context.Context, wait bool) error {
	if l.o.TokenKeys == nil {
		return nil
	}
	return l.eachCell(func(name string, cell Cell) error {
		index, err := uint64(0), l.guard(ctx, name, cell, false)
		if err == nil {
			index, err = l.applyMissing(ctx, cell)
		}
		if err == nil && wait {
			_, _, err = cell.WaitProxies(ctx, index)
		}
		if err != nil {
			return fmt.Errorf("token keys for cell %s: %w", name, err)
		}
		return nil
	})
}

// applyMissing writes until the cell has these keys and no others, and returns an index
// at which it does. If it already has, nothing is written: this runs every minute.
func (l *Loop) applyMissing(ctx context.Context, cell Cell) (index uint64, _ error) {
	for try := 1; ; try++ {
		state, err := cell.State(ctx)
		if err != nil {
			return 0, err
		}
		changes, w, err := l.lookAtTokenKeys(ctx, state)
		if err != nil || len(changes) == 0 {
			return max(index, state.GetIndex()), err
		}
		at, err := cell.ApplyFor(ctx, w, changes...)
		var stale *celladmin.StaleError
		if err != nil && (!errors.As(err, &stale) || try >= staleMax) {
			return 0, err
		}
		// Check again: another loop may have written since the state was read.
		if index = max(index, at); err == nil && try >= staleMax {
			return index, nil
		}
	}
}

// lookAtTokenKeys reads the keys and draws the generation in one transaction; otherwise a
// slow replica could bring back what a rotation ended.
func (l *Loop) lookAtTokenKeys(ctx context.Context, state *cellv1.State) (changes []*cellv1.Change, w celladmin.Writer, _ error) {
	if err := l.mayDraw(ctx); err != nil {
		return nil, w, err
	}
	err := l.store.Service(ctx, func(tx *store.Tx) error {
		keys, err := l.o.TokenKeys(ctx, tx)
		if err != nil {
			return fmt.Errorf("read token keys: %w", err)
		}
		if changes = tokenKeyChanges(state, keys); len(changes) == 0 {
			return nil
		}
		n, err := tx.RaiseSetting(ctx, generationSetting, l.o.Now())
		if err != nil {
			return err
		}
		w = celladmin.Writer{Source: "control/token-keys", Generation: uint64(n)}
		w.Incarnation, err = Incarnation(ctx, tx, l.o.Now())
		return err
	})
	return changes, w, err
}

// tokenKeyChanges is empty if the state has these keys and no others. A rotation's old keys
// end in the same entry that brings the new ones.
func tokenKeyChanges(state *cellv1.State, keys []*cellv1.TokenKey) (changes []*cellv1.Change) {
	if len(keys) == 0 {
		return nil
	}
	for _, k := range state.GetTokenKeys() {
		if !slices.ContainsFunc(keys, func(o *cellv1.TokenKey) bool { return o.GetId() == k.GetId() }) {
			changes = append(changes, celladmin.TokenKeyChange(&cellv1.TokenKey{Id: k.GetId(), Deleted: true}))
		}
	}
	if len(changes) == 0 && !slices.ContainsFunc(keys, func(k *cellv1.TokenKey) bool { return !hasTokenKey(state, k) }) {
		return nil
	}
	for _, k := range keys {
		changes = append(changes, celladmin.TokenKeyChange(k))
	}
	return changes
}

func hasTokenKey(s *cellv1.State, k *cellv1.TokenKey) bool {
	return slices.ContainsFunc(s.GetTokenKeys(), func(o *cellv1.TokenKey) bool {
		return o.GetId() == k.GetId() && o.GetNotAfterNs() == k.GetNotAfterNs() && !o.GetDeleted()
	})
}
