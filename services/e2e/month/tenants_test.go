package month_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// signUps run at the same time.
const signUps = 4

// makeTenants signs up so many, each from an address of its own.
func (w *world) makeTenants(n int) []*tenant {
	w.t.Helper()
	out := make([]*tenant, n)
	todo := make(chan int, n)
	for i := range n {
		todo <- i
	}
	close(todo)
	var all sync.WaitGroup
	for range signUps {
		all.Go(func() {
			for i := range todo {
				var err error
				if out[i], err = w.makeTenant(i); err != nil {
					w.t.Errorf("sign up tenant %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	return out
}

func (w *world) makeTenant(i int) (*tenant, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	name := fmt.Sprintf("month-%04d", i)
	from := fmt.Sprintf("198.%d.%d.7", 18+i/250, i%250)
	done, err := rig.SignUpFrom(ctx, from, w.controls[i%controls].place.URL, w.mailbox, name+"@example.com", name)
	if err != nil {
		return nil, err
	}
	t := &tenant{number: i, name: name, id: done.TenantID, token: done.Token, told: make(map[int64]*bill.Counts), open: make(map[string]bool)}
	for _, p := range w.cell.Proxies {
		t.via = append(t.via, rig.NewTenant(p.URL+"/t/"+name, done.APIKey))
	}
	return t, nil
}

// asksOnce calls the control API for a tenant.
func (w *world) asksOnce(t *tenant, procedure string, in map[string]any, out any) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	in["tenant"] = t.name
	return rig.NewAPI(w.controls[t.number%controls].place.URL, t.token).Call(ctx, procedure, in, out)
}

// asks calls the control API for a tenant, one control plane after the other, until it is
// answered.
func (w *world) asks(t *tenant, procedure string, in map[string]any, out any) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	in["tenant"] = t.name
	for i := 0; ; i++ {
		err := rig.NewAPI(w.controls[i%controls].place.URL, t.token).Call(ctx, procedure, in, out)
		var refused *rig.Refusal
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) && refused.Status != http.StatusTooManyRequests && refused.Status < http.StatusInternalServerError {
			return err
		}
		time.Sleep(20 * time.Millisecond) // Bounded by ctx.
	}
}

// subscriptionOf is what the control API says of a tenant's plan.
func (w *world) subscriptionOf(t *tenant) (plan, state string) {
	w.t.Helper()
	var out struct {
		Subscription struct {
			State string `json:"state"`
			Plan  struct {
				Name string `json:"name"`
			} `json:"plan"`
		} `json:"subscription"`
	}
	if err := w.asks(t, "PlanService/GetSubscription", map[string]any{}, &out); err != nil {
		w.t.Fatalf("subscription of %s: %v", t.name, err)
	}
	return out.Subscription.Plan.Name, out.Subscription.State
}

// shards of the cell.
func (w *world) shards() (shards []uint32) {
	w.t.Helper()
	eventually.NoError(w.t, patience, "the cell tells its shards", func() error {
		state, err := w.cell.Admin.State(w.t.Context())
		shards = state.GetShards()
		return err
	})
	return shards
}

// customerOf is the id of a tenant at Stripe.
func (w *world) customerOf(t *tenant) string {
	w.t.Helper()
	ids := w.stripe.Show("customer", "id")
	for i, meta := range w.stripe.Show("customer", "metadata") {
		if meta.(map[string]any)["tenant_id"] == t.id {
			return ids[i].(string)
		}
	}
	w.t.Fatalf("Stripe has no customer of %s", t.name)
	return ""
}
