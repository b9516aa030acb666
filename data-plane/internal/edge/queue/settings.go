package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Queue reads one queue with exact counts.
func (s *Service) Queue(ctx context.Context, c Caller, name string) (wire.Queue, error) {
	if err := checkQueuePath(name); err != nil {
		return wire.Queue{}, err
	}
	return look(ctx, s.shard, errNoQueue(name), func(g *statedb.Group) (wire.Queue, error) {
		q, err := stateread.ReadQueue(g, c.Namespace, name)
		if err != nil {
			return wire.Queue{}, err
		}
		return viewQueue(g, c.Namespace, s.keeps(c.Namespace), &q)
	})
}

// etag is the fingerprint of a queue's settings on the wire.
func etag(fingerprint uint64) string { return fmt.Sprintf(`"%016x"`, fingerprint) }

// ParseETag reads the fingerprint of a queue's settings.
func ParseETag(text string) (fingerprint uint64, ok bool) {
	fingerprint, err := strconv.ParseUint(strings.Trim(text, `"`), 16, 64)
	return fingerprint, err == nil && etag(fingerprint) == text
}

// SetQueue changes the settings of a queue, which it creates if need be. It returns
// the result.
func (s *Service) SetQueue(ctx context.Context, c Caller, name string, in QueueSettings) (wire.Queue, error) {
	if fields := in.Check(name); len(fields) > 0 {
		return wire.Queue{}, fault.InvalidFields(fields)
	}
	if in.Paused != nil {
		if err := c.may(permission.QueuePause, name); err != nil {
			return wire.Queue{}, err
		}
	}
	if in.Retention != nil {
		if err := planKeeps(s.keeps(c.Namespace), *in.Retention); err != nil {
			return wire.Queue{}, err
		}
	}
	was, err := shard.Read(ctx, s.shard, func(g *statedb.Group) (stateread.Queue, error) {
		return stateread.ReadQueue(g, c.Namespace, name)
	})
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return wire.Queue{}, err
	}
	res, err := s.act(ctx, c, in.act(name, &was), in.command(c, name))
	if err != nil {
		return wire.Queue{}, err
	}
	if res.Refusal == state.Changed {
		return wire.Queue{}, fault.New(fault.Conflict, "QUEUE_CHANGED", "the settings of queue %s have changed since you read them; read them again", name)
	}
	return readBack(ctx, func(ctx context.Context) (wire.Queue, error) { return s.Queue(ctx, c, name) })
}

// DeleteQueue removes a queue with all its jobs. Workers that hold some get
// NOT_FOUND when they settle; the name may be used again at once.
func (s *Service) DeleteQueue(ctx context.Context, c Caller, name string) error {
	if err := checkQueuePath(name); err != nil {
		return err
	}
	_, err := s.actOn(ctx, c, queueAct("queue.delete", name), &command.DeleteQueue{NS: c.Namespace, Queue: name}, errNoQueue(name))
	return err
}

func checkQueuePath(name string) error {
	if msg := checkQueueName(name); msg != "" {
		return fault.InvalidFields([]fault.Field{{Path: "queue", Message: msg}})
	}
	return nil
}

func errNoQueue(name string) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no queue %s in this namespace", name)
}

// Check lists what SetQueue would refuse about the queue's name and the settings.
func (in *QueueSettings) Check(name string) []fault.Field {
	var bad checker
	if msg := checkQueueName(name); msg != "" {
		bad.failf("queue", "%s", msg)
	}
	if n := in.MaxConcurrency; n != nil && (*n < 0 || *n > ConcurrencyMax) {
		bad.failf("max_concurrency", "is %d, must be between 0 (no limit) and %d", *n, ConcurrencyMax)
	}
	if t := in.Throttle; t != nil && *t != (Throttle{}) {
		if t.Limit < 1 || t.Limit > ThrottleMax {
			bad.failf("throttle.limit", "is %d, must be between 1 and %d", t.Limit, ThrottleMax)
		}
		if t.Window < WindowMin || t.Window > WindowMax {
			bad.failf("throttle.window_ms", "is %d, must be between %d and %d", t.Window.Milliseconds(), WindowMin.Milliseconds(), WindowMax.Milliseconds())
		}
	}
	if in.Retry != nil {
		bad.retry(in.Retry)
	}
	if in.Retention != nil {
		bad.retention(*in.Retention)
	}
	return bad
}

func (in *QueueSettings) command(c Caller, name string) command.Command {
	cmd := &command.SetQueue{NS: c.Namespace, Queue: name, IfSettings: in.IfFingerprint}
	if in.Paused != nil {
		cmd.Set |= command.SetPaused
		cmd.Paused = *in.Paused
	}
	if in.MaxConcurrency != nil {
		cmd.Set |= command.SetConcurrency
		cmd.MaxConcurrency = uint32(*in.MaxConcurrency)
	}
	if in.Throttle != nil {
		cmd.Set |= command.SetThrottle
		cmd.Throttle = command.Throttle{Limit: uint32(in.Throttle.Limit), Window: in.Throttle.Window}
	}
	if in.Retry != nil {
		cmd.Set |= command.SetRetry
		retry, open := retryPolicy(in.Retry)
		cmd.Retry, cmd.RetrySet = retry, command.RetryAll&^open
	}
	if in.Retention != nil {
		cmd.Set |= command.SetRetention
		cmd.Retention = command.QueueRetention(*in.Retention)
	}
	return cmd
}
