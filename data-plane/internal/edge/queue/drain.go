package queue

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// drainLook is how often a drain that waits for a queue to run empty reads its
// counters, which are one record.
const drainLook = 50 * time.Millisecond

// DrainQueue lets no more jobs into a queue, while those it has are handed out. It
// returns how many are left, as soon as there are none or when wait is over.
func (s *Service) DrainQueue(ctx context.Context, c Caller, name string, wait time.Duration) (remaining int64, err error) {
	var bad checker
	if msg := checkQueueName(name); msg != "" {
		bad.failf("queue", "%s", msg)
	}
	if wait < 0 || wait > WaitMax {
		bad.failf("wait", "is %s, must be between 0 and %s", wait, WaitMax)
	}
	if err := bad.err(); err != nil {
		return 0, err
	}
	if _, err := s.Queue(ctx, c, name); err != nil {
		return 0, err // Draining creates no queue, so there is nothing to wait for.
	}
	drain := &command.SetQueue{NS: c.Namespace, Queue: name, Set: command.SetDraining, Draining: true}
	if _, err := s.act(ctx, c, queueAct("queue.drain", name), drain); err != nil {
		return 0, err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		if remaining, err = s.remaining(ctx, c, name); err != nil || remaining == 0 {
			return remaining, err
		}
		select {
		case <-time.After(drainLook):
		case <-over.C:
			return remaining, nil
		case <-ctx.Done():
			return remaining, nil // It still drains.
		}
	}
}

// remaining counts the jobs of a queue that will finish without help.
func (s *Service) remaining(ctx context.Context, c Caller, name string) (int64, error) {
	info, err := s.Queue(ctx, c, name)
	return info.Pending + info.Scheduled + info.Retrying + info.Active + info.Cancelling, err
}
