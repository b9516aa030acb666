package queue

import (
	"context"
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ClearQueue removes all jobs of a queue that no worker holds, and returns how many.
func (s *Service) ClearQueue(ctx context.Context, c Caller, name string) (removed int64, err error) {
	if err := checkQueuePath(name); err != nil {
		return 0, err
	}
	res, err := s.actOn(ctx, c, queueAct("queue.clear", name), &command.ClearQueue{NS: c.Namespace, Queue: name}, errNoQueue(name))
	return res.Removed, err
}

// MoveJob puts a job that no worker holds into another queue.
func (s *Service) MoveJob(ctx context.Context, c Caller, id job.ID, to string) error {
	if err := checkQueuePath(to); err != nil {
		return err
	}
	if err := c.may(permission.JobMove, to); err != nil {
		return err
	}
	_, err := s.actOnJob(ctx, c, jobAct(moveJob, id).with("to_queue", to), &command.Move{NS: c.Namespace, ID: id, Queue: to})
	return err
}

// RequeueDead retries all jobs of a queue that are dead when it begins, and returns
// how many. If it fails, what it did so far stays done; calling it again does the
// rest.
func (s *Service) RequeueDead(ctx context.Context, c Caller, name string) (requeued int64, err error) {
	info, err := s.Queue(ctx, c, name)
	if err != nil {
		return 0, err
	}
	op := s.ids.next(s.now())
	walk := stateread.Dead{NS: c.Namespace, Queue: name, Until: op}
	part := queueAct("queue.requeue", name).said(c, 1)
	part.Op = op
	defer func() {
		if requeued > 0 { // Also after a stop.
			done, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			_ = s.actDone(done, part) // If it fails, a timer of the shard does it.
		}
	}()
	for more := info.Dead > 0; more; {
		at := walk // A repeated read begins where the first one did.
		ids, err := shard.Read(ctx, s.shard, func(g *statedb.Group) (ids []job.ID, err error) {
			walk = at
			ids, more, err = walk.Next(g)
			return ids, err
		})
		if err != nil || ctx.Err() != nil {
			return requeued, errors.Join(err, ctx.Err())
		}
		if len(ids) == 0 {
			continue
		}
		n, err := s.requeue(ctx, c, part, ids)
		if err != nil {
			return requeued, err
		}
		requeued += n
	}
	return requeued, nil
}

func (s *Service) requeue(ctx context.Context, c Caller, part *command.Audit, ids []job.ID) (int64, error) {
	cmd := &command.Requeue{NS: c.Namespace, Queue: part.Target, Jobs: ids}
	rep, err := s.shard.Do(ctx, shard.Request{Settle: []command.Command{part, cmd}})
	if err != nil {
		return 0, err
	}
	return int64(rep.Settled[1].Requeued), nil
}
