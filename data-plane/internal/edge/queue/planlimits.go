package queue

import (
	"fmt"
	"math"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Names of the limits of a plan, as the cell's records have them.
const (
	limitPerSecond   = "enqueue_per_second"
	limitOpenJobs    = "open_jobs_max"
	limitStoredBytes = "stored_bytes_max"
)

// PlanLimits are what the plan of a namespace's tenant allows in each of its namespaces; 0 is
// unlimited.
type PlanLimits struct {
	// PerSecond is how many jobs may be enqueued a second, and Burst how many at once after
	// a pause; 0 is those of a second.
	PerSecond, Burst int64
	// OpenJobs that haven't ended, and StoredBytes of payloads and results.
	OpenJobs, StoredBytes int64
	Hold                  PlanHold
}

// PlanHold is what is held back until the tenant's plan, spend limit or payment allows it
// again.
type PlanHold struct {
	Dispatch, Enqueue bool
	Limit             string // Its name.
	Value             int64  // 0 if it has none.
	Until             time.Time
}

// HeldUntil is when, in calendar time, dispatch is held no longer: 0 if it isn't held, and
// math.MaxInt64 if it doesn't open by itself.
func (h *PlanHold) HeldUntil() int64 {
	switch {
	case !h.Dispatch:
		return 0
	case h.Until.IsZero():
		return math.MaxInt64
	default:
		return h.Until.UnixNano()
	}
}

// over: the hold has ended by itself; the cell's state may not say so yet.
func (h *PlanHold) over(now time.Time) bool { return !h.Until.IsZero() && !now.Before(h.Until) }

// because is why, as the rest of a sentence.
func (h *PlanHold) because() string {
	if h.Value == 0 {
		return " because of " + h.Limit
	}
	return fmt.Sprintf(": the plan's limit %s (%d) is reached", h.Limit, h.Value)
}

// seeConsole ends what a limit of the plan is the reason for.
const seeConsole = "see plan and usage in the console"

// heldPause is when to come back to what does not open by itself: somebody has to pay, or to
// change the plan.
const heldPause = time.Minute

// refusesEnqueue is why nothing may be enqueued at now, or nil.
func (h *PlanHold) refusesEnqueue(now time.Time) error {
	if !h.Enqueue || h.over(now) {
		return nil
	}
	e := &fault.Error{
		Code: fault.Exhausted, Reason: string(wire.CodePlanLimit), RetryAfter: heldPause,
		Limit: &fault.Limit{Name: h.Limit, Value: h.Value, OpensAt: h.Until},
	}
	opens := ""
	if !h.Until.IsZero() {
		e.RetryAfter, opens = h.Until.Sub(now), ", and new jobs are accepted again at "+h.Until.UTC().Format(time.RFC3339)
	}
	e.Message = fmt.Sprintf("enqueueing is held%s; nothing was enqueued%s; to raise it, %s", h.because(), opens, seeConsole)
	return e
}

// heldWait is the longest wait of a fetch that begins while dispatch is held: its worker is
// to learn soon why nothing comes.
const heldWait = 5 * time.Second

// DispatchHeld is why no attempt of the namespace's jobs begins for now; nil if they do.
func (s *Service) DispatchHeld(ns job.Namespace) *wire.DispatchHeld {
	h := s.gate.limits(ns).Hold
	if !h.Dispatch || h.over(s.now()) {
		return nil
	}
	return &wire.DispatchHeld{Limit: h.Limit, Value: h.Value, OpensAt: h.Until.UTC(), Message: "dispatch is held" + h.because() + "; " + seeConsole}
}
