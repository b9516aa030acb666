package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
)

// prioritize gives a job that waits another priority. A pending one takes its place at
// the end of that order; of the others only the head changes. A priority that it has
// already costs it nothing, least of all its place.
func (x *entry) prioritize(c *command.Prioritize) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if j.State.Leased() || j.State.Terminal() {
		return Result{Refusal: WrongState, State: j.State}
	}
	if j.Priority == c.Priority {
		return Result{State: j.State}
	}
	x.replace(&j, j.Queue, c.Priority)
	x.happened(feed.Prioritized, &j)
	x.put(&j)
	return Result{State: j.State}
}
