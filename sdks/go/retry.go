package corvo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Retries bound how long a call tries again by itself. The default outlives an
// election of a new leader several times over.
type Retries struct {
	// Total is the time after which no new try begins; 0 means 30 s, negative
	// turns retries off.
	Total time.Duration
	// First and Most bound the pause, which doubles and is drawn at random between
	// zero and its bound; 0 means 50 ms and 2 s.
	First, Most time.Duration
}

func (r Retries) withDefaults() Retries {
	r.Total = cmp.Or(r.Total, 30*time.Second)
	if r.First <= 0 {
		r.First = 50 * time.Millisecond
	}
	if r.Most <= 0 {
		r.Most = 2 * time.Second
	}
	return r
}

// overloadPauseMax tells back-pressure, which says "in a few milliseconds", from
// a quota, which is a refusal.
const overloadPauseMax = 100 * time.Millisecond

// shouldRetry: repeatable says that doing the call twice equals doing it once.
func shouldRetry(e *Error, repeatable bool) bool {
	switch e.Code {
	case CodeUnavailable:
		return repeatable || e.unsent || e.cause == nil
	case CodeUnknownOutcome:
		return repeatable && e.Retryable
	case CodeExhausted:
		return e.RetryAfter > 0 && e.RetryAfter <= overloadPauseMax
	}
	return false
}

// retry runs call until it succeeds, is refused, or time is up.
func (r Retries) retry(ctx context.Context, repeatable bool, call func() error) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := call()
		if err == nil {
			return nil
		}
		e := errorFromRPC(err)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), e)
		}
		if !shouldRetry(e, repeatable) {
			return e
		}
		pause := r.pause(try, e.RetryAfter)
		if time.Since(began)+pause > r.Total {
			return e
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), e)
		}
	}
}

// pause is full jitter over a doubling bound, on top of what the server asked for.
func (r Retries) pause(try int, after time.Duration) time.Duration {
	return after + fullJitter(try, r.First, r.Most)
}

// fullJitter draws between zero and min(first << try, most). Drawing from zero
// spreads clients best after an outage that all of them saw at once.
func fullJitter(try int, first, most time.Duration) time.Duration {
	bound := most
	if try < 20 && first<<try < most {
		bound = first << try
	}
	return rand.N(bound + 1)
}

// sleep waits d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
