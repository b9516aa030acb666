package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// prioritize gives a job that waits another priority. A pending one takes its place at
// the end of that order; of the others only the head changes. A priority that it has
// already costs it nothing, least of all its place.
func (x *entry) prioritize(c *command.Prioritize) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if h.State.Leased() || h.State.Terminal() {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	if h.Priority == c.Priority {
		return Result{State: h.State}, nil
	}
	if err := x.replace(c.NS, c.ID, &h, h.Queue, c.Priority); err != nil {
		return Result{}, err
	}
	h.Note(records.WasPrioritized, x.now)
	x.event(feed.Prioritized, c.NS, c.ID, &h)
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}
