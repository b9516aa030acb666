package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// retryOf is the retry policy of a new job: what its producer left open is for the
// queue to say, and for the defaults where that says nothing.
func retryOf(c *command.Enqueue, q *records.QueueConfig) command.RetryPolicy {
	open := openParts(c)
	if open == 0 {
		return c.Retry
	}
	p := c.Retry
	take(&p, command.DefaultRetry(), open)
	take(&p, q.Retry, open&q.RetrySet)
	return p
}

// openParts: who says nothing of attempts, and does not name what is open, says nothing
// at all.
func openParts(c *command.Enqueue) command.RetryParts {
	switch {
	case c.RetryOpen != 0:
		return c.RetryOpen
	case c.Retry.MaxRetries == 0:
		return command.RetryAll
	default:
		return 0
	}
}

// take copies the named parts.
func take(p *command.RetryPolicy, from command.RetryPolicy, parts command.RetryParts) {
	if parts&command.RetryMax != 0 {
		p.MaxRetries = from.MaxRetries
	}
	if parts&command.RetryBackoff != 0 {
		p.Backoff = from.Backoff
	}
	if parts&command.RetryBaseDelay != 0 {
		p.BaseDelay = from.BaseDelay
	}
	if parts&command.RetryMaxDelay != 0 {
		p.MaxDelay = from.MaxDelay
	}
}
