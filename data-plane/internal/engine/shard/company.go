package shard

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// companyFor is how long a shard is taken to have several callers after entries were
	// of different namespaces.
	companyFor = time.Second
	// entryTime is how long the entry of a shard with several callers may take to apply.
	entryTime = 2 * time.Millisecond
	// entryLeast is the cost that an entry has room for however slow it is to apply.
	entryLeast = 256
)

// company bounds entries while several namespaces use the shard: what one of them has put
// into an entry, the next call of another one waits for. Alone, a caller fills entries as
// far as they go.
type company struct {
	last    job.Namespace
	until   time.Time
	perCost time.Duration // Smoothed: to apply what costs as much as a command.
}

// meet notes whose a request of an entry is.
func (c *company) meet(ns job.Namespace, now time.Time) {
	if ns == (job.Namespace{}) {
		return // It asks for nothing.
	}
	if ns != c.last && c.last != (job.Namespace{}) {
		c.until = now.Add(companyFor)
	}
	c.last = ns
}

// applied notes what an entry of that cost took to apply.
func (c *company) applied(cost int64, took time.Duration) {
	if cost < entryLeast/4 {
		return // Too small to tell.
	}
	c.perCost += (took/time.Duration(cost) - c.perCost) / 8
}

// room is the cost up to which an entry is filled.
func (c *company) room(now time.Time) int64 {
	if now.After(c.until) || c.perCost <= 0 {
		return entryCmdsMax
	}
	return min(max(int64(entryTime/c.perCost), entryLeast), entryCmdsMax)
}
