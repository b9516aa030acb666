package queue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of the operations of one namespace.
const (
	BulkWaitingMax = 10 // Unfinished ones: one is under way, the others wait.
	bulkKept       = 20 // Finished ones that can still be asked for,
	bulkKeptFor    = time.Hour
	// bulkPatience is how long a call waits for the list to catch up with what happened
	// before it.
	bulkPatience = 10 * time.Second
	// bulkPause is between two looks at a list that is late.
	bulkPause = 50 * time.Millisecond
)

// BulkResult is the result of a call, or the operation that it started.
type BulkResult struct {
	wire.BulkResult
	Operation *wire.BulkOperation
}

// Bulk changes many jobs of one shard. Operations are in the memory of this process:
// their changes are in the log, but another leader answers that there is no such
// operation.
type Bulk struct {
	views  *Views
	logger *slog.Logger
	wake   chan struct{} // Holds one: idle namespaces have something to do.

	patience time.Duration

	mu    sync.Mutex // Guards begin, lists and everything in them.
	begin []job.Namespace
	lists map[job.Namespace]*bulkList
}

// bulkList is the operations of one namespace, oldest first.
type bulkList struct {
	last    int // Number of the latest.
	running bool
	ops     []*bulkOp
}

type bulkOp struct {
	by      string // The principal.
	view    wire.BulkOperation
	run     *bulkRun      // Nil when it has ended.
	changed chan struct{} // Closed, and made anew, when view changes.
}

// NewBulk makes the bulk use cases of the shard of v. Operations need Run.
func NewBulk(v *Views, logger *slog.Logger) *Bulk {
	return &Bulk{views: v, logger: logger, patience: bulkPatience, wake: make(chan struct{}, 1), lists: make(map[job.Namespace]*bulkList)}
}

// Run works on operations until ctx ends, one of a namespace at a time.
func (b *Bulk) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
		b.mu.Lock()
		begin := b.begin
		b.begin = nil
		b.mu.Unlock()
		for _, ns := range begin {
			work.Go(func() { b.work(ctx, ns) })
		}
	}
}

// Do acts at once, or starts an operation if that was asked for or there are many
// jobs.
func (b *Bulk) Do(ctx context.Context, c Caller, in BulkInput) (BulkResult, error) {
	plan, err := in.plan()
	if err != nil {
		return BulkResult{}, err
	}
	needs := plan.action.verb.needs
	if !c.Rights.Somewhere(needs) {
		return BulkResult{}, c.Lacks(needs, "")
	}
	if in.Action == wire.BulkMove {
		if err := c.may(needs, in.MoveTo); err != nil {
			return BulkResult{}, err
		}
	}
	total, large := len(in.JobIDs), false
	if plan.in.Filter != nil {
		if total, large, err = b.size(ctx, c, plan); err != nil {
			return BulkResult{}, err
		}
	}
	run := &bulkRun{bulk: b, caller: c, plan: plan, told: func(*bulkRun) {}}
	if in.Async || large {
		op, err := b.enlist(run, total)
		return BulkResult{Operation: &op}, err
	}
	if err := run.all(ctx); err != nil {
		return BulkResult{}, run.stopped(err)
	}
	return BulkResult{BulkResult: run.done}, nil
}

// size counts the jobs that a filter finds, and says whether they are too many for a call.
func (b *Bulk) size(ctx context.Context, c Caller, p *bulkPlan) (total int, large bool, err error) {
	f := *p.in.Filter
	f.Limit = 1
	if _, err := b.upToDate(ctx, c, p.action.verb.needs, f); err != nil {
		return 0, false, err
	}
	limit := p.in.Filter.Limit
	if limit > 0 && limit <= BulkNowMax {
		return limit, false, nil
	}
	f.countTo = bulkCountMax
	page, err := b.views.list(ctx, c, p.action.verb.needs, f)
	if broad := fault.As(err); broad != nil && broad.Reason == "SEARCH_TOO_BROAD" {
		return BulkNowMax, true, nil // Counting them takes longer than a query may: make it an operation.
	}
	if err != nil {
		return 0, false, err
	}
	if total = page.Total.Jobs; limit > 0 {
		total = min(total, limit)
	}
	return total, page.Total.Jobs > BulkNowMax || !page.Total.Exact, nil
}

// upToDate lists jobs once the list has everything from before the call: missing
// jobs would be skipped silently.
func (b *Bulk) upToDate(ctx context.Context, c Caller, needs permission.Permission, f JobFilter) (readmodel.Page, error) {
	for began := time.Now(); ; {
		page, err := b.views.list(ctx, c, needs, f) // Waits for a moment itself, unless that is in vain.
		switch {
		case err != nil:
			return readmodel.Page{}, err
		case !page.Rebuilding && (page.Lag == 0 || !page.AsOf.Before(began)):
			return page, nil
		case time.Since(began) <= b.patience: // A small list is complete again very soon.
			pause(ctx)
		case page.Rebuilding:
			return readmodel.Page{}, errBulkRebuilding()
		default:
			return readmodel.Page{}, fault.New(fault.Unavailable, "LIST_BEHIND",
				"the list of jobs is %s behind, so some jobs would be missed; try again in a moment, or send job_ids", page.Lag.Round(time.Second))
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(bulkPause):
	case <-ctx.Done():
	}
}

// enlist adds an operation and wakes Run if need be.
func (b *Bulk) enlist(run *bulkRun, total int) (wire.BulkOperation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ns := run.caller.Namespace
	list := b.lists[ns]
	if list == nil {
		list = &bulkList{}
		b.lists[ns] = list
	}
	if n := list.unfinished(); n >= BulkWaitingMax {
		return wire.BulkOperation{}, &fault.Error{
			Code: fault.Exhausted, Reason: "TOO_MANY_OPERATIONS", RetryAfter: 5 * time.Second,
			Limit:   &fault.Limit{Name: "bulk_operations_max", Value: BulkWaitingMax, Current: int64(n)},
			Message: fmt.Sprintf("%d bulk operations of this namespace are unfinished; wait for one of them to end", n),
		}
	}
	now := time.Now().UTC()
	list.last++
	op := &bulkOp{by: run.caller.Principal, run: run, changed: make(chan struct{}), view: wire.BulkOperation{
		ID: "bulk_" + strconv.FormatInt(now.UnixNano(), 36) + "_" + strconv.Itoa(list.last), Action: run.plan.in.Action,
		Status: wire.BulkQueued, Total: total, CreatedAt: now, UpdatedAt: now,
	}}
	run.told = func(*bulkRun) { b.update(op, wire.BulkRunning, nil) }
	list.ops = append(list.ops, op)
	if !list.running {
		list.running = true
		b.begin = append(b.begin, ns)
		select {
		case b.wake <- struct{}{}:
		default: // Run is already awake.
		}
	}
	return op.view, nil
}

func (k *bulkList) unfinished() (n int) {
	for _, op := range k.ops {
		if op.run != nil {
			n++
		}
	}
	return n
}

// work runs the operations of a namespace, one after the other, until there are none.
func (b *Bulk) work(ctx context.Context, ns job.Namespace) {
	for op := b.next(ns); op != nil; op = b.next(ns) {
		b.update(op, wire.BulkRunning, nil)
		if err := op.run.all(ctx); err != nil {
			if fault.As(err) == nil && ctx.Err() == nil {
				b.logger.Error("bulk operation failed", "namespace", ns, "operation", op.view.ID, "err", err)
			}
			b.update(op, wire.BulkFailed, op.run.stopped(err))
			continue
		}
		b.update(op, wire.BulkCompleted, nil)
	}
}

// next is the oldest waiting operation; with none left the namespace is idle.
func (b *Bulk) next(ns job.Namespace) *bulkOp {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.lists[ns]
	for over := len(list.ops) - list.unfinished() - bulkKept; over > 0; over-- {
		list.ops = slices.Delete(list.ops, 0, 1) // They end in order.
	}
	b.forget(time.Now())
	for _, op := range list.ops {
		if op.run != nil {
			return op
		}
	}
	list.running = false
	return nil
}

// forget drops what ended long ago, of all namespaces. Its caller holds mu.
func (b *Bulk) forget(now time.Time) {
	for ns, list := range b.lists {
		list.ops = slices.DeleteFunc(list.ops, func(op *bulkOp) bool { return op.run == nil && now.Sub(op.view.FinishedAt) > bulkKeptFor })
		if len(list.ops) == 0 && !list.running {
			delete(b.lists, ns)
		}
	}
}

// update shows how far an operation is.
func (b *Bulk) update(op *bulkOp, s wire.BulkStatus, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := &op.view
	v.Status, v.UpdatedAt = s, time.Now().UTC()
	done := &op.run.done
	v.Processed, v.Affected, v.Errors, v.Refused = op.run.walked, done.Affected, done.Errors, slices.Clone(done.Refused)
	if s.Ended() {
		v.FinishedAt, op.run = v.UpdatedAt, nil
	}
	if err != nil {
		v.Error = "internal error; send the call again to do the rest"
		if f := fault.As(err); f != nil {
			v.Error = f.Error()
		}
	}
	close(op.changed)
	op.changed = make(chan struct{})
}

// Operation returns the state of an operation, one's own if the caller may not list every
// job; changed is closed when it next changes.
func (b *Bulk) Operation(c Caller, id string) (view wire.BulkOperation, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if list := b.lists[c.Namespace]; list != nil {
		for _, op := range list.ops {
			if op.view.ID == id && (op.by == c.Principal || c.Rights.Everywhere(permission.JobList)) {
				return op.view, op.changed, nil
			}
		}
	}
	return wire.BulkOperation{}, nil, fault.New(fault.NotFound, "NOT_FOUND",
		"this bulk operation doesn't exist: it ended a while ago, or the node that ran it stopped. What it did is done; send the call again to do the rest")
}
