package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// The cell records what people and keys do to queues and jobs, together with the act. It
// is fetched from there, shard by shard; the position is stored in the transaction that
// writes the audit log, so that after any crash the next loop continues where the last
// one stopped.

const (
	// actsSetting and cell/shard name the position in a shard's acts.
	actsSetting = "acts/"
	// actsLease and a cell's name are the lease on taking its acts.
	actsLease = "acts/"
)

// shardsOf asks a cell for its shards once: they never change.
func (l *Loop) shardsOf(ctx context.Context, name string, cell Cell) ([]uint32, error) {
	if known, ok := l.shards.Load(name); ok {
		shards, _ := known.([]uint32)
		return shards, nil
	}
	state, err := cell.State(ctx)
	if err == nil && len(state.GetShards()) > 0 {
		l.shards.Store(name, state.GetShards())
	}
	return state.GetShards(), err
}

// collectMax bounds how long a reader of an audit log waits for what is not in it yet, and
// collectGap how often readers have cells asked.
const (
	collectMax = time.Second
	collectGap = 250 * time.Millisecond
)

// CollectActs waits until what the cells have recorded so far is in the audit logs, for a
// second at most: somebody who reads a log after an act finds it there.
func (l *Loop) CollectActs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectMax)
	defer cancel()
	var asked []<-chan struct{}
	for _, book := range l.readers {
		asked = append(asked, book.ask())
	}
	for _, done := range asked {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// readerBook is the readers that wait for the acts of a cell.
type readerBook struct {
	mu   sync.Mutex
	done chan struct{} // Closed once the next acts are collected; nil while nobody waits. Guarded by mu.
	news chan struct{}
}

func (b *readerBook) ask() (done <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
	}
	select {
	case b.news <- struct{}{}:
	default: // It is already awake.
	}
	return b.done
}

// take returns what to close for those who wait now, nil for nobody. Who asks later wants
// what is recorded later.
func (b *readerBook) take() (done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done, b.done = b.done, nil
	return done
}

// takeActs writes the acts of a cell into the audit logs of their tenants. One loop at
// a time does, so that the others do not ask for the same, unless a reader waits: two do no harm.
func (l *Loop) takeActs(ctx context.Context, name string, cell Cell) error {
	if done := l.readers[name].take(); done != nil {
		err := l.takeAllActs(ctx, name, cell)
		close(done)
		select {
		case <-time.After(collectGap):
		case <-ctx.Done():
		}
		return err
	}
	mine, err := l.mine(ctx, actsLease+name, 3*l.o.Acts)
	if err != nil || !mine {
		return err
	}
	return l.takeAllActs(ctx, name, cell)
}

func (l *Loop) takeAllActs(ctx context.Context, name string, cell Cell) error {
	shards, err := l.shardsOf(ctx, name, cell)
	if err != nil {
		return fmt.Errorf("ask cell %s for its shards: %w", name, err)
	}
	var failed []error
	for _, shard := range shards {
		if err := l.takeActsOf(ctx, name, cell, shard); err != nil {
			failed = append(failed, fmt.Errorf("take the acts of shard %d of cell %s: %w", shard, name, err))
		}
	}
	return errors.Join(failed...)
}

func (l *Loop) takeActsOf(ctx context.Context, name string, cell Cell, shard uint32) error {
	setting := actsSetting + name + "/" + strconv.FormatUint(uint64(shard), 10)
	for {
		after, err := store.Get(ctx, l.store.ReadService, func(tx *store.Tx) (uint64, error) { return numberSetting(ctx, tx, setting) })
		if err != nil {
			return err
		}
		events, err := cell.Audit(ctx, shard, after)
		if err != nil || len(events) == 0 {
			return err
		}
		err = l.store.Service(ctx, func(tx *store.Tx) error {
			for _, e := range events {
				if err := l.writeAct(ctx, tx, name, shard, e); err != nil {
					return fmt.Errorf("act %d: %w", e.GetNumber(), err)
				}
			}
			return raiseNumber(ctx, tx, setting, events[len(events)-1].GetNumber(), l.o.Now())
		})
		if err != nil {
			return err
		}
	}
}

// numberSetting is 0 if the setting does not exist.
func numberSetting(ctx context.Context, tx *store.Tx, name string) (uint64, error) {
	text, err := tx.GetSetting(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

// raiseNumber never lowers a number: another loop may be further.
func raiseNumber(ctx context.Context, tx *store.Tx, name string, to uint64, now time.Time) error {
	is, err := numberSetting(ctx, tx, name)
	if err != nil || is >= to {
		return err
	}
	return tx.PutSetting(ctx, name, strconv.FormatUint(to, 10), now)
}

// writeAct writes one act into the log of its tenant. Its id is derived from its origin,
// so that a repetition is the same row.
func (l *Loop) writeAct(ctx context.Context, tx *store.Tx, cell string, shard uint32, e *cellv1.AuditEvent) error {
	ns, err := tx.FindNamespace(ctx, e.GetNamespaceId())
	if errors.Is(err, store.ErrNotFound) {
		l.o.Log.WarnContext(ctx, "an action isn't in any audit log, because the database doesn't have its namespace",
			"cell", cell, "shard", shard, "number", e.GetNumber(), "namespace", e.GetNamespaceId(), "action", e.GetAction())
		return nil
	}
	if err != nil {
		return err
	}
	at := time.Unix(0, e.GetAtNs()).UTC()
	row := store.AuditEvent{
		TenantID: ns.TenantID, NamespaceID: ns.ID, Namespace: ns.Name, At: at,
		ID:     ids.Derived(ids.Audit, at, cell, strconv.FormatUint(uint64(shard), 10), strconv.FormatUint(e.GetNumber(), 10)),
		Action: e.GetAction(), TargetType: e.GetTargetType(), TargetID: e.GetTarget(), Target: apikey.Redact(e.GetTarget()),
		Peer: e.GetPeer(), Changes: actChanges(e),
	}
	if err := nameActor(ctx, tx, &row, e.GetPrincipal()); err != nil {
		return err
	}
	if err := audit.Append(ctx, tx, row); err != nil && !errors.Is(err, store.ErrExists) {
		return err
	}
	return nil
}

// nameActor fills in the actor's name for people. A key of another tenant is not
// named.
func nameActor(ctx context.Context, tx *store.Tx, row *store.AuditEvent, principal string) (err error) {
	row.ActorType, row.ActorID, row.Actor = "system", principal, principal
	user, isUser := strings.CutPrefix(principal, identity.UserPrefix)
	switch {
	case isUser:
		var u store.User
		u, err = tx.GetUser(ctx, user)
		row.ActorType, row.ActorID, row.Actor = "user", user, cmp.Or(u.Email, user)
	case apikey.IsID(principal):
		var k store.Key
		k, err = tx.FindKey(ctx, principal)
		row.ActorType = "key"
		if k.TenantID == row.TenantID {
			row.Actor = apikey.Redact(k.Name)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// actChanges translates an act's details and counts for the audit log.
func actChanges(e *cellv1.AuditEvent) map[string]store.Change {
	out := make(map[string]store.Change)
	var detail map[string]string
	if json.Unmarshal(e.GetDetail(), &detail) == nil {
		for k, v := range detail {
			field, before := strings.CutPrefix(k, "was_")
			c := out[field]
			if before {
				c.Before = apikey.Redact(v)
			} else {
				c.After = apikey.Redact(v)
			}
			out[field] = c
		}
	}
	if e.GetAffected() != 1 && e.GetAction() != "payload.read" || e.GetRefused() > 0 || slices.Contains([]string{"jobs", "audit"}, e.GetTargetType()) {
		out["affected"] = store.Change{After: e.GetAffected()}
	}
	if e.GetRefused() > 0 {
		out["left_as_they_were"] = store.Change{After: e.GetRefused()}
	}
	if e.GetInterrupted() {
		out["interrupted"] = store.Change{After: true}
	}
	return out
}
