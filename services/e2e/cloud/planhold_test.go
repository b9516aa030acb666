package cloud_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// What a plan holds back waits, and nothing that was acknowledged is lost.
func TestPlanHold_AHeldTenantsWorkerGetsNothingUntilItIsLiftedAndItsNeighbourDoes(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, 2*time.Minute)
	held := c.Tenant(0)
	neighbour := rig.NewTenant(c.Proxies[0].URL+"/t/quiet", secondTenant(ctx, t, c))
	hold := func(h *cellv1.Hold) {
		t.Helper()
		if _, err := c.Admin.ChangeTenant(ctx, rig.CellTenant, func(t *cellv1.Tenant) error {
			t.Limits = &cellv1.Limits{Hold: h}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(of rig.Tenant) string {
		t.Helper()
		id, err := of.Enqueue(ctx, "q", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	why := func(id string) string {
		t.Helper()
		var said struct{ Reasons []struct{ Code string } }
		if _, err := held.Call(ctx, http.MethodGet, "/api/v1/jobs/"+id+"/why", nil, &said); err != nil || len(said.Reasons) == 0 {
			t.Fatalf("why: %v, %v", said, err)
		}
		return said.Reasons[0].Code
	}
	begun := enqueue(held)
	running, ok, err := held.Fetch(ctx, "q", "w", 5*time.Second)
	if err != nil || !ok || running.JobID != begun {
		t.Fatalf("%+v, %v", running, err)
	}
	waiting := enqueue(held)

	hold(&cellv1.Hold{Dispatch: true, Limit: "jobs_per_month", Value: 10})
	eventually.True(t, patience, "the leader knows it", func() bool { return why(waiting) == "dispatch_held" })
	late := enqueue(held)
	if job, ok, err := held.Fetch(ctx, "q", "w", 2*time.Second); ok || err != nil {
		t.Fatalf("a held tenant's worker got %+v, %v", job, err)
	}
	if err := held.Ack(ctx, running); err != nil {
		t.Fatalf("an ack while dispatch is held: %v", err)
	}
	theirs := enqueue(neighbour)
	if job, ok, err := neighbour.Fetch(ctx, "q", "w", 5*time.Second); err != nil || !ok || job.JobID != theirs {
		t.Fatalf("the neighbour got %+v, %v", job, err)
	}

	hold(&cellv1.Hold{Dispatch: true, Enqueue: true, Limit: "jobs_per_month", Value: 10})
	eventually.True(t, patience, "enqueues are refused", func() bool {
		_, err := held.Enqueue(ctx, "held", map[string]any{})
		var refused *rig.Refusal
		return errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests
	})

	type fetched struct {
		id  string
		err error
	}
	got := make(chan fetched, 1)
	go func() {
		job, _, err := held.Fetch(ctx, "q", "w", 30*time.Second)
		got <- fetched{job.JobID, err}
	}()
	select {
	case f := <-got:
		t.Fatalf("answered while it is held: %+v", f)
	case <-time.After(time.Second): // For it to be parked.
	}
	lifted := time.Now()
	hold(nil)
	if f := <-got; f.err != nil || f.id != waiting {
		t.Fatalf("lifted: %+v, want %s", f, waiting)
	}
	if took := time.Since(lifted); took > 10*time.Second {
		t.Errorf("delivered %s after it was lifted", took)
	}
	if job, ok, err := held.Fetch(ctx, "q", "w", 10*time.Second); err != nil || !ok || job.JobID != late {
		t.Fatalf("then %+v, %v; want %s", job, err, late)
	}
	if job, err := held.Job(ctx, begun); err != nil || job.State != "completed" {
		t.Fatalf("what ran: %+v, %v", job, err)
	}

	eventually.NoError(t, patience, "the nodes have the proxy's readings", func() error {
		all, err := c.Admin.ProxyReadings(ctx, 0)
		if err != nil {
			return err
		}
		for _, r := range all {
			for _, one := range r.GetList() {
				if one.GetEgressBytes() > 0 && one.GetStreamsPeak() > 0 && r.GetCompleteToNs() > 0 {
					return nil
				}
			}
		}
		return errors.New("no bytes and no streams yet")
	})
}

// secondTenant makes one called quiet, and returns its key.
func secondTenant(ctx context.Context, t *testing.T, c *rig.Cell) string {
	t.Helper()
	if _, err := c.Admin.CreateTenant(ctx, "quiet", nil); err != nil {
		t.Fatal(err)
	}
	key, err := c.Admin.CreateKey(ctx, celladmin.NewKey{Tenant: "quiet", Roles: []string{"admin"}, Kind: apikey.DataPlane})
	if err != nil {
		t.Fatal(err)
	}
	ready := rig.NewTenant(c.Proxies[0].URL+"/t/quiet", key.Reveal())
	eventually.True(t, patience, "the proxy serves it", ready.Serving)
	return key.Reveal()
}
