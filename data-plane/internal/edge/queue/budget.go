package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Budget limits the cost of models.
type Budget struct {
	Scope    wire.BudgetScope
	Target   string        // "*", a queue's name, or key:value.
	Daily    int64         // Nano-dollars a UTC day; 0 is no limit.
	PerJob   int64         // Nano-dollars; 0 is no limit.
	OnExceed wire.OnExceed // "" is the default.
}

// scopeOf reads a scope; the words are in the order of command.BudgetScope.
func scopeOf(word wire.BudgetScope) (command.BudgetScope, bool) {
	i := slices.Index(wire.BudgetScopes(), word)
	return command.BudgetGlobal + command.BudgetScope(i), i >= 0
}

// CheckBudget lists what SetBudget would refuse.
func (b *Budget) CheckBudget() []fault.Field {
	var bad checker
	if _, ok := scopeOf(b.Scope); !ok {
		bad.failf("scope", "is %q, must be global, queue or tag", clip(b.Scope))
	}
	switch b.Scope {
	case wire.BudgetGlobal:
		if b.Target != "" && b.Target != records.AllTarget {
			bad.failf("target", "is %q, must be * for the whole namespace", clip(b.Target))
		}
	case wire.BudgetQueue:
		if msg := checkQueueName(b.Target); msg != "" {
			bad.failf("target", "%s", msg)
		}
	case wire.BudgetTag:
		if key, _, ok := strings.Cut(b.Target, ":"); !ok || key == "" {
			bad.failf("target", "is %q, must be a tag such as team:search", clip(b.Target))
		}
		bad.text("target", b.Target, 2*TagBytesMax+1)
	}
	if b.Daily == 0 && b.PerJob == 0 {
		bad.failf("daily_usd", "is required unless you set per_job_usd")
	}
	bad.dollars("daily_usd", b.Daily)
	bad.dollars("per_job_usd", b.PerJob)
	if _, ok := wordIn(wire.OnExceeds(), b.OnExceed); !ok {
		bad.failf("on_exceed", "is %q, must be hold, reject or alert_only", clip(b.OnExceed))
	}
	return bad
}

// SetBudget makes a budget, or changes the one of the same scope and target. It
// returns the result.
func (s *Service) SetBudget(ctx context.Context, c Caller, in Budget) (wire.Budget, error) {
	if fields := in.CheckBudget(); len(fields) > 0 {
		return wire.Budget{}, fault.InvalidFields(fields)
	}
	scope, _ := scopeOf(in.Scope) // Validated.
	on, _ := wordIn(wire.OnExceeds(), in.OnExceed)
	if scope == command.BudgetGlobal {
		in.Target = records.AllTarget
	}
	b := command.Budget{
		ID: job.BudgetID(s.ids.next(s.now())), Scope: scope, Target: in.Target, Daily: in.Daily, PerJob: in.PerJob,
		On: command.OnExceed(on),
	}
	res, err := s.act(ctx, c, in.act(), &command.PutBudget{NS: c.Namespace, Budget: b})
	if err != nil {
		return wire.Budget{}, err
	}
	if res.Refusal == state.TooMany {
		return wire.Budget{}, fault.New(fault.Conflict, "CONFLICT", "this namespace has %d budgets, which is the limit; delete some of them first", state.BudgetsMax)
	}
	all, err := readBack(ctx, func(ctx context.Context) ([]wire.Budget, error) { return s.Budgets(ctx, c) })
	if err != nil {
		return wire.Budget{}, err
	}
	for _, b := range all {
		if b.Scope == in.Scope && b.Target == in.Target {
			return b, nil
		}
	}
	return wire.Budget{}, errNoBudget(in.Scope, in.Target) // Deleted meanwhile.
}

// Budgets lists the namespace's budgets.
func (s *Service) Budgets(ctx context.Context, c Caller) ([]wire.Budget, error) {
	return shard.Read(ctx, s.shard, func(g *statedb.Group) ([]wire.Budget, error) {
		list, err := stateread.ReadBudgets(g, c.Namespace, s.now().UnixNano())
		return each(list, viewBudget), err
	})
}

func viewBudget(b *records.Budget) wire.Budget {
	return wire.Budget{
		ID: b.ID.String(), Scope: wire.BudgetScopes()[b.Scope-command.BudgetGlobal], Target: b.Target, DailyUSD: dollars(b.Daily), PerJobUSD: dollars(b.PerJob),
		OnExceed: wire.OnExceeds()[b.On], SpentUSD: dollars(b.Spent), CreatedAt: when(b.CreatedAt),
	}
}

// DeleteBudget removes a budget; queues that it stopped go on.
func (s *Service) DeleteBudget(ctx context.Context, c Caller, scope wire.BudgetScope, target string) error {
	sc, ok := scopeOf(scope)
	if !ok {
		return errNoBudget(scope, target)
	}
	del := &command.DeleteBudget{NS: c.Namespace, Scope: sc, Target: target}
	_, err := s.actOn(ctx, c, budgetAct("budget.delete", scope, target), del, errNoBudget(scope, target))
	return err
}

func errNoBudget(scope wire.BudgetScope, target string) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no budget for %s %s in this namespace", clip(scope), clip(target))
}

// errBudgetSpent refuses a new job until the UTC day ends.
func errBudgetSpent(prefix string, now time.Time) error {
	tomorrow := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return &fault.Error{
		Code: fault.Exhausted, Reason: "BUDGET_EXCEEDED", RetryAfter: tomorrow.Sub(now),
		Message: "a budget for this job is spent until 00:00 UTC and refuses new jobs; nothing was enqueued",
		Fields:  []fault.Field{{Path: prefix + "queue", Message: "a budget of the namespace, of this queue or of a tag is spent"}},
	}
}

// Limits of approval policies.
const (
	PolicyApproversMax = 50
	PolicyExpiresMin   = time.Second
	PolicyExpiresMax   = 365 * 24 * time.Hour
)

// Policy says which jobs wait for a person's approval when they are enqueued.
type Policy struct {
	ID        job.PolicyID // Zero makes a new one.
	Name      string
	Mode      wire.PolicyMode // "" is the default.
	Enabled   bool
	Queue     string // "" is no condition.
	TagKey    string // "" is no condition.
	TagValue  string // "" is any value.
	Approvers []string
	Expires   time.Duration // How long a job waits at most; 0: without limit.
	OnExpire  wire.OnExpire // "" is the default.
}

// CheckPolicy lists what SetPolicy would refuse.
func (p *Policy) CheckPolicy() []fault.Field {
	var bad checker
	if p.Name == "" {
		bad.failf("name", "is required")
	}
	bad.text("name", p.Name, QueueNameBytesMax)
	if _, ok := wordIn(wire.PolicyModes(), p.Mode); !ok {
		bad.failf("mode", "is %q, must be any or all", clip(p.Mode))
	}
	if p.Queue == "" && p.TagKey == "" {
		bad.failf("queue", "is required unless you set tag_key: a policy needs a condition")
	}
	if msg := checkQueueName(p.Queue); p.Queue != "" && msg != "" {
		bad.failf("queue", "%s", msg)
	}
	if p.TagValue != "" && p.TagKey == "" {
		bad.failf("tag_value", "requires tag_key")
	}
	bad.text("tag_key", p.TagKey, TagBytesMax)
	bad.text("tag_value", p.TagValue, TagBytesMax)
	if len(p.Approvers) > PolicyApproversMax {
		bad.failf("approvers", "%s", rangeMessage("names", 0, PolicyApproversMax, len(p.Approvers)))
	}
	for i, a := range p.Approvers {
		if a == "" || len(a) > KeyBytesMax {
			bad.failf(fmt.Sprintf("approvers[%d]", i), "must be the id of a key or user")
		}
	}
	if p.Expires != 0 {
		bad.delay("expires_after", &p.Expires, PolicyExpiresMin, PolicyExpiresMax)
	}
	if _, ok := wordIn(wire.OnExpires(), p.OnExpire); !ok {
		bad.failf("on_expire", "is %q, must be reject or approve", clip(p.OnExpire))
	}
	return bad
}

// SetPolicy makes an approval policy, or changes the one of that id.
func (s *Service) SetPolicy(ctx context.Context, c Caller, in Policy) (wire.ApprovalPolicy, error) {
	if fields := in.CheckPolicy(); len(fields) > 0 {
		return wire.ApprovalPolicy{}, fault.InvalidFields(fields)
	}
	if in.ID.IsZero() {
		in.ID = job.PolicyID(s.ids.next(s.now()))
	} else if _, err := s.policy(ctx, c, in.ID); err != nil {
		return wire.ApprovalPolicy{}, err
	}
	res, err := s.act(ctx, c, in.act(), &command.PutPolicy{NS: c.Namespace, Policy: command.Policy{
		ID: in.ID, Name: in.Name, Enabled: in.Enabled, Any: in.Mode != wire.PolicyAll, Queue: in.Queue, TagKey: in.TagKey, TagValue: in.TagValue,
		Approvers: in.Approvers, Expires: in.Expires, ApproveAtLast: in.OnExpire == wire.ExpireApprove,
	}})
	if err != nil {
		return wire.ApprovalPolicy{}, err
	}
	if res.Refusal == state.TooMany {
		return wire.ApprovalPolicy{}, fault.New(fault.Conflict, "CONFLICT", "this namespace has %d approval policies, which is the limit; delete some of them first", state.PoliciesMax)
	}
	return readBack(ctx, func(ctx context.Context) (wire.ApprovalPolicy, error) { return s.policy(ctx, c, in.ID) })
}

func (s *Service) policy(ctx context.Context, c Caller, id job.PolicyID) (wire.ApprovalPolicy, error) {
	all, err := s.Policies(ctx, c)
	if err != nil {
		return wire.ApprovalPolicy{}, err
	}
	for _, p := range all {
		if p.ID == id.String() {
			return p, nil
		}
	}
	return wire.ApprovalPolicy{}, errNoPolicy(id)
}

// Policies lists the namespace's approval policies, the oldest first.
func (s *Service) Policies(ctx context.Context, c Caller) ([]wire.ApprovalPolicy, error) {
	return shard.Read(ctx, s.shard, func(g *statedb.Group) ([]wire.ApprovalPolicy, error) {
		list, err := stateread.ReadPolicies(g, c.Namespace)
		return each(list, viewPolicy), err
	})
}

func viewPolicy(p *records.Policy) wire.ApprovalPolicy {
	v := wire.ApprovalPolicy{
		ID: p.ID.String(), Name: p.Name, Mode: wire.PolicyAll, Enabled: p.Enabled, Queue: p.Queue, TagKey: p.TagKey, TagValue: p.TagValue,
		Approvers: p.Approvers, ExpiresAfter: spanOrNone(p.Expires), OnExpire: onExpire(p.ApproveAtLast), CreatedAt: when(p.CreatedAt),
	}
	if p.Any {
		v.Mode = wire.PolicyAny
	}
	return v
}

// DeletePolicy removes an approval policy; jobs that it holds stay held.
func (s *Service) DeletePolicy(ctx context.Context, c Caller, id job.PolicyID) error {
	_, err := s.actOn(ctx, c, policyAct("approval_policy.delete", id), &command.DeletePolicy{NS: c.Namespace, ID: id}, errNoPolicy(id))
	return err
}

func errNoPolicy(id job.PolicyID) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no approval policy %s in this namespace", id)
}
