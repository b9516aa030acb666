package plans

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Counted is something of which a plan allows so many.
type Counted struct {
	what        string
	max, perDay string // Entitlements; what is removed leaves a record in the cell, so a day has a limit too.
	cellMax     int64  // 0: a cell does not know it.
	count       func(*store.Tx, context.Context, string) (int, error)
	// credential: a tenant that is restricted can't make more.
	restricted bool
}

// What plans count.
var (
	Namespaces = Counted{"namespaces", "namespaces_max", "namespaces_per_day", cellNamespacesEach, (*store.Tx).CountNamespaces, true}
	Keys       = Counted{"keys", "keys_max", "keys_per_day", cellKeysEach, (*store.Tx).CountKeys, true}
	Members    = Counted{"members", "members_max", "", 0, (*store.Tx).CountMembers, false}
)

// Another refuses one more of what a plan counts, and counts it if it may be. besides is how
// many more are promised already.
func Another(ctx context.Context, tx *store.Tx, tenantID string, now time.Time, c Counted, besides int) error {
	t, e, err := tenantAnd(ctx, tx, tenantID, now)
	if err != nil {
		return err
	}
	if c.restricted && (e.State == Restricted || e.State == Suspended) {
		return fault.New(fault.Conflict, "PAYMENT_REQUIRED", "tenant %s is %s because an invoice isn't paid, so it can't have new %s; pay the open invoice first", t.Name, e.State, c.what)
	}
	n, err := c.count(tx, ctx, tenantID)
	if err != nil {
		return fmt.Errorf("count %s: %w", c.what, err)
	}
	if most, limited := c.most(e); limited && int64(n+besides) >= most {
		// Not Exhausted: programs would wait and try again, and waiting does not help.
		return fault.New(fault.Conflict, "PLAN_LIMIT", "the plan %s of tenant %s allows %d %s (%s); remove one that you don't need, or raise the limit with a bigger plan: `corvo plan list`",
			e.Plan, t.Name, most, c.what, c.max)
	}
	return c.today(ctx, tx, e, tenantID, now)
}

// most is the smaller of what the plan allows and what a cell takes.
func (c Counted) most(e Entitlements) (int64, bool) {
	most, limited := e.Max(c.max)
	if c.cellMax > 0 && (!limited || most > c.cellMax) {
		return c.cellMax, true
	}
	return most, limited
}

// today counts what is made in a day, whatever becomes of it.
func (c Counted) today(ctx context.Context, tx *store.Tx, e Entitlements, tenantID string, now time.Time) error {
	perDay, limited := e.Max(c.perDay)
	if !limited {
		return nil
	}
	err := ratelimit.Count(ctx, tx, now, ratelimit.Limit{
		Bucket: "make." + c.what + ":" + tenantID, Window: 24 * time.Hour, Max: int(perDay), What: "new " + c.what + " in this tenant",
		Help: fmt.Sprintf("a bigger plan than %s allows more (%s)", e.Plan, c.perDay),
	})
	if refusal, ok := fault.As(err); ok {
		refusal.Code, refusal.Reason = fault.Conflict, "PLAN_LIMIT" // As above, for hours.
		return refusal
	}
	return err
}

// Feature refuses what a tenant's plan doesn't have, and says which plan does.
func Feature(ctx context.Context, tx *store.Tx, tenantID string, now time.Time, name string) error {
	t, e, err := tenantAnd(ctx, tx, tenantID, now)
	if err != nil || e.Has(name) {
		return err
	}
	is, _ := entitlementOf(name)
	where := "ask the operator for a plan that does"
	list, err := tx.ListPlans(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if has := (Entitlements{store.Entitled{Values: p.Entitlements}}); p.Listed && has.Has(name) {
			where = fmt.Sprintf("the plan %s does", p.Plan)
			break
		}
	}
	return fault.New(fault.Conflict, "PLAN_FEATURE", "the plan %s of tenant %s doesn't have %s (%s); %s", e.Plan, t.Name, lowerFirst(is.title), name, where)
}

func tenantAnd(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (store.Tenant, Entitlements, error) {
	e, err := Of(ctx, tx, tenantID, now)
	if err != nil {
		return store.Tenant{}, e, err
	}
	t, err := tx.FindTenant(ctx, tenantID)
	return t, e, err
}
