package queue

import (
	"context"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// deposed is a service of a node that stops leading while it reads what it wrote.
func (r *rig) deposed() *Service {
	return New(r.shard, Rules{Keeps: func(job.Namespace) retention.Policy {
		if err := r.shard.Group().Shutdown(); err != nil {
			r.t.Error(err)
		}
		return retention.Default()
	}})
}

// A change that was committed is not told as one that was not: it would be made again.
func TestReadBack_AChangeIsToldThoughTheLeaderIsDeposedAfterIt(t *testing.T) {
	t.Parallel()
	r := start(t)
	q, err := r.deposed().SetQueue(r.ctx(), r.caller, "q", QueueSettings{MaxConcurrency: ptr(3)})
	if err != nil {
		t.Fatalf("what was committed is answered: %v", err)
	}
	if q.MaxConcurrency != 3 {
		t.Errorf("%+v", q)
	}
}

func TestReadBack_WhatCannotBeReadIsNotTakenForNothingDone(t *testing.T) {
	t.Parallel()
	r := start(t)
	refused := fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "gone")
	_, err := readBack(r.ctx(), func(context.Context) (int, error) { return 0, refused })
	if fault.NothingDone(err) || fault.CodeOf(err) != fault.UnknownOutcome {
		t.Errorf("told %v", err)
	}
}
