package tenancy

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	owner     = permission.RoleOwner
	admin     = permission.RoleAdmin
	developer = permission.RoleDeveloper
	viewer    = permission.RoleViewer
)

// What the plan of new tenants gives; see the migrations.
const (
	freeNamespaces = 60
	freeKeysPerDay = 300
)

// world is the use cases over a real database, with a cell that confirms at once if told.
type world struct {
	*Service
	now   time.Time
	ahead time.Duration // Of the cell's clock.
	woken atomic.Int64
}

func (w *world) cellNow() time.Time { return w.now.Add(w.ahead) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)}
	k := cloudtest.New(t).Kit
	k.Now, k.Wake, k.Await = func() time.Time { return w.now }, func() { w.woken.Add(1) }, w.await
	w.Service = &Service{
		Kit: k, CellNow: func(context.Context, string) time.Time { return w.cellNow() },
		ObserveWait: time.Millisecond, Version: "test",
	}
	w.Keys = tokenkeys.Keys{Store: k.Store, Seal: k.Seal, Now: w.Now, Calendar: func(context.Context) time.Time { return w.cellNow() }}
	return w
}

// await stands in for the loop of package reconcile: it polls.
func (w *world) await(ctx context.Context, _ string, seen func(*store.Tx) (is bool, err error)) (is bool, err error) {
	for {
		err = w.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
			is, err = seen(tx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return false, nil
		case is || err != nil:
			return is, err
		}
		time.Sleep(time.Millisecond)
	}
}

// tenant makes a tenant and returns contexts of its members, by role.
func (w *world) tenant(t *testing.T, name, plan string) func(string) context.Context {
	t.Helper()
	id := w.IDs.New(ids.Tenant, w.now)
	err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
		return tx.InsertTenant(t.Context(), store.Tenant{ID: id, Name: name, Plan: plan, Cell: "cell-1", CreatedAt: w.now, UpdatedAt: w.now, Version: 1, Generation: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(r string) context.Context {
		return access.With(t.Context(), access.Caller{
			TenantID: id, Tenant: name, Rights: cloudtest.Rights(r), UserID: "usr_0000000000000000000000000" + strings.ToUpper(r[:1]), Name: "someone@" + name + ".test", RequestID: "req_1",
		})
	}
}

// refused fails unless err is a refusal of that reason.
func refused(t *testing.T, err error, reason string) *fault.Error {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Reason != reason {
		t.Fatalf("%v, want a refusal %s", err, reason)
	}
	return f
}

// field fails unless err refuses that field.
func field(t *testing.T, err error, name string) {
	t.Helper()
	f, ok := fault.As(err)
	if ok {
		for _, wrong := range f.Fields {
			if wrong.Name == name {
				return
			}
		}
	}
	t.Fatalf("%v, want a refusal of the field %s", err, name)
}

// must returns a call's result.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// audit lists a tenant's log, newest first.
func (w *world) auditOf(t *testing.T, ctx context.Context) []*cloudv1.AuditEvent {
	t.Helper()
	return must(w.ListAuditEvents(ctx, &cloudv1.ListAuditEventsRequest{PageSize: 1000}))(t).GetEvents()
}

// outbox empties the outbox and returns what was in it.
func (w *world) outbox(t *testing.T) (rows []store.Outbox) {
	t.Helper()
	err := w.Store.Service(t.Context(), func(tx *store.Tx) (err error) {
		if rows, err = tx.ClaimOutbox(t.Context(), "test", w.now.Add(30*24*time.Hour), w.now.Add(60*24*time.Hour), 1000); err != nil {
			return err
		}
		for _, o := range rows {
			if err := tx.FinishOutbox(t.Context(), o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
