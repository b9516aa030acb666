package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Set gives a tenant the newest version of any plan at once. What the tenant has beyond a
// smaller plan stays, except what is older than that plan keeps. The reason is for the tenant's
// audit log; it may be empty.
func Set(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, plan, reason string) error {
	return setVersion(ctx, k, tx, t, plan, 0, reason)
}

// SetVersion is Set for a version that was chosen, such as the one that was paid for; 0 is the
// newest.
func SetVersion(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, plan string, version int64) error {
	return setVersion(ctx, k, tx, t, plan, version, "")
}

func setVersion(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, plan string, version int64, reason string) error {
	p, err := tx.GetPlan(ctx, plan, version)
	if errors.Is(err, store.ErrNotFound) {
		return unknownPlan(ctx, tx, plan)
	}
	if err != nil {
		return err
	}
	s, err := tx.GetSubscription(ctx, t.ID)
	if err != nil || t.Plan == p.Plan && s.PlanVersion == p.Version && s.NextPlan == "" {
		return err
	}
	return apply(ctx, k, tx, t, &s, p, k.Now(), reason)
}

func unknownPlan(ctx context.Context, tx *store.Tx, plan string) error {
	list, err := tx.ListPlans(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Plan)
	}
	return fault.InvalidField("plan", "is %q, must be one of %s", plan, strings.Join(names, ", "))
}

// SetOverride gives a tenant something else than its plan does. It needs a reason.
func SetOverride(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, v store.Override) error {
	now := k.Now()
	var wrong []fault.Field
	if v.Unlimited {
		v.Value = 0
	}
	if p := checkValue(v.Name, v.Value); p != "" && (!v.Unlimited || p == "isn't an entitlement") {
		wrong = append(wrong, fault.Field{Name: v.Name, Problem: p})
	}
	if strings.TrimSpace(v.Reason) == "" {
		wrong = append(wrong, fault.Field{Name: "reason", Problem: "say why the tenant gets it"})
	}
	if !live(v, now) {
		wrong = append(wrong, fault.Field{Name: "ends_at", Problem: "is over already"})
	}
	if err := fault.InvalidFields(wrong); err != nil {
		return err
	}
	v.TenantID, v.CreatedAt = t.ID, now
	fields := change.Fields{v.Name: {After: shown(v)}, "reason": {After: v.Reason}}
	if !v.EndsAt.IsZero() {
		fields["ends_at"] = store.Change{After: stamp(v.EndsAt)}
	}
	was, err := tx.GetOverride(ctx, t.ID, v.Name)
	switch {
	case err == nil:
		if was.Value == v.Value && was.Unlimited == v.Unlimited && was.Reason == v.Reason && was.EndsAt.Equal(v.EndsAt) {
			return nil
		}
		fields[v.Name] = store.Change{Before: shown(was), After: shown(v)}
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return change.Make(ctx, k, tx, "override.set", change.PutOverride(t, v), fields)
}

// shown is an override's value as the audit log has it.
func shown(v store.Override) any {
	if v.Unlimited {
		return "unlimited"
	}
	return v.Value
}

// RemoveOverride gives a tenant what its plan gives. The reason is for the tenant's audit log;
// it may be empty.
func RemoveOverride(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, name, reason string) error {
	was, err := tx.GetOverride(ctx, t.ID, name)
	if errors.Is(err, store.ErrNotFound) {
		return fault.New(fault.NotFound, "NOT_FOUND", "tenant %s has no override of %s", t.Name, name)
	}
	if err != nil {
		return err
	}
	fields := change.Fields{name: {Before: shown(was)}}
	if reason != "" {
		fields["reason"] = store.Change{After: reason}
	}
	return change.Make(ctx, k, tx, "override.remove", change.DeleteOverride(t, name), fields)
}

// Spec is a plan as it stands in a file.
type Spec struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Rank         int64            `json:"rank"`
	Currency     string           `json:"currency"`
	BaseAmount   int64            `json:"base_amount"`
	OverLimit    string           `json:"over_limit"`
	SelfServe    bool             `json:"self_serve"`
	Listed       bool             `json:"listed"`
	Entitlements map[string]int64 `json:"entitlements"`
	Prices       []SpecPrice      `json:"prices"`
}

// SpecPrice is the price of a meter.
type SpecPrice struct {
	Meter    string `json:"meter"`
	Included int64  `json:"included"`
	Per      int64  `json:"per"`
	Amount   int64  `json:"amount"`
}

// SpecOf is a version of a plan as a file has it.
func SpecOf(p store.PlanVersion) Spec {
	s := Spec{Name: p.Plan, Title: p.Title, Rank: p.Rank, Currency: p.Currency, BaseAmount: p.BaseAmount, OverLimit: p.OverLimit,
		SelfServe: p.SelfServe, Listed: p.Listed, Entitlements: p.Entitlements, Prices: []SpecPrice{}}
	for _, v := range p.Prices {
		s.Prices = append(s.Prices, SpecPrice(v))
	}
	return s
}

// version is what a file says of a version.
func (s Spec) version() store.PlanVersion {
	v := store.PlanVersion{
		Plan: s.Name, Title: s.Title, Rank: s.Rank, Currency: s.Currency, BaseAmount: s.BaseAmount, OverLimit: s.OverLimit,
		SelfServe: s.SelfServe, Listed: s.Listed, Entitlements: s.Entitlements,
	}
	for _, p := range s.Prices {
		v.Prices = append(v.Prices, store.Price(p))
	}
	return v
}

var (
	planName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	currency   = regexp.MustCompile(`^[a-z]{3}$`)
	overLimits = []string{"hold_dispatch", "reject_enqueues"}
	meters     = []string{"jobs_enqueued", "executions", "payload_bytes", "stored_byte_hours", "egress_bytes"}
)

// Meters are those that can have a price.
func Meters() []string { return slices.Clone(meters) }

func (s Spec) check() error {
	var wrong []fault.Field
	require := func(ok bool, name, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fault.Field{Name: name, Problem: fmt.Sprintf(format, args...)})
		}
	}
	require(planName.MatchString(s.Name), "name", "must match %s", planName)
	require(s.Title != "", "title", "enter a name for people")
	require(s.Rank > 0, "rank", "must be more than 0: bigger plans have higher ones")
	require(currency.MatchString(s.Currency), "currency", "must be three lower-case letters, such as usd")
	require(s.BaseAmount >= 0, "base_amount", "can't be negative")
	require(slices.Contains(overLimits, s.OverLimit), "over_limit", "must be one of %s", strings.Join(overLimits, ", "))
	for _, name := range slices.Sorted(maps.Keys(s.Entitlements)) {
		p := checkValue(name, s.Entitlements[name])
		require(p == "", "entitlements."+name, "%s", p)
	}
	seen := make(map[string]bool)
	for _, v := range s.Prices {
		at := "prices." + v.Meter
		require(slices.Contains(meters, v.Meter), at, "isn't a meter with a price; these are: %s", strings.Join(meters, ", "))
		require(!seen[v.Meter], at, "is there twice")
		require(v.Included >= 0 && v.Amount >= 0 && v.Per > 0, at, "included and amount can't be negative, and per must be more than 0")
		seen[v.Meter] = true
	}
	return fault.InvalidFields(wrong)
}

// Difference is one thing that Apply changes; empty texts are nothing.
type Difference struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// AnyBase applies a file to whatever is newest.
const AnyBase = -1

// Apply makes a file the newest version of its plan, and says what is different to the one
// before. Without a difference there is no new version. A base that isn't AnyBase is the version
// that the file was made from, which must be the newest.
func Apply(ctx context.Context, tx *store.Tx, now time.Time, s Spec, base int64, dryRun bool) (version int64, differ []Difference, _ error) {
	if err := s.check(); err != nil {
		return 0, nil, err
	}
	was, err := tx.GetPlan(ctx, s.Name, 0)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, nil, err
	}
	if base != AnyBase && base != was.Version {
		return 0, nil, fault.New(fault.Conflict, "CONFLICT", "plan %s is at version %d and not at %d, which you changed; load it again", s.Name, was.Version, base)
	}
	before := map[string]string{}
	if err == nil {
		before = SpecOf(was).flat()
	}
	after := s.flat()
	for _, field := range slices.Sorted(maps.Keys(union(before, after))) {
		if before[field] != after[field] {
			differ = append(differ, Difference{field, before[field], after[field]})
		}
	}
	if len(differ) == 0 {
		return was.Version, nil, nil
	}
	if err := s.oneCurrency(ctx, tx); err != nil || dryRun {
		return was.Version, differ, err
	}
	next := s.version()
	next.Version, next.CreatedAt = was.Version+1, now
	return next.Version, differ, tx.InsertPlanVersion(ctx, next)
}

// oneCurrency refuses a currency beside another one: a month may have hours of several versions and
// plans, and what they cost is added up and compared with limits. What costs nothing adds nothing.
func (s Spec) oneCurrency(ctx context.Context, tx *store.Tx) error {
	versions, err := tx.ListPlanVersions(ctx, s.Name)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if costs(v) && v.Currency != s.Currency {
			return fault.InvalidField("currency", "is %q, but version %d of the plan costs %s; make a plan of another name", s.Currency, v.Version, v.Currency)
		}
	}
	if !s.Listed || !costs(s.version()) {
		return nil
	}
	all, err := tx.ListPlans(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Listed && costs(v) && v.Currency != s.Currency {
			return fault.InvalidField("currency", "is %q, but tenants can choose the plan %s, which costs %s; apply that one with listed: false first", s.Currency, v.Plan, v.Currency)
		}
	}
	return nil
}

// flat is each field with its value as text.
func (s Spec) flat() map[string]string {
	out := map[string]string{
		"title": s.Title, "rank": fmt.Sprint(s.Rank), "currency": s.Currency, "base_amount": fmt.Sprint(s.BaseAmount), "over_limit": s.OverLimit,
		"self_serve": fmt.Sprint(s.SelfServe), "listed": fmt.Sprint(s.Listed),
	}
	for name, v := range s.Entitlements {
		out["entitlements."+name] = fmt.Sprint(v)
	}
	for _, v := range s.Prices {
		b, _ := json.Marshal(v) // Text and numbers.
		out["prices."+v.Meter] = string(b)
	}
	return out
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
