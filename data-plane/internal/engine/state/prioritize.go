package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
)

// prioritize gives a job that waits another priority. A pending one takes its place at
// the end of that order; of the others only the head changes. A priority that it has
// already costs it nothing, least of all its place.
func (x *entry) prioritize(c *command.Prioritize) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if j.State.Leased() || j.State.Terminal() {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	if j.Priority == c.Priority {
		return Result{State: j.State}, nil
	}
	if err := x.replace(&j, j.Queue, c.Priority); err != nil {
		return Result{}, err
	}
	x.happened(feed.Prioritized, &j)
	x.put(&j)
	return Result{State: j.State}, nil
}
