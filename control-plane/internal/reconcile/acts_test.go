package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	otherTenant   = "tn_01JD0000000000000000000009"
	otherTenantNS = "ns_01JD0000000000000000000008"
	aUser         = "usr_01JD0000000000000000000007"
)

// administered gives the cell two shards with acts of two tenants.
func (r *rig) administered(t *testing.T) {
	t.Helper()
	r.signUp(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		other := aTenant()
		other.ID, other.Name = otherTenant, "globex"
		ns := aNamespace(otherTenantNS, "default")
		ns.TenantID = otherTenant
		return errors.Join(tx.InsertTenant(ctx, other), tx.InsertNamespace(ctx, ns), tx.InsertUser(ctx, store.User{ID: aUser, Email: "ada@acme.test"}))
	})
	at := r.now().Add(-time.Minute).UnixNano()
	act := func(n uint64, ns, by, action, target string) *cellv1.AuditEvent {
		return &cellv1.AuditEvent{
			Number: n, NamespaceId: ns, AtNs: at + int64(n)*int64(time.Second), Principal: by, Peer: "192.0.2.1", Action: action,
			TargetType: "queue", Target: target, Affected: 1,
		}
	}
	bulk := act(3, nsID, "user:"+aUser, "jobs.cancel", "")
	bulk.TargetType, bulk.Affected, bulk.Refused, bulk.Detail = "jobs", 40, 2, []byte(`{"filter":"queue=emails"}`)
	gone := act(2, nsID, "user:usr_01JD0000000000000000000099", "queue.drain", "older")
	set := act(3, nsID, keyID, "queue.update", "emails")
	set.Detail = []byte(`{"max_concurrency":"2","was_max_concurrency":"none"}`)
	r.cell.set(func(f *fakeCell) {
		f.state.Shards = []uint32{2, 3}
		f.acts = map[uint32][]*cellv1.AuditEvent{
			2: {act(1, nsID, keyID, "queue.pause", "emails"), act(2, otherTenantNS, keyID, "queue.clear", "theirs"), bulk, act(4, nsID, keyID, "queue.resume", "emails")},
			3: {act(1, nsID, "user:"+aUser, "queue.delete", "old"), gone, set},
		}
	})
}

// log is a tenant's audit log, oldest first, one line each.
func (r *rig) logOf(t *testing.T, tenant string) (lines []string) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.ListAudit(ctx, tenant, store.AuditFilter{}, store.Page{})
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%s %s(%s) %s %s %v", e.Namespace, e.Actor, e.ActorType, e.Action, e.TargetID, e.Changes))
		}
		return err
	})
	slices.Sort(lines)
	return lines
}

var actsOfAcme = []string{
	"default ada@acme.test(user) jobs.cancel  map[affected:{<nil> 40} filter:{<nil> queue=emails} left_as_they_were:{<nil> 2}]",
	"default ada@acme.test(user) queue.delete old map[]",
	"default usr_01JD0000000000000000000099(user) queue.drain older map[]", // Nobody who is known any more.
	"default worker(key) queue.pause emails map[]",
	"default worker(key) queue.resume emails map[]",
	"default worker(key) queue.update emails map[max_concurrency:{none 2}]",
}

func (r *rig) wantActs(t *testing.T) {
	t.Helper()
	if got := r.logOf(t, tenantID); !slices.Equal(got, actsOfAcme) {
		t.Errorf("the audit log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(actsOfAcme, "\n"))
	}
	// A key of another tenant is not named.
	if got, want := r.logOf(t, otherTenant), []string{"default " + keyID + "(key) queue.clear theirs map[]"}; !slices.Equal(got, want) {
		t.Errorf("the other tenant's log has %q, want %q", got, want)
	}
}

func (r *rig) loopOver(s store.Store) *reconcile.Loop {
	return reconcile.New(s, r.cells, r.sendMail, r.options())
}

func TestActs_ReachTheAuditLogOfTheirTenant(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": cloudtest.SQLite(t), "postgres": cloudtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, url)
			r.administered(t)
			l := r.loopOver(r.store)
			for range 2 {
				if err := reconcile.TakeActs(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			r.wantActs(t)
			if r.cell.kept[2] != 4 || r.cell.kept[3] != 3 {
				t.Errorf("the cell was told %v", r.cell.kept)
			}
			r.write(t, func(ctx context.Context, tx *store.Tx) error {
				for _, f := range []store.AuditFilter{{Namespace: "default", ActionPrefix: "queue.pause"}, {Namespace: nsID, TargetID: "old"}} {
					if list, err := tx.ListAudit(ctx, tenantID, f, store.Page{}); err != nil || len(list) != 1 {
						t.Errorf("filter %+v finds %d, %v", f, len(list), err)
					}
				}
				return nil
			})
		})
	}
}

// An audit log that is read has what was done until then, although cells are seldom asked
// while nobody reads. A cell that doesn't answer makes a reader wait for a second only.
func TestCollectActs_ReaderFindsWhatWasJustDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, cloudtest.SQLite(t))
	o := r.options()
	o.Acts = time.Hour
	l, _ := r.start(t, o)
	r.administered(t)
	l.CollectActs(t.Context())
	r.wantActs(t)
	r.cell.set(func(f *fakeCell) {
		f.acts[3] = append(f.acts[3], &cellv1.AuditEvent{Number: 4, NamespaceId: nsID, AtNs: r.now().UnixNano(), Principal: keyID, Action: "queue.pause", TargetType: "queue", Target: "late", Affected: 1})
	})
	l.CollectActs(t.Context())
	if log, want := r.logOf(t, tenantID), "default worker(key) queue.pause late map[]"; !slices.Contains(log, want) {
		t.Errorf("the audit log has\n%s\nwithout %s", strings.Join(log, "\n"), want)
	}

	r.cell.set(func(f *fakeCell) { f.noActs = true })
	began := time.Now()
	l.CollectActs(t.Context())
	if took := time.Since(began); took < time.Second {
		t.Errorf("waited %v for a cell that doesn't answer", took)
	}
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	l.CollectActs(soon)
}

// Wherever a control plane dies, no act is lost and none is recorded twice.
func TestActs_KilledBetweenAnyTwoStepsNoneIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	for n := int64(1); n <= 4; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("transaction %d, committed %v", n, after), func(t *testing.T) {
				t.Parallel()
				r := onSQLite(t)
				r.administered(t)
				calls := new(atomic.Int64)
				dying := interrupted{Store: r.store, calls: calls, at: n, after: after, kill: func() {}}
				if err := reconcile.TakeActs(t.Context(), r.loopOver(dying)); !errors.Is(err, errKilled) {
					t.Fatalf("it was not killed: %v, after %d transactions", err, calls.Load())
				}
				r.ahead.Add(int64(time.Minute)) // Its lease is over.
				if err := reconcile.TakeActs(t.Context(), r.loopOver(r.store)); err != nil {
					t.Fatal(err)
				}
				r.wantActs(t)
			})
		}
	}
}

// A database restored from before it collected acts collects them again.
func TestActs_AnOlderDatabaseTakesThemAgain(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.administered(t)
	if err := reconcile.TakeActs(t.Context(), r.loopOver(r.store)); err != nil {
		t.Fatal(err)
	}
	r.write(t, func(ctx context.Context, tx *store.Tx) error { return tx.PutSetting(ctx, "acts/main/2", "1", r.now()) })
	r.ahead.Add(int64(time.Minute))
	if err := reconcile.TakeActs(t.Context(), r.loopOver(r.store)); err != nil {
		t.Fatal(err)
	}
	r.wantActs(t)
}
