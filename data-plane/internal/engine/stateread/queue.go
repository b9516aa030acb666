package stateread

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadCounts reads a queue's counters; zeros if it has none.
func ReadCounts(g *statedb.Group, ns job.Namespace, queue string) (records.Counts, error) {
	c, _, err := Get(g, keys.In(g.Prefix()).Queue(ns, keys.QueueCounts, queue), records.DecodeCounts)
	return c, err
}

// readGeneration is the generation of a queue, whether it exists or not.
func readGeneration(r Reader, space keys.Space, ns job.Namespace, queue string) (records.Generation, error) {
	cfg, there, err := Get(r, space.Queue(ns, keys.QueueConfig, queue), records.DecodeQueueConfig)
	if err != nil || there {
		return cfg.Generation(), err
	}
	mark, _, err := Get(r, space.Sweep(ns, queue), records.DecodeSweepMark)
	return records.Generation{Own: mark.Gen}, err
}

// Queue is one queue as stored.
type Queue struct {
	Name string
	records.QueueConfig
	records.Counts
	// Oldest is the pending job that is next in the best order, zero if none; with
	// the floors in Counts it costs one seek per priority.
	Oldest job.ID
}

// QueuesMax bounds one listing of queues.
const QueuesMax = 10_000

// ReadQueues lists the queues of a namespace by name, from one snapshot.
func ReadQueues(g *statedb.Group, ns job.Namespace) (_ []Queue, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(g.Prefix())
	var out []Queue
	from, to := space.Queues(ns, keys.QueueConfig)
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		q, err := readQueue(v, space, ns, key, value)
		if err != nil {
			return false, err
		}
		out = append(out, q)
		return len(out) < QueuesMax, nil
	})
	return out, err
}

// ReadQueue reads one queue of a namespace, or statedb.ErrNotFound.
func ReadQueue(g *statedb.Group, ns job.Namespace, name string) (_ Queue, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(g.Prefix())
	key := space.Queue(ns, keys.QueueConfig, name)
	value, err := v.Get(key)
	if err != nil {
		return Queue{}, err
	}
	return readQueue(v, space, ns, key, value)
}

func readQueue(r Reader, space keys.Space, ns job.Namespace, key, value []byte) (Queue, error) {
	name, err := space.QueueName(key)
	if err != nil {
		return Queue{}, err
	}
	q := Queue{Name: name}
	if q.QueueConfig, err = records.DecodeQueueConfig(value); err != nil {
		return Queue{}, fmt.Errorf("queue %q: %w", name, err)
	}
	if q.Counts, _, err = Get(r, space.Queue(ns, keys.QueueCounts, name), records.DecodeCounts); err != nil {
		return Queue{}, fmt.Errorf("queue %q: %w", name, err)
	}
	q.Oldest, err = oldest(r, space, ns, name, &q.Counts)
	return q, err
}

// oldest finds the first pending job over all priorities.
func oldest(r Reader, space keys.Space, ns job.Namespace, name string, c *records.Counts) (job.ID, error) {
	var best keys.Position
	var id job.ID
	if c.Jobs[job.Pending] == 0 {
		return id, nil
	}
	for p := range job.Priorities {
		from, to := space.ReadyFrom(ns, name, job.Priority(p), c.Floor[p])
		err := r.Scan(from, to, func(key, value []byte) (bool, error) {
			pos, err := space.ReadyPosition(key)
			if err == nil && (best.IsZero() || pos.Less(best)) {
				best = pos
				copy(id[:], value)
			}
			return false, err
		})
		if err != nil {
			return job.ID{}, err
		}
	}
	return id, nil
}
