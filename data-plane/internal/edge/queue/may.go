package queue

import (
	"errors"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Lacks refuses what the caller may not do: in a queue, or in the namespace if queue is "".
func (c *Caller) Lacks(p permission.Permission, queue string) error {
	c.refused(p, queue)
	place := "in this namespace"
	if queue != "" {
		place = "on queue " + clip(queue)
	}
	return fault.New(fault.Forbidden, "FORBIDDEN", "this credential doesn't have the permission %s %s; ask an admin of the tenant for a role with it", p, place)
}

// refused notes a refusal. A name that no queue can have is cut: callers choose it. The
// function gets a copy, so that a caller who is refused nothing stays on the stack.
func (c *Caller) refused(p permission.Permission, queue string) {
	if c.Refused != nil {
		c.Refused(*c, p, cut(queue, QueueNameBytesMax))
	}
}

// may refuses what the caller may not do in a queue that it named itself: the answer does
// not depend on what there is.
func (c *Caller) may(p permission.Permission, queue string) error {
	if c.Rights.Queue(p, queue) {
		return nil
	}
	return c.Lacks(p, queue)
}

// mayOn refuses what the caller may not do to something in a queue. In a queue where it may
// do nothing at all, that is missing.
func (c *Caller) mayOn(p permission.Permission, queue string, missing error) error {
	switch {
	case c.Rights.Queue(p, queue):
		return nil
	case c.knows(queue):
		return c.Lacks(p, queue)
	}
	c.refused(p, queue)
	return missing
}

// knows reports whether the caller may do anything in a queue.
func (c *Caller) knows(queue string) bool {
	return slices.ContainsFunc(permission.OfLevel(permission.OfQueue).List(), func(p permission.Permission) bool { return c.Rights.Queue(p, queue) })
}

// only is the patterns of the queues in which the caller may do all of what; everywhere
// says that it may in every queue. What two patterns both match, one of them matches.
func (c *Caller) only(what ...permission.Permission) (patterns []string, everywhere bool) {
	if !slices.ContainsFunc(what, func(p permission.Permission) bool { return !c.Rights.Everywhere(p) }) {
		return nil, true
	}
	for i := range c.Rights.Some {
		for _, pattern := range c.Rights.Some[i].Queues {
			// A pattern is in a pattern as a name is.
			if !slices.ContainsFunc(what, func(p permission.Permission) bool { return !c.Rights.Queue(p, pattern) }) && !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	return patterns, false
}

// within limits a list to the queues in which the caller may do all of what. A queue that
// is asked for must be one of them; nil patterns are all queues.
func (c *Caller) within(queue string, what ...permission.Permission) (patterns []string, err error) {
	if queue != "" {
		for _, p := range what {
			if err := c.may(p, queue); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	patterns, everywhere := c.only(what...)
	if !everywhere && len(patterns) == 0 {
		return nil, c.Lacks(what[slices.IndexFunc(what, func(p permission.Permission) bool { return !c.Rights.Everywhere(p) })], "")
	}
	return patterns, nil
}

// mayTouch is mayOn for a job by its id. Whoever may in every queue isn't asked for more.
func (s *Service) mayTouch(c *Caller, p permission.Permission, id job.ID) error {
	if c.Rights.Everywhere(p) {
		return nil
	}
	h, err := stateread.ReadHead(s.shard.Store(), c.Namespace, id)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil // The command itself finds nothing.
	}
	if err != nil {
		return err
	}
	return c.mayOn(p, h.Queue, errNoJob(id))
}

// mayEnqueue refuses a job for a queue in which the caller may not enqueue, the queues of
// later steps included. It cannot depend on a job of which the caller may know nothing.
func (s *Service) mayEnqueue(c *Caller, path string, in *EnqueueInput) error {
	if c.Rights.Everywhere(permission.JobEnqueue) {
		return nil
	}
	for _, queue := range in.queues() {
		if err := c.may(permission.JobEnqueue, queue); err != nil {
			return err
		}
	}
	for _, text := range in.DependsOn {
		id, err := job.ParseID(text)
		if err != nil {
			continue // Refused by Check.
		}
		h, err := stateread.ReadHead(s.shard.Store(), c.Namespace, id)
		switch {
		case errors.Is(err, statedb.ErrNotFound):
		case err != nil:
			return err
		case !c.knows(h.Queue):
			return enqueueRefusal(path, in, &state.Result{Refusal: state.NoDependency, ID: id})
		}
	}
	return nil
}

// queues are all that the job, or what follows from it, is for.
func (in *EnqueueInput) queues() []string {
	out := []string{in.Queue}
	if in.Chain == nil {
		return out
	}
	for i := range in.Chain.Steps {
		if q := in.Chain.Steps[i].Queue; q != "" { // The first may leave it out.
			out = append(out, q)
		}
	}
	if in.Chain.OnFailure != nil {
		out = append(out, in.Chain.OnFailure.Queue)
	}
	if in.Chain.OnExit != nil {
		out = append(out, in.Chain.OnExit.Queue)
	}
	return out
}

// mayFetch refuses a fetch from a queue whose jobs the caller may not have.
func (c *Caller) mayFetch(queues []string) error {
	for _, q := range queues {
		if err := c.may(permission.JobFetch, q); err != nil {
			return err
		}
	}
	return nil
}

// mayCallBack is for the options of a batch, whose callback is a job, too.
func (c *Caller) mayCallBack(queue string) error {
	if queue == "" {
		return nil
	}
	return c.may(permission.JobEnqueue, queue)
}
