package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// The functions of this file read committed state, for the leader's memory and
// for queries. They never run inside apply.

// Reader is a group's committed state or a picture of it.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(from, to []byte, f func(key, value []byte) (bool, error)) error
}

// ReadQueueConfig reads a queue's record; statedb.ErrNotFound if it never was used.
func ReadQueueConfig(g *statedb.Group, ns job.Namespace, queue string) (records.QueueConfig, error) {
	v, err := g.Get(keys.In(g.Prefix()).Queue(ns, keys.QueueConfig, queue))
	if err != nil {
		return records.QueueConfig{}, err
	}
	return records.DecodeQueueConfig(v)
}

// ReadCounts reads a queue's counters; statedb.ErrNotFound if it has none.
func ReadCounts(g *statedb.Group, ns job.Namespace, queue string) (records.Counts, error) {
	v, err := g.Get(keys.In(g.Prefix()).Queue(ns, keys.QueueCounts, queue))
	if err != nil {
		return records.Counts{}, err
	}
	return records.DecodeCounts(v)
}

// ReadQueueState reads what the leader's memory keeps of a queue, and the floors of
// its ready orders; a queue that does not exist has no limits.
func ReadQueueState(g *statedb.Group, ns job.Namespace, queue string) (QueueState, records.Counts, error) {
	cfg, err := ReadQueueConfig(g, ns, queue)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueState{}, records.Counts{}, err
	}
	c, err := ReadCounts(g, ns, queue)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueState{}, records.Counts{}, err
	}
	shut, err := readShut(g, keys.In(g.Prefix()), ns, queue)
	return stateOf(queueKey{ns, queue}, &cfg, &c, shut), c, err
}

// ReadHead reads the head of a job, or statedb.ErrNotFound.
func ReadHead(g *statedb.Group, ns job.Namespace, id job.ID) (records.Head, error) {
	return readHead(g, keys.In(g.Prefix()), ns, id)
}

// ReadFollows reports whether the end of a job may make other jobs ready.
func ReadFollows(g *statedb.Group, ns job.Namespace, id job.ID) (bool, error) {
	v, err := optional(g.Get(keys.In(g.Prefix()).Job(ns, keys.Head, id)))
	if err != nil || v == nil {
		return false, err
	}
	h, err := records.DecodeHead(v)
	return h.Has(records.FlagChain | records.FlagBatch), err
}

func readHead(r Reader, space keys.Space, ns job.Namespace, id job.ID) (records.Head, error) {
	v, err := r.Get(space.Job(ns, keys.Head, id))
	if err != nil {
		return records.Head{}, err
	}
	h, err := records.DecodeHead(v)
	if err != nil {
		return records.Head{}, fmt.Errorf("job %s: %w", id, err)
	}
	gen, err := readGeneration(r, space, ns, h.Queue)
	if err != nil {
		return records.Head{}, err
	}
	if !gen.Has(h.Gen, h.State.Leased()) {
		return records.Head{}, statedb.ErrNotFound // Deleted with its queue.
	}
	return h, nil
}

// readGeneration is the generation of a queue, whether it exists or not.
func readGeneration(r Reader, space keys.Space, ns job.Namespace, queue string) (records.Generation, error) {
	v, err := optional(r.Get(space.Queue(ns, keys.QueueConfig, queue)))
	if err != nil {
		return records.Generation{}, err
	}
	if v != nil {
		cfg, err := records.DecodeQueueConfig(v)
		return cfg.Generation(), err
	}
	if v, err = optional(r.Get(space.Sweep(ns, queue))); err != nil || v == nil {
		return records.Generation{}, err
	}
	mark, err := records.DecodeSweepMark(v)
	return records.Generation{Own: mark.Gen}, err
}

// ReadBody reads the body of a job, or statedb.ErrNotFound.
func ReadBody(g *statedb.Group, ns job.Namespace, id job.ID) (records.Body, error) {
	v, err := g.Get(keys.In(g.Prefix()).Job(ns, keys.Body, id))
	if err != nil {
		return records.Body{}, err
	}
	return records.DecodeBody(v)
}

// ReadCheckpoint reads a job's checkpoint; nil if there is none.
func ReadCheckpoint(g *statedb.Group, ns job.Namespace, id job.ID) ([]byte, error) {
	return optional(g.Get(keys.In(g.Prefix()).Job(ns, keys.Checkpoint, id)))
}

func optional(v []byte, err error) ([]byte, error) {
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

// Job is everything stored of one job.
type Job struct {
	records.Body
	records.Head
	Checkpoint []byte
	Progress   []byte
	Result     []byte
	Errors     []records.AttemptError
	Hold       *records.Hold     // nil: it never was held.
	Usage      *records.JobUsage // nil if it reported none.
	WaitingOn  int               // How many jobs it waits for.
}

// ReadJob reads a whole job from one picture of the state, or statedb.ErrNotFound.
func ReadJob(g *statedb.Group, ns job.Namespace, id job.ID) (_ Job, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	return readJob(v, keys.In(g.Prefix()), ns, id)
}

func readJob(r Reader, space keys.Space, ns job.Namespace, id job.ID) (Job, error) {
	var j Job
	var b []byte
	var err error
	if j.Head, err = readHead(r, space, ns, id); err != nil {
		return Job{}, err
	}
	if b, err = r.Get(space.Job(ns, keys.Body, id)); err != nil {
		return Job{}, fmt.Errorf("body of job %s: %w", id, err)
	}
	if j.Body, err = records.DecodeBody(b); err != nil {
		return Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	for _, p := range []struct {
		flag   uint32
		family byte
		to     *[]byte
	}{{records.FlagCheckpoint, keys.Checkpoint, &j.Checkpoint}, {records.FlagProgress, keys.Progress, &j.Progress}, {records.FlagResult, keys.Result, &j.Result}} {
		if j.Has(p.flag) {
			if *p.to, err = optional(r.Get(space.Job(ns, p.family, id))); err != nil {
				return Job{}, err
			}
		}
	}
	if j.Has(records.FlagUsage) {
		if j.Usage, err = readJobUsage(r, space, ns, id); err != nil {
			return Job{}, err
		}
	}
	if j.Has(records.FlagBlocked) {
		waits, err := readWaits(r, space, ns, id)
		if err != nil {
			return Job{}, err
		}
		j.WaitingOn = len(waits)
	}
	if j.Has(records.FlagErrors) {
		if j.Errors, err = readErrors(r, space, ns, id); err != nil {
			return Job{}, err
		}
	}
	if j.Has(records.FlagHold) {
		j.Hold, err = readHold(r, space, ns, id)
	}
	return j, err
}

func readHold(r Reader, space keys.Space, ns job.Namespace, id job.ID) (*records.Hold, error) {
	v, err := r.Get(space.Job(ns, keys.Hold, id))
	if err != nil {
		return nil, fmt.Errorf("hold of job %s: %w", id, err)
	}
	h, err := records.DecodeHold(v)
	return &h, err
}

// errorsShown bounds the attempt errors of one answer; the latest are kept.
const errorsShown = 100

func readErrors(r Reader, space keys.Space, ns job.Namespace, id job.ID) ([]records.AttemptError, error) {
	var out []records.AttemptError
	from, to := space.AttemptErrors(ns, id)
	err := r.Scan(from, to, func(_, value []byte) (bool, error) {
		e, err := records.DecodeAttemptError(value)
		if err != nil {
			return false, err
		}
		if len(out) == errorsShown {
			out = append(out[:0], out[1:]...)
		}
		out = append(out, e)
		return true, nil
	})
	return out, err
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

// ReadQueues lists the queues of a namespace by name, from one picture.
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
	c, err := optional(r.Get(space.Queue(ns, keys.QueueCounts, name)))
	if err != nil {
		return Queue{}, err
	}
	if c != nil {
		if q.Counts, err = records.DecodeCounts(c); err != nil {
			return Queue{}, fmt.Errorf("queue %q: %w", name, err)
		}
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

// ReadDue lists up to limit rows that wait for lease or for calendar time, with
// from <= time < to, in order.
func ReadDue(g *statedb.Group, lease bool, from, to int64, limit int) ([]keys.Due, error) {
	space := keys.In(g.Prefix())
	lower, upper := space.DueBetween(lease, from, to)
	var out []keys.Due
	err := g.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		d, err := space.ParseDue(key)
		if err != nil {
			return false, err
		}
		out = append(out, d)
		return len(out) < limit, nil
	})
	return out, err
}
