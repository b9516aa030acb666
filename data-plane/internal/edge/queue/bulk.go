package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of doing one thing to many jobs.
const (
	// BulkNowMax is how many jobs one call handles itself; more become an
	// operation.
	BulkNowMax = 10_000
	// BulkRefusedMax is how many of the unchanged jobs are named.
	BulkRefusedMax = 20

	bulkGroup    = 256       // Commands of one request: only part of an entry, so that other callers get their turn.
	bulkCountMax = 1_000_000 // How many jobs are counted to size an operation.
)

// BulkInput is one action on many jobs: those in JobIDs, or those that match a filter.
type BulkInput struct {
	JobIDs   []string
	Filter   *JobFilter
	Action   wire.BulkAction
	MoveTo   string        // The queue, for move.
	Priority wire.Priority // For change_priority.
	// Async makes it an operation even if it is small.
	Async bool
}

// refuse counts a job that was left as it is, and names the first of them.
func refuse(d *wire.BulkResult, id string, err error) {
	d.Errors++
	if f := fault.As(err); len(d.Refused) < BulkRefusedMax {
		d.Refused = append(d.Refused, wire.BulkRefusal{JobID: id, Code: wire.Code(f.Reason), Error: f.Error()})
	}
}

// bulkAction is one action of the API.
type bulkAction struct {
	word wire.BulkAction
	verb jobVerb
	// ask makes the command for an existing job.
	ask func(c Caller, in *bulkPlan, id job.ID, h *records.Head) command.Command
}

var bulkActions = []bulkAction{
	{wire.BulkRetry, retryJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Retry{NS: c.Namespace, ID: id}
	}},
	{wire.BulkDelete, deleteJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Delete{NS: c.Namespace, ID: id}
	}},
	{wire.BulkCancel, cancelJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Cancel{NS: c.Namespace, ID: id}
	}},
	{wire.BulkMove, moveJob, func(c Caller, p *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Move{NS: c.Namespace, ID: id, Queue: p.in.MoveTo}
	}},
	{wire.BulkRequeue, requeueJob, func(c Caller, _ *bulkPlan, id job.ID, h *records.Head) command.Command {
		return &command.Requeue{NS: c.Namespace, Queue: h.Queue, Jobs: []job.ID{id}}
	}},
	{wire.BulkChangePriority, prioritize, func(c Caller, p *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Prioritize{NS: c.Namespace, ID: id, Priority: p.priority}
	}},
	{wire.BulkHold, holdJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Hold{NS: c.Namespace, ID: id, By: c.Principal}
	}},
	{wire.BulkApprove, approveJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Decide{NS: c.Namespace, ID: id, Approve: true, By: c.Principal}
	}},
	{wire.BulkReject, rejectJob, func(c Caller, _ *bulkPlan, id job.ID, _ *records.Head) command.Command {
		return &command.Decide{NS: c.Namespace, ID: id, By: c.Principal}
	}},
}

// BulkPermissions are those of all actions.
func BulkPermissions() (out []permission.Permission) {
	for _, a := range bulkActions {
		if !slices.Contains(out, a.verb.needs) {
			out = append(out, a.verb.needs)
		}
	}
	return out
}

// bulkPlan is a BulkInput that is valid.
type bulkPlan struct {
	in       BulkInput
	action   *bulkAction
	priority job.Priority
	fits     readmodel.Filter // If there is a filter.
}

// plan checks everything about the input.
func (in BulkInput) plan() (*bulkPlan, error) {
	p := &bulkPlan{in: in}
	var bad checker
	if i := slices.IndexFunc(bulkActions, func(a bulkAction) bool { return a.word == in.Action }); i >= 0 {
		p.action = &bulkActions[i]
	} else {
		bad.failf("action", "is %q, must be one of %s", clip(in.Action), listed(wire.BulkActions()))
	}
	if in.Action == wire.BulkMove {
		if msg := checkQueueName(in.MoveTo); msg != "" {
			bad.failf("move_to_queue", "%s", msg)
		}
	} else if in.MoveTo != "" {
		bad.failf("move_to_queue", "is only for the action move")
	}
	if in.Action == wire.BulkChangePriority {
		var known bool
		if p.priority, known = job.ParsePriority(string(in.Priority)); !known || in.Priority == "" {
			bad.failf("priority", "is %q, must be critical, high or normal", clip(in.Priority))
		}
	} else if in.Priority != "" {
		bad.failf("priority", "is only for the action change_priority")
	}
	switch {
	case len(in.JobIDs) > 0 && in.Filter != nil:
		bad.failf("filter", "can't be combined with job_ids; send one of them")
	case len(in.JobIDs) > BulkNowMax:
		bad.failf("job_ids", "%s; send several calls, or a filter", rangeMessage("items", 1, BulkNowMax, len(in.JobIDs)))
	case in.Filter != nil:
		p.checkFilter(&bad)
	case len(in.JobIDs) == 0:
		bad.failf("job_ids", "is required unless you send a filter")
	}
	return p, bad.err()
}

// checkFilter refuses a filter that matches everything: it is more often a mistake
// than intended, and may not be undone.
func (p *bulkPlan) checkFilter(bad *checker) {
	filter := *p.in.Filter
	p.in.Filter = &filter
	if filter.Cursor != "" {
		bad.failf("filter.cursor", "isn't supported here: the call applies to all matching jobs; use limit to cap how many")
		filter.Cursor = ""
	}
	limit := filter.Limit
	if limit < 0 {
		bad.failf("filter.limit", "must be at least 1")
	}
	filter.Limit = 0
	f, fields := filter.filter()
	*bad = append(*bad, under("filter", fields)...)
	conditions := filter
	conditions.Order, conditions.Sort = "", ""
	if reflect.DeepEqual(conditions, JobFilter{}) {
		bad.failf("filter", "has no conditions, so it would match every job in the namespace; add a queue, states or a time")
	}
	filter.Limit, p.fits = limit, f
}

// bulkRun is one plan under way.
type bulkRun struct {
	bulk   *Bulk
	caller Caller
	plan   *bulkPlan
	done   wire.BulkResult
	walked int // Jobs visited, changed or not.
	// part is its entry in the audit log; all parts become one record.
	part *command.Audit
	// told is called on progress.
	told func(*bulkRun)
}

// all handles all jobs of the plan. What was done before an error stays done.
func (r *bulkRun) all(ctx context.Context) error {
	err := r.each(ctx)
	if r.done.Affected == 0 {
		return err
	}
	// Also after a stop: what was done stays done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = r.bulk.views.service.actDone(ctx, r.act(0)) // If it fails, a timer of the shard does it.
	return err
}

// act records the next commands as part of this run.
func (r *bulkRun) act(covers int) *command.Audit {
	if r.part == nil {
		r.part = r.plan.act().said(r.caller, 0)
		r.part.Op = r.bulk.views.service.ids.next(r.bulk.views.service.now())
	}
	part := *r.part
	part.Covers = uint32(covers)
	return &part
}

func (r *bulkRun) each(ctx context.Context) error {
	if r.plan.in.Filter != nil {
		return r.byFilter(ctx)
	}
	seen := make(map[job.ID]bool, len(r.plan.in.JobIDs))
	var ids []job.ID
	for _, text := range r.plan.in.JobIDs {
		id, err := job.ParseID(text)
		if err != nil {
			r.walked++
			refuse(&r.done, clip(text), fault.New(fault.NotFound, "NOT_FOUND", "the job does not exist"))
			continue
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return r.some(ctx, ids)
}

// byFilter walks the list of matching jobs. The order is by fields that never change,
// so each job is visited once, whatever is done to it; jobs enqueued meanwhile are
// not visited.
func (r *bulkRun) byFilter(ctx context.Context) error {
	f := *r.plan.in.Filter
	if f.Order == "asc" { // In the other direction, new jobs come before the start.
		if now := r.bulk.views.service.now().Add(1); f.CreatedBefore.IsZero() || now.Before(f.CreatedBefore) {
			f.CreatedBefore = now
		}
	}
	left := f.Limit
	for f.Limit = ListMax; ; {
		if left > 0 {
			f.Limit = min(ListMax, left)
		}
		page, err := r.bulk.upToDate(ctx, r.caller, r.plan.action.verb.needs, f)
		if err != nil {
			return err
		}
		f.asItIs, f.patient = true, true // It need not see its own changes, and should not end half-way.
		ids := each(page.Rows, func(r *readmodel.Row) job.ID { return r.ID })
		if err := r.some(ctx, ids); err != nil {
			return err
		}
		f.Cursor = page.Cursor
		if left -= len(ids); f.Cursor == "" || r.plan.in.Filter.Limit > 0 && left <= 0 {
			return nil
		}
	}
}

// errBulkRebuilding: acting on an incomplete list would pass for having acted on
// all.
func errBulkRebuilding() error {
	return fault.New(fault.Unavailable, "REBUILDING", "the list of jobs is being rebuilt, so some jobs would be missed; try again in a moment, or send job_ids")
}

// some handles the jobs in groups, each in one request.
func (r *bulkRun) some(ctx context.Context, ids []job.ID) error {
	for group := range slices.Chunk(ids, bulkGroup) {
		if err := r.group(ctx, group); err != nil {
			return err
		}
		r.told(r)
	}
	return nil
}

func (r *bulkRun) group(ctx context.Context, ids []job.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var cmds []command.Command
	var of []job.ID
	var done wire.BulkResult
	for _, id := range ids {
		h, err := stateread.ReadHead(r.bulk.views.shard.Store(), r.caller.Namespace, id)
		if errors.Is(err, statedb.ErrNotFound) {
			if r.plan.in.Filter == nil {
				refuse(&done, id.String(), errNoJob(id))
			}
			continue
		}
		meant := false
		if err == nil {
			if no := r.caller.mayOn(r.plan.action.verb.needs, h.Queue, errNoJob(id)); no != nil {
				if r.plan.in.Filter == nil {
					refuse(&done, id.String(), no)
				}
				continue
			}
			meant, err = r.stillMeant(id, &h)
		}
		if err != nil {
			return err
		}
		if meant {
			cmds, of = append(cmds, r.plan.action.ask(r.caller, r.plan, id, &h)), append(of, id)
		}
	}
	if len(cmds) > 0 {
		rep, err := r.propose(ctx, append([]command.Command{r.act(len(cmds))}, cmds...))
		if err != nil {
			return err
		}
		settled := rep.Settled[1:]
		for i := range settled {
			if err := r.refusal(of[i], cmds[i], &settled[i]); err != nil {
				refuse(&done, of[i].String(), err)
			} else {
				done.Affected++
			}
		}
	}
	r.walked += len(ids)
	r.done.Affected += done.Affected
	r.done.Errors += done.Errors
	r.done.Refused = append(r.done.Refused, done.Refused[:min(len(done.Refused), BulkRefusedMax-len(r.done.Refused))]...)
	return nil
}

// stillMeant checks again that a job matches the filter: the list may be late.
func (r *bulkRun) stillMeant(id job.ID, h *records.Head) (bool, error) {
	f := &r.plan.fits
	if r.plan.in.Filter == nil {
		return true, nil
	}
	if !f.StillFits(h) || f.Cause == 0 {
		return f.StillFits(h), nil
	}
	now, err := readmodel.CauseNow(r.bulk.views.shard.Store(), r.caller.Namespace, id, h)
	return now == f.Cause, err
}

// propose waits while the shard is overloaded.
func (r *bulkRun) propose(ctx context.Context, cmds []command.Command) (shard.Reply, error) {
	for {
		rep, err := r.bulk.views.shard.Do(ctx, shard.Request{Settle: cmds})
		busy := fault.As(err)
		if busy == nil || busy.Code != fault.Exhausted || busy.RetryAfter == 0 {
			return rep, err
		}
		select {
		case <-time.After(busy.RetryAfter):
		case <-ctx.Done():
			return rep, ctx.Err()
		}
	}
}

func (r *bulkRun) refusal(id job.ID, cmd command.Command, res *state.Result) error {
	if _, requeue := cmd.(*command.Requeue); requeue && res.Requeued == 0 {
		return fault.New(fault.Conflict, "CONFLICT", "cannot requeue job %s: it must be %s", id, requeueJob.of)
	}
	return adminRefusal(id, res, r.plan.action.verb)
}

// stopped says how far it got before err.
func (r *bulkRun) stopped(err error) error {
	f := fault.As(err)
	if f == nil || r.walked == 0 {
		return err
	}
	stopped := *f
	if stopped.Message = fmt.Sprintf("stopped after %d jobs, %d of them done: %s; send the call again to do the rest",
		r.walked, r.done.Affected, f.Message); f.Code == fault.NotLeader || f.Code == fault.Unavailable {
		stopped.Code = fault.UnknownOutcome // Something was done: clients must not retry it automatically.
	}
	return &stopped
}
