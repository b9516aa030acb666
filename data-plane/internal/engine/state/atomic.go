package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// callGroup is what an Atomic said about the commands that follow it.
type callGroup struct {
	left int     // So many commands are still to come, all admitted
	why  Refusal // unless they are refused for this.
	// first is the first answer to a call that is repeated: all its enqueues were made
	// before, and its other commands do nothing. Nil if it is not.
	first *Result
}

// batches are those that a group makes, while it is looked at.
type batches map[batchKey]bool

type batchKey struct {
	ns job.Namespace
	id job.BatchID
}

// atomic looks at all its commands before the first of them is applied. None of them
// can be refused for what another of them does: of a limit, a call goes over by less
// than its own size.
func (x *entry) atomic(c *command.Atomic, rest []command.Command) (g callGroup, _ Result) {
	g.left = min(int(c.Count), len(rest))
	made, fresh := make(batches), false
	for i, c := range rest[:g.left] {
		res, repeated := x.foresee(c, made)
		if res.Refusal != Accepted {
			g.why, res.Culprit = res.Refusal, uint32(i)
			return g, res
		}
		if _, enqueue := c.(*command.Enqueue); enqueue && !repeated {
			fresh = true
		} else if repeated && g.first == nil {
			g.first = &res
		}
	}
	if fresh {
		g.first = nil
	}
	return g, Result{}
}

// foresee reports whether a command would be refused as the state is now, or the first
// answer to an enqueue that is repeated.
func (x *entry) foresee(c command.Command, made batches) (res Result, repeated bool) {
	if x.isEnded(c) {
		return Result{Refusal: NamespaceGone}, false
	}
	switch c := c.(type) {
	case *command.Enqueue:
		res, known := x.known(c)
		if res.Replayed {
			return res, known
		}
		if !known {
			res.Refusal, res.ID = x.admits(c, made)
			return res, false
		}
	case *command.MakeBatch:
		made[batchKey{c.NS, c.ID}] = true
		res.Refusal = x.refusesBatch(c)
		return res, false
	}
	return Result{}, false
}
