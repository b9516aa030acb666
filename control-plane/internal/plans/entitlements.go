package plans

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

const (
	// First is the plan that a tenant begins with.
	First = "free"
	// Operators is for tenants of the operator's own: the one that a laptop starts with.
	Operators = "unlimited"
)

// What a cell lets one tenant have, whatever its plan: more would be accepted here and
// refused there.
const (
	cellNamespacesEach = 2_000
	cellKeysEach       = 5_000
	cellWeightMax      = 1_000
	// cellPayloadMax is the largest request: no payload in one is larger.
	cellPayloadMax = 4 << 20
)

// entitlement is one thing that a plan can give.
type entitlement struct {
	name, title, unit string
	// from and to bound its values.
	from, to int64
}

const (
	anyNumber = math.MaxInt64
	feature   = "feature."
	kept      = "retention."
)

// catalogue is all of them, in the order in which people read them. For a cell 0 is no limit,
// so what is sent to it begins at 1.
var catalogue = slices.Concat([]entitlement{
	{"enqueue_per_second", "Jobs enqueued per second in a namespace", "jobs/s", 1, anyNumber},
	{"enqueue_burst", "Jobs enqueued at once in a namespace", "jobs", 1, anyNumber},
	{"jobs_per_month_max", "Jobs in a month", "jobs", 0, anyNumber},
	{"open_jobs_max", "Open jobs in a namespace", "jobs", 1, anyNumber},
	{"stored_bytes_max", "Stored bytes in a namespace", "bytes", 1, anyNumber},
	{"payload_bytes_max", "Size of a payload", "bytes", 1, cellPayloadMax},
	{"streams_max", "Streams and waiting fetches at a time", "", 1, anyNumber},
	{"weight", "Share of a busy cell", "", 1, cellWeightMax},
	{"namespaces_max", "Namespaces", "", 0, anyNumber},
	{"namespaces_per_day", "New namespaces in a day", "", 1, anyNumber},
	{"members_max", "Members", "", 1, anyNumber},
	{"keys_max", "API keys", "", 0, anyNumber},
	{"keys_per_day", "New API keys in a day", "", 1, anyNumber},
}, retained("_max", "Most that is kept of "), retained("_default", "Kept of "), []entitlement{
	{FeatureSSO, "Single sign-on", "", 0, 1},
	{FeatureSCIM, "Directory sync", "", 0, 1},
	{FeatureAuditSinks, "Audit sinks", "", 0, 1},
	{FeatureCustomRoles, "Custom roles", "", 0, 1},
})

// Features.
const (
	FeatureSSO         = feature + "sso"
	FeatureSCIM        = feature + "scim"
	FeatureAuditSinks  = feature + "audit_sinks"
	FeatureCustomRoles = feature + "custom_roles"
)

// retained are the settings of cloud.v1's Retention.
func retained(suffix, title string) []entitlement {
	const least, most = int64(retention.AgeMin / time.Second), int64(retention.AgeMax / time.Second)
	return []entitlement{
		{kept + "completed_seconds" + suffix, title + "completed jobs", "seconds", least, most},
		{kept + "dead_seconds" + suffix, title + "dead jobs", "seconds", least, most},
		{kept + "cancelled_seconds" + suffix, title + "cancelled jobs", "seconds", least, most},
		{kept + "finished_max" + suffix, title + "finished jobs of a queue", "jobs", 1, 1_000_000_000},
		{kept + "events_seconds" + suffix, title + "events", "seconds", least, most},
		{kept + "events_bytes_max" + suffix, title + "events' bytes", "bytes", 1 << 20, 1 << 40},
		{kept + "usage_seconds" + suffix, title + "model usage", "seconds", least, most},
	}
}

// Kinds are all that a plan can give, with their bounds.
func Kinds() (out []*cloudv1.EntitlementKind) {
	for _, e := range catalogue {
		out = append(out, &cloudv1.EntitlementKind{Name: e.name, Title: e.title, Unit: e.unit, Min: e.from, Max: e.to})
	}
	return out
}

// entitlementOf finds one by name.
func entitlementOf(name string) (entitlement, bool) {
	i := slices.IndexFunc(catalogue, func(e entitlement) bool { return e.name == name })
	if i < 0 {
		return entitlement{}, false
	}
	return catalogue[i], true
}

// checkValue tells what is wrong with a value; empty: nothing.
func checkValue(name string, value int64) string {
	e, known := entitlementOf(name)
	switch {
	case !known:
		return "isn't an entitlement"
	case value < e.from || value > e.to:
		if e.to == anyNumber {
			return fmt.Sprintf("is %d, must be at least %d", value, e.from)
		}
		return fmt.Sprintf("is %d, must be from %d to %d", value, e.from, e.to)
	}
	return ""
}

// Entitlements are what a tenant may have at a time.
type Entitlements struct{ store.Entitled }

// Of is what a tenant may have now.
func Of(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (Entitlements, error) {
	e, err := tx.Entitlements(ctx, tenantID, now)
	if errors.Is(err, store.ErrNotFound) {
		return Entitlements{}, fault.Missing("tenant")
	}
	return Entitlements{e}, err
}

// Max of something; false: there is no limit.
func (e Entitlements) Max(name string) (int64, bool) {
	v, limited := e.Values[name]
	return v, limited
}

// Has tells whether a feature is there.
func (e Entitlements) Has(name string) bool {
	v, limited := e.Values[name]
	return !limited || v != 0
}

// Retention is what namespaces keep unless they say otherwise, and the most that they may.
func (e Entitlements) Retention() (normal, most retention.Policy) {
	normal, most = retention.Default(), e.retention("_max")
	own := e.retention("_default")
	if own != (retention.Policy{}) {
		normal = retention.Resolve(own, retention.Policy{}, retention.Policy{})
	}
	return normal, most
}

func (e Entitlements) retention(suffix string) retention.Policy {
	n := func(name string) int64 { return e.Values[kept+name+suffix] }
	age := func(name string) time.Duration { return time.Duration(n(name)) * time.Second }
	return retention.Policy{
		Finished: retention.Finished{Completed: age("completed_seconds"), Dead: age("dead_seconds"), Cancelled: age("cancelled_seconds"), Max: n("finished_max")},
		Events:   age("events_seconds"), EventsBytes: n("events_bytes_max"), Usage: age("usage_seconds"),
	}
}

// Limits are what a cell is told of a tenant: what it may have and what is held back.
func Limits(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (*cellv1.Limits, error) {
	e, err := Of(ctx, tx, tenantID, now)
	if err != nil {
		return nil, err
	}
	hold, err := HoldOf(ctx, tx, tenantID, e.State, now)
	if err != nil {
		return nil, err
	}
	l := e.cellLimits()
	if hold.Limit != "" {
		l.Hold = &cellv1.Hold{Dispatch: hold.Dispatch, Enqueue: hold.Enqueue, Limit: hold.Limit, Value: hold.Value}
		if !hold.Until.IsZero() {
			l.Hold.UntilNs = hold.Until.UnixNano()
		}
	}
	return l, nil
}

func (e Entitlements) cellLimits() *cellv1.Limits {
	normal, most := e.Retention()
	return &cellv1.Limits{
		PayloadBytesMax: e.Values["payload_bytes_max"], EnqueuePerSecond: e.Values["enqueue_per_second"], StreamsMax: e.Values["streams_max"],
		Weight: e.Values["weight"], Retention: normal.Message(), RetentionMax: most.Message(),
		EnqueueBurst: e.Values["enqueue_burst"], OpenJobsMax: e.Values["open_jobs_max"], StoredBytesMax: e.Values["stored_bytes_max"],
	}
}

// messages shows values as people read them: without a default that isn't set, which is no
// limit.
func messages(values map[string]int64) (out []*cloudv1.Entitlement) {
	for _, e := range catalogue {
		v, limited := values[e.name]
		if !limited && (strings.HasSuffix(e.name, "_default") || strings.HasPrefix(e.name, feature)) {
			if strings.HasPrefix(e.name, feature) {
				out = append(out, &cloudv1.Entitlement{Name: e.name, Value: 1, Title: e.title})
			}
			continue
		}
		out = append(out, &cloudv1.Entitlement{Name: e.name, Value: v, Unlimited: !limited, Title: e.title, Unit: e.unit})
	}
	return out
}
