package state

import (
	"fmt"
	"strconv"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// ChainStatus is what became of a chain. Stored: append only.
type ChainStatus uint8

const (
	ChainRunning   ChainStatus = iota
	ChainCompleted             // After its last step.
	ChainExited                // A worker left out the remaining steps.
	ChainFailed                // A step is dead.
	ChainCancelled             // A step was cancelled or deleted.
	chainStatusesEnd
)

var chainStatusNames = [...]string{"running", "completed", "exited", "failed", "cancelled"}

func (s ChainStatus) String() string {
	if s < chainStatusesEnd {
		return chainStatusNames[s]
	}
	return "unknown"
}

// ChainState is how far a chain has come.
//
// Invariant: of the jobs in Jobs all but the last have ended in a way that called for
// the next one. Only the last can take the chain further, so a step is made once.
type ChainState struct {
	CreatedAt  int64
	FinishedAt int64 // 0 while it runs.
	Status     ChainStatus
	Steps      int      // That the chain has.
	Jobs       []job.ID // Of the steps made so far, in their order.
	OnFailure  job.ID   // Zero: not made.
	OnExit     job.ID   // Zero: not made.
	ExitReason string
}

func (s *ChainState) encode() []byte {
	w := newRecord(64 + 16*len(s.Jobs) + len(s.ExitReason))
	w.Int(s.CreatedAt)
	w.Int(s.FinishedAt)
	w.Byte(byte(s.Status))
	w.Uint(uint64(s.Steps))
	w.Uint(uint64(len(s.Jobs)))
	for _, id := range s.Jobs {
		w.ID(id)
	}
	w.ID(s.OnFailure)
	w.ID(s.OnExit)
	w.Text(s.ExitReason)
	return w.Buf
}

func decodeChainState(v []byte) (ChainState, error) {
	r, err := openRecord("chain state", v)
	if err != nil {
		return ChainState{}, err
	}
	s := ChainState{CreatedAt: r.Time(), FinishedAt: r.Time(), Status: ChainStatus(r.Enum(byte(chainStatusesEnd))), Steps: int(r.Uint32())}
	s.Jobs = make([]job.ID, r.Count(16))
	for i := range s.Jobs {
		s.Jobs[i] = r.ID()
	}
	s.OnFailure, s.OnExit, s.ExitReason = r.ID(), r.ID(), r.Text()
	if r.Err() == nil && (len(s.Jobs) == 0 || len(s.Jobs) > s.Steps) {
		return ChainState{}, fmt.Errorf("%w: chain state: %d jobs of %d steps", ErrRecord, len(s.Jobs), s.Steps)
	}
	return s, closeRecord("chain state", r)
}

func encodeChain(c *command.Chain) []byte {
	w := newRecord(64)
	command.EncodeChain(&w, c)
	return w.Buf
}

func decodeChain(v []byte) (*command.Chain, error) {
	r, err := openRecord("chain", v)
	if err != nil {
		return nil, err
	}
	c := command.DecodeChain(r)
	return c, closeRecord("chain", r)
}

// chainPlace is a job's place in a chain; none if the id is zero.
type chainPlace struct {
	id   job.ChainID
	step int
}

// beginChain writes the records of a chain whose first step is enqueued.
func (x *entry) beginChain(ns job.Namespace, first job.ID, c *command.Chain) {
	s := ChainState{CreatedAt: x.now, Steps: len(c.Steps), Jobs: []job.ID{first}}
	x.txn.Set(x.m.space.Chain(ns, c.ID), encodeChain(c))
	x.txn.Set(x.m.space.ChainState(ns, c.ID), s.encode())
}

func (x *entry) chainState(ns job.Namespace, id job.ChainID) (ChainState, error) {
	v, err := x.txn.Get(x.m.space.ChainState(ns, id))
	if err != nil {
		return ChainState{}, fmt.Errorf("state of %s: %w", id, err)
	}
	return decodeChainState(v)
}

func (x *entry) chainSteps(ns job.Namespace, id job.ChainID) (*command.Chain, error) {
	v, err := x.txn.Get(x.m.space.Chain(ns, id))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return decodeChain(v)
}

// advance takes a chain on from a step that ended. Only the furthest step can, and
// only once: a step that is retried after that has no second follower.
func (x *entry) advance(d *delivery) error {
	id, step := d.body.Chain, d.body.ChainStep
	if step < 0 {
		return nil // Nothing follows on what comes last.
	}
	s, err := x.chainState(d.ns, id)
	if err != nil {
		return err
	}
	if step != len(s.Jobs)-1 || s.Status != ChainRunning {
		return nil
	}
	c, err := x.chainSteps(d.ns, id)
	if err != nil {
		return err
	}
	switch {
	case d.outcome == OutcomeCompleted && d.exit:
		err = x.endChain(d, c, &s, ChainExited)
	case d.outcome == OutcomeCompleted, d.outcome == OutcomeDead && c.GoOn:
		err = x.nextStep(d, c, &s)
	case d.outcome == OutcomeDead:
		err = x.failChain(d, c, &s)
	default:
		s.Status, s.FinishedAt = ChainCancelled, x.now
	}
	if err != nil {
		return err
	}
	x.txn.Set(x.m.space.ChainState(d.ns, id), s.encode())
	return nil
}

// nextStep makes the step after d's, or ends the chain after its last.
func (x *entry) nextStep(d *delivery, c *command.Chain, s *ChainState) error {
	n := len(s.Jobs)
	if n == s.Steps {
		return x.endChain(d, c, s, ChainCompleted)
	}
	id := job.Derived(x.now, c.ID, uint64(n))
	s.Jobs = append(s.Jobs, id)
	return x.followStep(d, id, &c.Steps[n], chainPlace{c.ID, n})
}

// followStep enqueues a job that is told what the one before brought.
func (x *entry) followStep(d *delivery, id job.ID, step *command.Step, place chainPlace) error {
	base := []member{textMember("previous_job_id", d.id.String())}
	if d.outcome == OutcomeCompleted && d.head.has(flagResult) {
		result, err := x.txn.Get(x.m.space.Job(d.ns, keys.Result, d.id))
		if err != nil {
			return fmt.Errorf("result of job %s: %w", d.id, err)
		}
		base = append(base, member{"previous_result", result})
	}
	return x.follow(d, id, step, overlay(base, step.Payload), place)
}

// endChain ends a chain as it was meant to.
func (x *entry) endChain(d *delivery, c *command.Chain, s *ChainState, status ChainStatus) error {
	s.Status, s.FinishedAt, s.ExitReason = status, x.now, d.reason
	if c.OnExit == nil || !s.OnExit.IsZero() {
		return nil
	}
	s.OnExit = job.Derived(x.now, c.ID, derivedOnExit)
	return x.followStep(d, s.OnExit, c.OnExit, chainPlace{c.ID, ChainOnExit})
}

// failChain ends a chain at a dead step. When the step is retried the chain goes on,
// but its on_failure job runs once in the chain's life.
func (x *entry) failChain(d *delivery, c *command.Chain, s *ChainState) error {
	s.Status, s.FinishedAt = ChainFailed, x.now
	if c.OnFailure == nil || !s.OnFailure.IsZero() {
		return nil
	}
	s.OnFailure = job.Derived(x.now, c.ID, derivedOnFailure)
	base := []member{
		textMember("failed_job_id", d.id.String()),
		{"failed_step", strconv.AppendInt(nil, int64(d.body.ChainStep), 10)},
		textMember("error", d.failure),
	}
	return x.follow(d, s.OnFailure, c.OnFailure, overlay(base, c.OnFailure.Payload), chainPlace{c.ID, ChainOnFailure})
}

// Numbers by which the jobs of a chain that are no steps are derived.
const (
	derivedOnExit    = 1 << 32
	derivedOnFailure = derivedOnExit + 1
)

// resumeChain lets a chain go on whose furthest step runs again.
func (x *entry) resumeChain(ns job.Namespace, id job.ID, b *Body) error {
	if b.ChainStep < 0 {
		return nil
	}
	s, err := x.chainState(ns, b.Chain)
	if err != nil {
		return err
	}
	if s.Jobs[len(s.Jobs)-1] != id || s.Status != ChainFailed && s.Status != ChainCancelled {
		return nil
	}
	s.Status, s.FinishedAt = ChainRunning, 0
	x.txn.Set(x.m.space.ChainState(ns, b.Chain), s.encode())
	return nil
}
