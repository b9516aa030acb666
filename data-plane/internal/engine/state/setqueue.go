package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
)

// setQueue makes a queue exist, jobs or none, and changes the settings the command
// names, unless the caller has seen others. What changes nothing is no event.
func (x *entry) setQueue(c *command.SetQueue) Result {
	q := x.queue(c.NS, c.Queue)
	if c.IfSettings != 0 && (!q.hasConfig || q.config.Fingerprint() != c.IfSettings) {
		return Result{Refusal: Changed}
	}
	made := !q.hasConfig
	x.exist(q)
	was := q.config
	if c.Set&command.SetPaused != 0 {
		q.config.Paused = c.Paused
	}
	if c.Set&command.SetConcurrency != 0 {
		q.config.MaxConcurrency = c.MaxConcurrency
	}
	if c.Set&command.SetThrottle != 0 {
		x.setThrottle(q, c.Throttle)
	}
	if c.Set&command.SetDraining != 0 {
		q.config.Draining = c.Draining
	}
	if c.Set&command.SetRetry != 0 {
		q.config.Retry, q.config.RetrySet = command.RetryPolicy{}, c.RetrySet
		take(&q.config.Retry, c.Retry, c.RetrySet)
	}
	if c.Set&command.SetRetention != 0 {
		q.config.Retention = c.Retention
	}
	if q.config.Paused != was.Paused {
		x.queueEvent(pauseEvent(q.config.Paused), q)
	}
	if q.config.Draining != was.Draining {
		x.queueEvent(drainEvent(q.config.Draining), q)
	}
	was.Paused, was.Draining = q.config.Paused, q.config.Draining
	if made || q.config != was {
		x.queueEvent(feed.QueueUpdated, q)
	}
	return Result{}
}

// setThrottle keeps what was counted: a throttle that is changed does not begin anew.
func (x *entry) setThrottle(q *queueRecord, t command.Throttle) {
	if t.IsZero() {
		t = command.Throttle{}
		if len(q.counts.Starts) > 0 {
			x.touched(q).Starts = nil
		}
	}
	q.config.Throttle = t
}
