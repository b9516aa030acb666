package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
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

// Limits of agent jobs.
const (
	AgentIterationsMax  = 1_000_000
	IterationTimeoutMin = time.Millisecond
	IterationTimeoutMax = 7 * 24 * time.Hour
	IterationsListMax   = state.IterationsKept // Of one page of iterations; also the default, for clients that read one page.
)

// AgentLimits make a job an agent job and bound its loop; zeros are no limit.
type AgentLimits struct {
	MaxIterations    int
	MaxCost          int64 // Nano-dollars.
	IterationTimeout time.Duration
}

func (a *AgentLimits) validate() []fault.Field {
	var bad checker
	if a == nil {
		return nil
	}
	if a.MaxIterations < 0 || a.MaxIterations > AgentIterationsMax {
		bad.failf("agent.max_iterations", "is %d, must be between 0 (no limit) and %d", a.MaxIterations, AgentIterationsMax)
	}
	bad.dollars("agent.max_cost_usd", a.MaxCost)
	if a.IterationTimeout != 0 {
		bad.delay("agent.iteration_timeout", &a.IterationTimeout, IterationTimeoutMin, IterationTimeoutMax)
	}
	return bad
}

func (a *AgentLimits) command() *command.AgentLimits {
	if a == nil {
		return nil
	}
	return &command.AgentLimits{MaxIterations: uint32(a.MaxIterations), MaxCost: a.MaxCost, IterationTimeout: a.IterationTimeout}
}

// viewAgent is nil for a job that is not an agent job.
func viewAgent(b *records.Body, iteration uint32, used *records.JobUsage) *wire.Agent {
	if b.Agent == nil {
		return nil
	}
	a := b.Agent
	v := &wire.Agent{
		MaxIterations: int(a.MaxIterations), MaxCostUSD: dollars(a.MaxCost), IterationTimeout: spanOrNone(a.IterationTimeout), Iteration: int(iteration),
	}
	if used != nil {
		v.TotalCostUSD = dollars(used.Sum().Cost)
	}
	return v
}

// agentStatuses are the words with which a worker reports the loop of its job.
var agentStatuses = map[wire.AgentStatus]command.AgentStatus{
	"": command.AgentUnsaid, wire.AgentContinue: command.AgentContinue, wire.AgentDone: command.AgentDone, wire.AgentHold: command.AgentHold,
}

// checkAgent lists what is wrong with the agent part of an ack.
func (a *AckInput) checkAgent() []fault.Field {
	var bad checker
	if _, ok := agentStatuses[a.AgentStatus]; !ok {
		bad.failf("agent_status", "is %q, must be continue, done or hold", clip(a.AgentStatus))
	}
	if a.HoldReason != "" && a.AgentStatus != wire.AgentHold {
		bad.failf("hold_reason", "requires agent_status hold")
	}
	bad.text("hold_reason", a.HoldReason, ReasonBytesMax)
	return bad
}

// ackRefusal is why an ack was refused, or nil.
func ackRefusal(id job.ID, r *state.Result) error {
	if r.Refusal == state.NotAgent {
		return fault.InvalidFields([]fault.Field{{Path: "agent_status", Message: fmt.Sprintf("is only for agent jobs, and job %s isn't one", id)}})
	}
	return workRefusal(id, r)
}

// Iterations lists the finished iterations of a job after one; a limit of 0 is the
// default.
func (s *Service) Iterations(ctx context.Context, c Caller, id job.ID, after, limit int) (wire.IterationList, error) {
	var bad checker
	if after < 0 || after > math.MaxUint32 {
		bad.failf("after", "is %d, must be an iteration's number or 0", after)
	}
	if limit < 0 || limit > IterationsListMax {
		bad.failf("limit", "is %d, must be between 1 and %d", limit, IterationsListMax)
	}
	if err := bad.err(); err != nil {
		return wire.IterationList{}, err
	}
	limit = cmp.Or(limit, IterationsListMax)
	page, err := look(ctx, s.shard, errNoJob(id), func(g *statedb.Group) (page wire.IterationList, err error) {
		h, err := stateread.ReadHead(g, c.Namespace, id)
		if err != nil {
			return page, err
		}
		if err := c.mayOn(permission.JobRead, h.Queue, errNoJob(id)); err != nil {
			return page, err
		}
		list, more, err := stateread.ReadIterations(g, c.Namespace, id, uint32(after), limit)
		page.HasMore = more
		page.Iterations = each(list, func(it *records.Iteration) wire.Iteration { return viewIteration(id, it) })
		if c.hides(h.Queue) {
			redactIterations(page.Iterations)
		}
		return page, err
	})
	if err != nil {
		return page, err
	}
	return page, s.noteRead(ctx, &c, readOf(page.Iterations, func(it *wire.Iteration) (string, bool) { return it.JobID, !it.Redacted }))
}

func viewIteration(id job.ID, it *records.Iteration) wire.Iteration {
	v := wire.Iteration{
		ID: int(it.Number), JobID: id.String(), Iteration: int(it.Number), Checkpoint: it.Checkpoint, HoldReason: it.HoldReason,
		Result: it.Result, Model: it.Model, Provider: it.Provider, Usage: viewUsage(it.Usage), CreatedAt: when(it.At),
	}
	for word, status := range agentStatuses {
		if status == it.Status {
			v.Status = word
		}
	}
	return v
}

// Replay makes a copy of an agent job that starts where one of its iterations ended.
// With an idempotency key there is one copy per job and iteration.
func (s *Service) Replay(ctx context.Context, c Caller, id job.ID, from int, key string) (EnqueueResult, error) {
	var bad checker
	if bad.text("Idempotency-Key", key, KeyBytesMax); len(bad) > 0 {
		return EnqueueResult{}, fault.InvalidFields(bad)
	}
	cmd, err := s.replayOf(ctx, c, id, from)
	if err != nil {
		return EnqueueResult{}, err
	}
	if key != "" { // The job itself may have been enqueued with the same key.
		cmd.IdempotencyKey, cmd.IdempotencyFor = fmt.Sprintf("%s#%s@%d", key, id, from), job.IdempotencyFor
	}
	if err := s.gate.admit(c.Namespace, 1, len(cmd.Payload), time.Now()); err != nil {
		return EnqueueResult{}, err
	}
	act := jobAct(jobVerb{word: "replay"}, id).with("from", strconv.Itoa(from)).with("new_job", cmd.ID.String())
	rep, err := s.do(ctx, c, shard.Request{After: s.audited(c, act, cmd)})
	if err != nil {
		return EnqueueResult{}, err
	}
	made := &rep.After[1]
	if err := enqueueRefusal("", &EnqueueInput{Queue: cmd.Queue}, made); err != nil {
		return EnqueueResult{}, err
	}
	return enqueueResult(cmd.Queue, made), nil
}

func (s *Service) replayOf(ctx context.Context, c Caller, id job.ID, from int) (*command.Enqueue, error) {
	type former struct {
		stateread.Job
		it    records.Iteration
		there bool
	}
	j, err := look(ctx, s.shard, errNoJob(id), func(g *statedb.Group) (j former, err error) {
		if j.Job, err = stateread.ReadJob(g, c.Namespace, id); err != nil || from < 1 || from > math.MaxUint32 {
			return j, err
		}
		j.it, err = stateread.ReadIteration(g, c.Namespace, id, uint32(from))
		j.there = err == nil
		if errors.Is(err, statedb.ErrNotFound) {
			err = nil
		}
		return j, err
	})
	if err != nil {
		return nil, err
	}
	if err := c.mayOn(permission.JobRetry, j.Head.Queue, errNoJob(id)); err != nil {
		return nil, err
	}
	if !j.there {
		return nil, fault.InvalidFields([]fault.Field{{Path: "from", Message: fmt.Sprintf("is %d, but job %s has no finished iteration with this number", from, id)}})
	}
	now := s.now()
	again := &command.Enqueue{
		NS: c.Namespace, ID: s.ids.next(now), Queue: j.Head.Queue, Payload: j.Payload, Checkpoint: j.it.Checkpoint,
		Priority: j.Priority, Retry: j.Retry, Tags: j.Tags, TraceParent: j.TraceParent,
		Agent: j.Agent, Parent: id,
	}
	if j.Body.ExpireAt != 0 { // As long as the original had.
		again.ExpireAt = now.Add(time.Duration(j.Body.ExpireAt - j.CreatedAt)).UnixNano()
	}
	return again, nil
}
