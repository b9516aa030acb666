package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of chains, batches and dependencies.
const (
	ChainStepsMin      = 2
	ChainStepsMax      = 100
	DependsOnMax       = 100
	ExitReasonBytesMax = 4 << 10
)

// ChainInput is the steps after a job, which is itself the first step.
type ChainInput struct {
	Steps     []wire.ChainStep
	OnFailure *wire.ChainStep
	OnExit    *wire.ChainStep
	// GoOn: the step after a dead one runs anyway.
	GoOn bool
}

// validateGroups lists what is wrong with the parts of an enqueue that name other jobs.
func (in *EnqueueInput) validateGroups(c Caller) []fault.Field {
	var bad checker
	if in.Chain != nil {
		bad.chain(in.Chain, in.Queue, c.payloadMax())
		if s := in.Chain.Steps; len(s) > 0 && !saysNothing(in.Payload) && !saysNothing(s[0].Payload) && !sameJSON(in.Payload, s[0].Payload) {
			bad.failf("chain.steps[0].payload", "differs from the job's payload, but the job is the first step; send one of them")
		}
	}
	if len(in.DependsOn) > DependsOnMax {
		bad.failf("depends_on", "%s", rangeMessage("jobs", 0, DependsOnMax, len(in.DependsOn)))
	}
	seen := make(map[string]bool, len(in.DependsOn))
	for i, text := range in.DependsOn {
		path := fmt.Sprintf("depends_on[%d]", i)
		if _, err := job.ParseID(text); err != nil {
			bad.failf(path, "is not a job id")
		}
		if seen[text] {
			bad.failf(path, "repeats an earlier id")
		}
		seen[text] = true
	}
	if _, ok := wordIn(wire.DependencyPolicies(), in.OnDependencyFailed); !ok {
		bad.failf("on_dependency_failed", "is %q, must be fail, run or cancel", clip(in.OnDependencyFailed))
	}
	if in.OnDependencyFailed != "" && len(in.DependsOn) == 0 {
		bad.failf("on_dependency_failed", "requires depends_on")
	}
	if in.BatchID != "" { // Most jobs have none, and an error costs more than the rest of the checks.
		if _, err := job.ParseBatchID(in.BatchID); err != nil {
			bad.failf("batch_id", "is not a batch id")
		}
	}
	return bad
}

func (c Caller) payloadMax() int {
	if c.PayloadBytesMax == 0 {
		return PayloadBytesMax
	}
	return c.PayloadBytesMax
}

func (c *checker) chain(in *ChainInput, queueName string, payloadMax int) {
	if n := len(in.Steps); n < ChainStepsMin || n > ChainStepsMax {
		c.failf("chain.steps", "%s", rangeMessage("steps", ChainStepsMin, ChainStepsMax, n))
	}
	for i := range in.Steps {
		s := in.Steps[i]
		path := fmt.Sprintf("chain.steps[%d]", i)
		if i == 0 && s.Queue == "" {
			s.Queue = queueName
		}
		c.step(path, &s, payloadMax)
		if i == 0 && s.Queue != queueName {
			c.failf(path+".queue", "differs from the job's queue, but the job is the first step")
		}
	}
	if in.OnFailure != nil {
		c.step("chain.on_failure", in.OnFailure, payloadMax)
	}
	if in.OnExit != nil {
		c.step("chain.on_exit", in.OnExit, payloadMax)
	}
}

func (c *checker) step(path string, s *wire.ChainStep, payloadMax int) {
	if msg := checkQueueName(s.Queue); msg != "" {
		c.failf(path+".queue", "%s", msg)
	}
	*c = append(*c, checkJSON(path+".payload", s.Payload, payloadMax)...)
}

// checkCallback lists what is wrong with the options of a batch.
func checkCallback(c Caller, o *wire.BatchOptions) checker {
	var bad checker
	if o.CallbackQueue != "" {
		bad.step("callback", &wire.ChainStep{Queue: o.CallbackQueue, Payload: o.CallbackPayload}, c.payloadMax())
		for i := range bad {
			bad[i].Path = map[string]string{"callback.queue": "callback_queue", "callback.payload": "callback_payload"}[bad[i].Path]
		}
	} else if said(o.CallbackPayload) != nil {
		bad.failf("callback_payload", "requires callback_queue")
	}
	return bad
}

func callbackOf(o *wire.BatchOptions) *command.Step {
	if o.CallbackQueue == "" {
		return nil
	}
	return &command.Step{Queue: o.CallbackQueue, Payload: said(o.CallbackPayload)}
}

// stampGroups fills in a job's ties to others, which are validated.
func (s *Service) stampGroups(in *EnqueueInput, cmd *command.Enqueue) {
	if in.BatchID != "" {
		cmd.Batch, _ = job.ParseBatchID(in.BatchID) // Validated.
	}
	for _, text := range in.DependsOn {
		id, _ := job.ParseID(text) // Validated.
		cmd.DependsOn = append(cmd.DependsOn, id)
	}
	policy, _ := wordIn(wire.DependencyPolicies(), in.OnDependencyFailed)
	cmd.OnDependency = command.DependencyPolicy(policy)
	if in.Chain == nil {
		return
	}
	cmd.Chain = &command.Chain{
		ID: job.ChainID(s.ids.next(s.now())), GoOn: in.Chain.GoOn,
		OnFailure: stepOf(in.Chain.OnFailure), OnExit: stepOf(in.Chain.OnExit),
		Steps: make([]command.Step, len(in.Chain.Steps)),
	}
	for i := range in.Chain.Steps {
		cmd.Chain.Steps[i] = *stepOf(&in.Chain.Steps[i])
	}
	first := &cmd.Chain.Steps[0]
	if saysNothing(cmd.Payload) && first.Payload != nil {
		cmd.Payload = first.Payload
	}
	first.Queue, first.Payload = in.Queue, nil // The job itself has it.
}

// saysNothing: clients send {} for a payload that was not given.
func saysNothing(payload json.RawMessage) bool {
	return said(payload) == nil || sameJSON(payload, json.RawMessage(`{}`))
}

// sameJSON reports whether two texts are the same but for white space.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func stepOf(in *wire.ChainStep) *command.Step {
	if in == nil {
		return nil
	}
	return &command.Step{Queue: in.Queue, Payload: said(in.Payload)}
}

// enqueueRefusal is why a job is refused, or nil. Its fields are named with prefix in
// front. It is never a Conflict: clients of generation 2 take that for a held unique
// key, and would believe that the job exists.
func enqueueRefusal(prefix string, in *EnqueueInput, r *state.Result) error {
	refuse := func(code fault.Code, reason, message, field, what string) error {
		return &fault.Error{Code: code, Reason: reason, Message: message, Fields: []fault.Field{{Path: prefix + field, Message: what}}}
	}
	switch r.Refusal {
	case state.Accepted:
		return nil
	case state.Draining:
		return refuse(fault.Invalid, "QUEUE_DRAINING",
			"queue "+in.Queue+" is draining: it takes no new jobs until it is resumed", "queue", "is draining")
	case state.NoDependency:
		return refuse(fault.NotFound, "NOT_FOUND", "a job in depends_on does not exist", in.dependencyPath(r.ID), "does not exist in this namespace")
	case state.TooMany:
		return refuse(fault.Invalid, "TOO_MANY_DEPENDENTS", "too many jobs depend on the same job", in.dependencyPath(r.ID),
			fmt.Sprintf("already has %d jobs that depend on it", state.DependentsMax))
	case state.NoBatch:
		return refuse(fault.NotFound, "NOT_FOUND", "the batch does not exist", "batch_id", "does not exist in this namespace")
	case state.BatchClosed:
		return refuse(fault.Invalid, "BATCH_CLOSED", "the batch is sealed, so no more jobs can join it", "batch_id", "is sealed")
	case state.BudgetSpent:
		return errBudgetSpent(prefix, time.Now())
	default:
		panic(fmt.Sprintf("queue: an enqueue was refused with %d", r.Refusal))
	}
}

func (in *EnqueueInput) dependencyPath(id job.ID) string {
	for i, text := range in.DependsOn {
		if text == id.String() {
			return fmt.Sprintf("depends_on[%d]", i)
		}
	}
	return "depends_on"
}
