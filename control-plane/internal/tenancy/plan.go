package tenancy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

// Plans of tenants.
const (
	PlanFree = "free"
	// PlanUnlimited is for tenants of the operator: the one that a laptop starts with.
	PlanUnlimited = "unlimited"
)

// What the plan PlanFree gives: enough to try everything with.
const (
	freeNamespacesMax = 60
	freeKeysMax       = 200
	// What is removed does not count in the cell any more, but leaves a record there: so a
	// day brings no more than the plan gives, and some for those who try things out.
	freeNamespacesPerDay = freeNamespacesMax + 40
	freeKeysPerDay       = freeKeysMax + 100

	freePayloadBytesMax  = 256 << 10
	freeEnqueuePerSecond = 1000
	freeStreamsMax       = 200
)

// Plans are all of them.
func Plans() []string { return []string{PlanFree, PlanUnlimited} }

// SetPlan gives a tenant another plan, and tells its cell. What the tenant has beyond a
// smaller plan stays, except what is older than that plan keeps.
func SetPlan(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, plan string) error {
	if !slices.Contains(Plans(), plan) {
		return fault.InvalidField("plan", "is %q, must be one of %s", plan, strings.Join(Plans(), ", "))
	}
	if t.Plan == plan {
		return nil
	}
	was := t.Plan
	t.Plan = plan
	return change.Make(ctx, k, tx, "tenant.update", change.UpdateTenant(t).InCell(), change.Fields{"plan": {Before: was, After: plan}})
}

const day = 24 * time.Hour

// freeRetentionMax leaves nothing of a tenant for ever: what nobody reads costs disk.
var freeRetentionMax = retention.Policy{
	Finished: retention.Finished{Completed: 30 * day, Dead: 90 * day, Cancelled: 90 * day, Max: 1_000_000},
	Events:   30 * day, EventsBytes: 256 << 20, Usage: 400 * day,
}

// unlimitedWeight: what the operator runs on its own cell is not slowed down by what
// strangers try out, unless a hundred of them push at once.
const unlimitedWeight = 100

// What a cell lets one tenant have, whatever its plan: more would be accepted here and
// refused there.
const (
	cellNamespacesEach = 2_000
	cellKeysEach       = 5_000
)

// limits is how much of everything a plan gives.
type limits struct {
	namespaces, keys quota
	cell             CellLimits
}

// quota is how many there may be at a time, and how many may be made in a day whatever
// became of them; 0 a day is unlimited.
type quota struct{ living, perDay int }

// CellLimits are those that a cell holds a tenant to; zero is unlimited.
type CellLimits struct {
	PayloadBytesMax int64
	// EnqueuePerSecond in each namespace.
	EnqueuePerSecond int64
	// StreamsMax streams and waiting fetches at a time through one proxy.
	StreamsMax int64
	// Weight is the tenant's share of a cell that is overloaded, relative to others'. A bigger
	// plan has a bigger one; zero is that of the smallest.
	Weight int64
	// Retention is what the tenant's namespaces keep unless they say otherwise, RetentionMax
	// the most that they may keep.
	Retention, RetentionMax retention.Policy
}

// limitsOf gives an unknown plan what the smallest gives.
func limitsOf(plan string) limits {
	if plan == PlanUnlimited {
		return limits{
			namespaces: quota{living: cellNamespacesEach}, keys: quota{living: cellKeysEach},
			cell: CellLimits{Weight: unlimitedWeight, Retention: retention.Default()},
		}
	}
	return limits{
		namespaces: quota{freeNamespacesMax, freeNamespacesPerDay}, keys: quota{freeKeysMax, freeKeysPerDay},
		cell: CellLimits{
			PayloadBytesMax: freePayloadBytesMax, EnqueuePerSecond: freeEnqueuePerSecond, StreamsMax: freeStreamsMax, Weight: 1,
			Retention: retention.Default(), RetentionMax: freeRetentionMax,
		},
	}
}

// CellLimitsOf a plan.
func CellLimitsOf(plan string) CellLimits { return limitsOf(plan).cell }

// within refuses one more of what a plan limits, and counts it if it may be.
func (s *Service) within(ctx context.Context, tx *store.Tx, tenantID, what string, count func(context.Context, string) (int, error), limit func(limits) quota) error {
	t, err := tx.GetTenant(ctx, tenantID)
	if err != nil {
		return missing(err, "tenant")
	}
	n, err := count(ctx, tenantID)
	if err != nil {
		return fmt.Errorf("count %s: %w", what, err)
	}
	most := limit(limitsOf(t.Plan))
	if n >= most.living {
		// Not Exhausted: programs would wait and try again, and waiting does not help.
		return fault.New(fault.Conflict, "PLAN_LIMIT", "the plan %s of tenant %s allows %d %s; delete one that you don't need, or ask the operator for another plan", t.Plan, t.Name, most.living, what)
	}
	err = ratelimit.Count(ctx, tx, s.Now(), ratelimit.Limit{
		Bucket: "make." + what + ":" + tenantID, Window: 24 * time.Hour, Max: most.perDay, What: "new " + what + " in this tenant",
	})
	if refusal, ok := fault.As(err); ok {
		refusal.Code, refusal.Reason = fault.Conflict, "PLAN_LIMIT" // As above, for hours.
		return refusal
	}
	return err
}
