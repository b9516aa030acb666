package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// bond is what a Together said about the commands that follow it.
type bond struct {
	left int     // So many commands are still to come.
	why  Refusal // They are refused for this; Accepted if they are not.
	// asked: the command being applied was admitted before the first of its group.
	asked bool
	// made are the batches that the group makes, while it is looked at.
	made map[batchKey]bool
	// first is the first answer to a call that is repeated: all its enqueues were made
	// before, and its other commands do nothing. Nil if it is not.
	first *Result
}

type batchKey struct {
	ns job.Namespace
	id job.BatchID
}

// together looks at all its commands before the first of them is applied. None of them
// can be refused for what another of them does: of a limit, a call goes over by less
// than its own size.
func (x *entry) together(c *command.Together, rest []command.Command) (Result, error) {
	x.bond = bond{left: min(int(c.Count), len(rest)), made: make(map[batchKey]bool)}
	defer func() { x.bond.made = nil }() // Another group of the entry does not make them.
	fresh := false
	for i, c := range rest[:x.bond.left] {
		first, why, err := x.refuses(c)
		if err != nil {
			return Result{}, err
		}
		if why != Accepted {
			x.bond.why = why
			return Result{Refusal: why, ID: x.refusedFor, Culprit: uint32(i)}, nil
		}
		if _, enqueue := c.(*command.Enqueue); enqueue && first == nil {
			fresh = true
		} else if x.bond.first == nil {
			x.bond.first = first
		}
	}
	if fresh {
		x.bond.first = nil
	}
	return Result{}, nil
}

// refuses reports whether a command would be refused as the state is now, or the first
// answer to an enqueue that is repeated.
func (x *entry) refuses(c command.Command) (first *Result, why Refusal, err error) {
	if ended, err := x.isEnded(c); err != nil || ended {
		return nil, NamespaceGone, err
	}
	switch c := c.(type) {
	case *command.Enqueue:
		res, known, err := x.known(c)
		if err != nil || known && !res.Replayed {
			return nil, Accepted, err
		}
		if known {
			return &res, Accepted, nil
		}
		why, err = x.admits(c)
		return nil, why, err
	case *command.MakeBatch:
		x.bond.made[batchKey{c.NS, c.ID}] = true
		why, err = x.refusesBatch(c)
		return nil, why, err
	default:
		return nil, Accepted, nil
	}
}
