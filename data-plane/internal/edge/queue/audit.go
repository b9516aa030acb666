package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
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

// Limits of a page of the audit log.
const (
	AuditPageDefault = 100
	AuditPageMax     = 1000
	// auditTextMax bounds each text of an act's detail.
	auditTextMax = 512
	// auditWas is the prefix of a detail's value before the change.
	auditWas = "was_"
)

// adminAct is an administrative act, as opposed to a worker's.
type adminAct struct {
	act, kind, target string
	detail            map[string]string
	// Of what is done to one job.
	verb jobVerb
	id   job.ID
}

// jobVerb is what is done to one job, what that needs, and how a refusal says it: cannot
// word job X, it must be of.
type jobVerb struct {
	needs    permission.Permission
	word, of string
}

func queueAct(act, name string) adminAct { return adminAct{act: act, kind: "queue", target: name} }
func jobAct(verb jobVerb, id job.ID) adminAct {
	return adminAct{act: "job." + verb.word, kind: "job", target: id.String(), verb: verb, id: id}
}
func budgetAct(act string, scope wire.BudgetScope, on string) adminAct {
	return adminAct{act: act, kind: "budget", target: string(scope) + "/" + on}
}

func scheduleAct(act string, id job.ScheduleID) adminAct {
	return adminAct{act: act, kind: "schedule", target: id.String()}
}

func policyAct(act string, id job.PolicyID) adminAct {
	return adminAct{act: act, kind: "approval_policy", target: id.String()}
}

// with adds a detail that is not empty.
func (a adminAct) with(name, text string) adminAct {
	if text == "" {
		return a
	}
	detail := map[string]string{name: clipTo(text, auditTextMax)}
	for k, v := range a.detail {
		detail[k] = v
	}
	a.detail = detail
	return a
}

func clipTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// said is the command that records the next covers commands as the act.
func (a adminAct) said(c Caller, covers int) *command.Audit {
	out := &command.Audit{NS: c.Namespace, By: c.Principal, Owner: c.Owner, Peer: c.Peer, Act: a.act, Type: a.kind, Target: a.target, Covers: uint32(covers)}
	if len(a.detail) > 0 {
		if b, err := json.Marshal(a.detail); err == nil && len(b) <= command.AuditDetailBytesMax { // A map of strings has no error.
			out.Detail = b
		}
	}
	return out
}

// act carries out one command that is an administrative act.
func (s *Service) act(ctx context.Context, c Caller, a adminAct, cmd command.Command) (state.Result, error) {
	rep, err := s.shard.Do(ctx, shard.Request{Settle: s.audited(c, a, cmd)})
	if err != nil {
		return state.Result{}, err
	}
	return rep.Settled[1], nil
}

// actOn is act on what must be there; its absence is missing.
func (s *Service) actOn(ctx context.Context, c Caller, a adminAct, cmd command.Command, missing error) (state.Result, error) {
	res, err := s.act(ctx, c, a, cmd)
	if err == nil && res.Refusal == state.NotFound {
		err = missing
	}
	return res, err
}

// actOnJob is act on one job, and tells the job's state after it.
func (s *Service) actOnJob(ctx context.Context, c Caller, a adminAct, cmd command.Command) (job.State, error) {
	if err := s.mayTouch(&c, a.verb.needs, a.id); err != nil {
		return 0, err
	}
	res, err := s.act(ctx, c, a, cmd)
	if err != nil {
		return 0, err
	}
	return res.State, adminRefusal(a.id, &res, a.verb)
}

// audited puts the audit record in front of a command. The command's result comes
// second.
func (s *Service) audited(c Caller, a adminAct, cmd command.Command) []command.Command {
	return []command.Command{a.said(c, 1), cmd}
}

// actDone writes the record of an act that was done in parts. If that fails, a timer of
// the shard does it later.
func (s *Service) actDone(ctx context.Context, part *command.Audit) error {
	last := *part
	last.Covers, last.Done = 0, true
	_, err := s.one(ctx, &last)
	return err
}

// act describes which of a queue's settings change, compared with those at the time
// of the call.
func (in *QueueSettings) act(name string, was *stateread.Queue) adminAct {
	a := queueAct("queue.update", name)
	change := func(field, before, after string) {
		if before != after {
			a = a.with(auditWas+field, before).with(field, after)
		}
	}
	if in.Paused != nil {
		change("paused", strconv.FormatBool(was.Paused), strconv.FormatBool(*in.Paused))
	}
	if in.MaxConcurrency != nil {
		change("max_concurrency", describeLimit(int(was.MaxConcurrency)), describeLimit(*in.MaxConcurrency))
	}
	if in.Throttle != nil {
		change("throttle", Throttle{Limit: int(was.Throttle.Limit), Window: was.Throttle.Window}.describe(), in.Throttle.describe())
	}
	if in.Retry != nil {
		retry := viewRetry(was.Retry, was.RetrySet)
		before := retry.describe()
		for i, after := range in.Retry.describe() {
			change(retryFields[i], before[i], after)
		}
	}
	if in.Retention != nil {
		before := describeRetention(retention.Finished(was.Retention))
		for i, after := range describeRetention(*in.Retention) {
			change(retentionFields[i], before[i], after)
		}
	}
	return a
}

func describeLimit(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func (t Throttle) describe() string {
	if t == (Throttle{}) {
		return "none"
	}
	return fmt.Sprintf("%d/%s", t.Limit, shortly(t.Window))
}

// shortly is a duration as people type it: 1m, not 1m0s.
func shortly(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m", "h"} {
		if strings.HasSuffix(text, unit+"0s") || strings.HasSuffix(text, unit+"0m") {
			text = text[:len(text)-2]
		}
	}
	return text
}

var retryFields = [...]string{"max_retries", "retry_backoff", "retry_base_delay", "retry_max_delay"} // The words of the API.

// describe says each of retryFields.
func (r *RetrySettings) describe() [len(retryFields)]string {
	out := [...]string{"default", cmp.Or(string(r.Backoff), "default"), "default", "default"}
	if r.MaxRetries != nil {
		out[0] = strconv.Itoa(*r.MaxRetries)
	}
	for i, d := range map[int]*time.Duration{2: r.BaseDelay, 3: r.MaxDelay} {
		if d != nil {
			out[i] = shortly(*d)
		}
	}
	return out
}

// act describes a budget that is set.
func (b *Budget) act() adminAct {
	a := budgetAct("budget.set", b.Scope, b.Target)
	if b.Daily != 0 {
		a = a.with("daily_usd", job.FormatDollars(b.Daily))
	}
	if b.PerJob != 0 {
		a = a.with("per_job_usd", job.FormatDollars(b.PerJob))
	}
	return a.with("on_exceed", string(cmp.Or(b.OnExceed, wire.ExceedHold)))
}

// act describes an approval policy that is set.
func (p *Policy) act() adminAct {
	a := policyAct("approval_policy.set", p.ID).with("name", p.Name).with("queue", p.Queue)
	if p.TagKey != "" {
		a = a.with("tag", p.TagKey+":"+p.TagValue)
	}
	return a.with("enabled", strconv.FormatBool(p.Enabled)).with("approvers", strings.Join(p.Approvers, ", "))
}

// act describes a bulk call: its action, its filter and how many ids it names.
func (p *bulkPlan) act() adminAct {
	a := adminAct{act: "jobs." + string(p.in.Action), kind: "jobs"}.with("to_queue", p.in.MoveTo).with("priority", string(p.in.Priority))
	if p.in.Filter == nil {
		return a.with("job_ids", strconv.Itoa(len(p.in.JobIDs)))
	}
	return a.with("filter", p.in.Filter.describe())
}

// describe says a filter in one line, as the words of the API.
func (f *JobFilter) describe() string {
	var parts []string
	say := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	say("queue", f.Queue)
	say("error_group", f.ErrorGroup)
	say("state", strings.Join(f.States, ","))
	for _, t := range f.Tags {
		say("tag", t.Key+":"+t.Value)
	}
	say("priority", string(f.Priority))
	say("worker_id", f.WorkerID)
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"created_after", f.CreatedAfter}, {"created_before", f.CreatedBefore}, {"scheduled_after", f.ScheduledAfter}, {"scheduled_before", f.ScheduledBefore},
		{"started_after", f.StartedAfter}, {"started_before", f.StartedBefore}, {"completed_after", f.CompletedAfter}, {"completed_before", f.CompletedBefore},
	} {
		if !t.at.IsZero() {
			say(t.name, t.at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.AttemptMin != nil {
		say("attempt_min", strconv.Itoa(*f.AttemptMin))
	}
	if f.AttemptMax != nil {
		say("attempt_max", strconv.Itoa(*f.AttemptMax))
	}
	if f.HasErrors != nil {
		say("has_errors", strconv.FormatBool(*f.HasErrors))
	}
	if f.Limit > 0 {
		say("limit", strconv.Itoa(f.Limit))
		say("order", f.Order)
	}
	return strings.Join(parts, " ")
}

// Audit lists the namespace's administrative acts before a number, newest first; 0
// begins with the newest.
func (s *Service) Audit(ctx context.Context, c Caller, before uint64, limit int) (wire.AuditPage, error) {
	limit = cmp.Or(limit, AuditPageDefault)
	if limit < 1 || limit > AuditPageMax {
		return wire.AuditPage{}, fault.InvalidFields([]fault.Field{{Path: "limit", Message: fmt.Sprintf("must be between 1 and %d", AuditPageMax)}})
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (page wire.AuditPage, err error) {
		list, err := stateread.ReadAuditOf(g, c.Namespace, before, limit+1)
		if len(list) > limit {
			list = list[:limit]
			page.HasMore, page.Cursor = true, strconv.FormatUint(list[limit-1].Of, 10)
		}
		page.Entries = each(list, viewAudit)
		return page, err
	})
}

func viewAudit(r *records.AuditRecord) wire.AuditEntry {
	return wire.AuditEntry{
		At: when(r.At), Principal: r.By, PrincipalID: r.Owner, Peer: r.Peer, Action: r.Act, TargetType: r.Type, Target: r.Target, Detail: r.Detail,
		Affected: r.Affected, Refused: r.Refused, Interrupted: r.Interrupted,
	}
}

// TakeAudit reads the acts of all namespaces of the shard after a number, oldest first.
// Those up to the number may then be dropped: the caller has stored them.
func (s *Service) TakeAudit(ctx context.Context, after uint64, limit int) (page stateread.AuditPage, err error) {
	page, err = shard.Read(ctx, s.shard, func(g *statedb.Group) (stateread.AuditPage, error) {
		return stateread.ReadAudit(g, after, limit)
	})
	if err != nil || after <= page.Taken {
		return page, err
	}
	_, err = s.one(ctx, &command.AuditCollected{Through: after})
	return page, err
}
