package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// recordError counts a failed attempt, and keeps what the worker said of it.
func (x *entry) recordError(c *command.Fail, h *records.Head) error {
	if c.Error != "" || c.Backtrace != "" {
		x.addError(c.NS, c.ID, h, records.AttemptError{Attempt: h.Attempt, At: x.now, Error: c.Error, Backtrace: c.Backtrace, Worker: h.Worker})
	}
	return x.countFailure(c.NS, h)
}

func (x *entry) countFailure(ns job.Namespace, h *records.Head) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	h.FailedAt = x.now
	x.touched(q).Failed++
	return nil
}

func (x *entry) addError(ns job.Namespace, id job.ID, h *records.Head, e records.AttemptError) {
	h.Flags |= records.FlagErrors
	x.txn.SetNew(x.m.space.AttemptError(ns, id, x.place()), e.Encode())
}
