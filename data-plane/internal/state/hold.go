package state

import (
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// A held job waits for a person. Its record says why, and in the end who decided;
// it stays with the job, so that one can read later what was decided.

// Decision ends a hold. Stored: append only.
type Decision uint8

const (
	Undecided Decision = iota
	Approved
	Rejected
)

var decisions = [...]string{"", "approved", "rejected"}

func (d Decision) String() string {
	if int(d) < len(decisions) {
		return decisions[d]
	}
	return "unknown"
}

// Hold is why a job is or was held, and what was decided.
type Hold struct {
	Reason string
	By     string // Who asked; "" if a rule did.
	At     int64
	// Until is when the wait is over at the latest, 0 for never; then the job is
	// approved if ApproveAtLast, else rejected.
	Until         int64
	ApproveAtLast bool
	Policy        job.PolicyID // That asked for it; zero if none did.
	Approvers     []string     // Who may decide; empty: everybody who may operate.

	Decision  Decision
	DecidedBy string // "" if the time was over.
	Comment   string
	DecidedAt int64
}

func (h *Hold) encode() []byte {
	w := newRecord(64 + len(h.Reason) + len(h.Comment))
	w.Text(h.Reason)
	w.Text(h.By)
	w.Int(h.At)
	w.Int(h.Until)
	w.Bool(h.ApproveAtLast)
	w.ID(h.Policy)
	w.Uint(uint64(len(h.Approvers)))
	for _, a := range h.Approvers {
		w.Text(a)
	}
	w.Byte(byte(h.Decision))
	w.Text(h.DecidedBy)
	w.Text(h.Comment)
	w.Int(h.DecidedAt)
	return w.Buf
}

func decodeHold(v []byte) (Hold, error) {
	r, err := openRecord("hold", v)
	if err != nil {
		return Hold{}, err
	}
	h := Hold{Reason: r.Text(), By: r.Text(), At: r.Time(), Until: r.Time(), ApproveAtLast: r.Bool(), Policy: r.ID()}
	h.Approvers = decodeTexts(r)
	h.Decision, h.DecidedBy, h.Comment, h.DecidedAt = Decision(r.Byte()), r.Text(), r.Text(), r.Time()
	return h, closeRecord("hold", r)
}

func decodeTexts(r *codec.Reader) []string {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.Text()
	}
	return out
}

// holdJob stops a job: at once if it waits, else when its worker lets go of it. Again
// is the same answer.
func (x *entry) holdJob(c *command.Hold) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	why := Hold{Reason: c.Reason, By: c.By, At: x.now}
	switch h.State {
	case job.Held:
		return Result{State: h.State}, nil
	case job.Cancelling:
		if h.has(flagHoldNext) {
			return Result{State: h.State}, nil
		}
		return Result{Refusal: WrongState, State: h.State}, nil
	case job.Active:
		err = x.holdNext(c.NS, c.ID, &h, why)
	case job.Pending, job.Scheduled, job.Retrying:
		x.leavingReady(c.NS, c.ID, &h)
		if err = x.leave(c.NS, c.ID, &h); err == nil {
			err = x.hold(c.NS, c.ID, &h, why)
		}
	default:
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

// hold puts a job that left its former state, or is new, into held.
func (x *entry) hold(ns job.Namespace, id job.ID, h *Head, why Hold) error {
	x.putHold(ns, id, h, &why)
	if why.Until != 0 {
		h.Due = max(why.Until, x.now)
		x.addDue(keys.Due{At: h.Due, Kind: keys.DueHold, NS: ns, ID: id}, nil)
	}
	if err := x.enter(ns, h, job.Held); err != nil {
		return err
	}
	h.note(WasHeld, x.now)
	x.event(feed.Held, ns, id, h)
	return nil
}

// holdNext asks the worker of an active job to let go of it; then it is held.
func (x *entry) holdNext(ns job.Namespace, id job.ID, h *Head, why Hold) error {
	x.putHold(ns, id, h, &why)
	if err := x.askToLetGo(ns, id, h); err != nil {
		return err
	}
	h.flags |= flagHoldNext
	return nil
}

// holdLetGo holds a job whose worker was asked to let go of it for that. The attempt
// was not the job's fault: it does not count.
func (x *entry) holdLetGo(ns job.Namespace, id job.ID, h *Head) error {
	why, err := x.heldFor(ns, id)
	if err != nil {
		return err
	}
	h.Attempt--
	return x.hold(ns, id, h, why)
}

func (x *entry) putHold(ns job.Namespace, id job.ID, h *Head, why *Hold) {
	h.flags |= flagHold
	x.txn.Set(x.m.space.Job(ns, keys.Hold, id), why.encode())
}

// heldFor reads the hold record of a job that has one.
func (x *entry) heldFor(ns job.Namespace, id job.ID) (Hold, error) {
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Hold, id))
	if err != nil {
		return Hold{}, fmt.Errorf("hold of job %s: %w", id, err)
	}
	return decodeHold(v)
}

// decide ends the hold of a job by what a person says.
func (x *entry) decide(c *command.Decide) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if h.State != job.Held {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	why, err := x.heldFor(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	if len(why.Approvers) > 0 && !slices.Contains(why.Approvers, c.By) {
		return Result{Refusal: NotApprover, State: h.State}, nil
	}
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	why.DecidedBy, why.Comment = c.By, c.Comment
	if err := x.endHold(c.NS, c.ID, &h, why, c.Approve); err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

// endHold lets a job that left held run, or ends it.
func (x *entry) endHold(ns job.Namespace, id job.ID, h *Head, why Hold, approve bool) error {
	why.DecidedAt = x.now
	if approve {
		why.Decision = Approved
		x.putHold(ns, id, h, &why)
		if err := x.enterPending(ns, id, h); err != nil {
			return err
		}
		h.note(WasApproved, x.now)
		x.event(feed.Approved, ns, id, h)
		return nil
	}
	why.Decision = Rejected
	x.putHold(ns, id, h, &why)
	h.note(WasRejected, x.now)
	if err := x.endDead(ns, id, h, DeadRejected); err != nil {
		return err
	}
	x.event(feed.Rejected, ns, id, h)
	x.event(feed.Dead, ns, id, h)
	return nil
}

// holdTimedOut does what was said for the case that nobody decides.
func (x *entry) holdTimedOut(ns job.Namespace, id job.ID, h *Head) error {
	why, err := x.heldFor(ns, id)
	if err != nil {
		return err
	}
	return x.endHold(ns, id, h, why, why.ApproveAtLast)
}
