package cloud

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// retryAfterMax is the longest wait that a server may ask for; whoever is told to come
// back later than that should rather be told.
const retryAfterMax = 2 * time.Minute

// patience says how often and how slowly a call is repeated.
type patience struct {
	retries int
	// each bounds one attempt.
	each time.Duration
	// first and most bound the wait between attempts, which doubles.
	first, most time.Duration
	// poll bounds the wait between two looks at what takes its time.
	poll time.Duration
}

// try makes the call until it succeeds, is refused for good, or patience or ctx ends;
// the error is then the last attempt's.
func (p patience) try(ctx context.Context, call func(context.Context) error) error {
	for n := 0; ; n++ {
		err := p.once(ctx, call)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.transient || n >= p.retries {
			return err
		}
		if !pause(ctx, p.delay(n, e.RetryAfter)) {
			return err
		}
	}
}

func (p patience) once(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.each)
	defer cancel()
	return call(ctx)
}

// delay is the wait after attempt n (from 0). With 50 resources refused at the same
// moment the jitter is what keeps them from coming back at the same moment.
func (p patience) delay(n int, asked time.Duration) time.Duration {
	d := p.most
	if n < 16 {
		d = min(p.first<<n, p.most)
	}
	jittered := d/2 + rand.N(d/2+1)
	if asked > 0 {
		return min(asked, retryAfterMax) + jittered/2
	}
	return jittered
}

// pause waits; false if ctx ends before that.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wait asks until ready says yes. Errors that may pass are waited out until ctx ends,
// even when a single call's patience has ended: what is awaited was already begun.
func (c *Client) Wait(ctx context.Context, ready func(context.Context) (bool, error)) error {
	d := c.patience.first
	for {
		ok, err := ready(ctx)
		if ok {
			return nil
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || !e.transient) {
			return err
		}
		if !pause(ctx, d) {
			if err != nil {
				return err
			}
			if ctx.Err() == nil {
				return context.DeadlineExceeded // A pause gives up before a deadline that it would miss.
			}
			return context.Cause(ctx)
		}
		d = min(d*2, c.patience.poll)
	}
}
