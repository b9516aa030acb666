package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// recordError counts a failed attempt, and keeps what the worker said of it.
func (x *entry) recordError(c *command.Fail, j *subject) {
	if c.Error != "" || c.Backtrace != "" {
		x.addError(j, records.AttemptError{Attempt: j.Attempt, At: x.now, Error: c.Error, Backtrace: c.Backtrace, Worker: j.Worker})
	}
	x.countFailure(j)
}

func (x *entry) countFailure(j *subject) {
	q := x.queue(j.ns, j.Queue)
	j.FailedAt = x.now
	x.touched(q).Failed++
}

func (x *entry) addError(j *subject, e records.AttemptError) {
	j.Flags |= records.FlagErrors
	x.txn.SetNew(x.m.space.AttemptError(j.ns, j.id, x.place()), e.Encode())
}
