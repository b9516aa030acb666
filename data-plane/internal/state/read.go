package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
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
func ReadQueueConfig(g *statedb.Group, ns job.Namespace, queue string) (QueueConfig, error) {
	v, err := g.Get(keys.In(g.Prefix()).Queue(ns, keys.QueueConfig, queue))
	if err != nil {
		return QueueConfig{}, err
	}
	return decodeQueueConfig(v)
}

// ReadCounts reads a queue's counters; statedb.ErrNotFound if it has none.
func ReadCounts(g *statedb.Group, ns job.Namespace, queue string) (Counts, error) {
	v, err := g.Get(keys.In(g.Prefix()).Queue(ns, keys.QueueCounts, queue))
	if err != nil {
		return Counts{}, err
	}
	return decodeCounts(v)
}

// ReadQueueState reads what the leader's memory keeps of a queue, and the floors of
// its ready orders; a queue that does not exist has no limits.
func ReadQueueState(g *statedb.Group, ns job.Namespace, queue string) (QueueState, Counts, error) {
	cfg, err := ReadQueueConfig(g, ns, queue)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueState{}, Counts{}, err
	}
	c, err := ReadCounts(g, ns, queue)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueState{}, Counts{}, err
	}
	shut, err := readShut(g, keys.In(g.Prefix()), ns, queue)
	return stateOf(queueKey{ns, queue}, &cfg, &c, shut), c, err
}

// ReadHead reads the head of a job, or statedb.ErrNotFound.
func ReadHead(g *statedb.Group, ns job.Namespace, id job.ID) (Head, error) {
	return readHead(g, keys.In(g.Prefix()), ns, id)
}

// ReadFollows reports whether the end of a job may make other jobs ready.
func ReadFollows(g *statedb.Group, ns job.Namespace, id job.ID) (bool, error) {
	v, err := optional(g.Get(keys.In(g.Prefix()).Job(ns, keys.Head, id)))
	if err != nil || v == nil {
		return false, err
	}
	h, err := decodeHead(v)
	return h.has(flagChain | flagBatch), err
}

func readHead(r Reader, space keys.Space, ns job.Namespace, id job.ID) (Head, error) {
	v, err := r.Get(space.Job(ns, keys.Head, id))
	if err != nil {
		return Head{}, err
	}
	h, err := decodeHead(v)
	if err != nil {
		return Head{}, fmt.Errorf("job %s: %w", id, err)
	}
	gen, err := readGeneration(r, space, ns, h.Queue)
	if err != nil {
		return Head{}, err
	}
	if !gen.has(h.gen, h.State.Leased()) {
		return Head{}, statedb.ErrNotFound // Deleted with its queue.
	}
	return h, nil
}

// readGeneration is the generation of a queue, whether it exists or not.
func readGeneration(r Reader, space keys.Space, ns job.Namespace, queue string) (generation, error) {
	v, err := optional(r.Get(space.Queue(ns, keys.QueueConfig, queue)))
	if err != nil {
		return generation{}, err
	}
	if v != nil {
		cfg, err := decodeQueueConfig(v)
		return cfg.generation(), err
	}
	if v, err = optional(r.Get(space.Sweep(ns, queue))); err != nil || v == nil {
		return generation{}, err
	}
	mark, err := decodeSweepMark(v)
	return generation{own: mark.gen}, err
}

// ReadBody reads the body of a job, or statedb.ErrNotFound.
func ReadBody(g *statedb.Group, ns job.Namespace, id job.ID) (Body, error) {
	v, err := g.Get(keys.In(g.Prefix()).Job(ns, keys.Body, id))
	if err != nil {
		return Body{}, err
	}
	return decodeBody(v)
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

// AttemptError is one failed attempt as it was reported.
type AttemptError = attemptError

// Job is everything stored of one job.
type Job struct {
	Body
	Head
	Checkpoint []byte
	Progress   []byte
	Result     []byte
	Errors     []AttemptError
	Hold       *Hold     // nil: it never was held.
	Usage      *JobUsage // nil if it reported none.
	WaitingOn  int       // How many jobs it waits for.
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
	if j.Body, err = decodeBody(b); err != nil {
		return Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	for _, p := range []struct {
		flag   uint32
		family byte
		to     *[]byte
	}{{flagCheckpoint, keys.Checkpoint, &j.Checkpoint}, {flagProgress, keys.Progress, &j.Progress}, {flagResult, keys.Result, &j.Result}} {
		if j.has(p.flag) {
			if *p.to, err = optional(r.Get(space.Job(ns, p.family, id))); err != nil {
				return Job{}, err
			}
		}
	}
	if j.has(flagUsage) {
		if j.Usage, err = readJobUsage(r, space, ns, id); err != nil {
			return Job{}, err
		}
	}
	if j.has(flagBlocked) {
		waits, err := readWaits(r, space, ns, id)
		if err != nil {
			return Job{}, err
		}
		j.WaitingOn = len(waits)
	}
	if j.has(flagErrors) {
		if j.Errors, err = readErrors(r, space, ns, id); err != nil {
			return Job{}, err
		}
	}
	if j.has(flagHold) {
		j.Hold, err = readHold(r, space, ns, id)
	}
	return j, err
}

func readHold(r Reader, space keys.Space, ns job.Namespace, id job.ID) (*Hold, error) {
	v, err := r.Get(space.Job(ns, keys.Hold, id))
	if err != nil {
		return nil, fmt.Errorf("hold of job %s: %w", id, err)
	}
	h, err := decodeHold(v)
	return &h, err
}

// errorsShown bounds the attempt errors of one answer; the latest are kept.
const errorsShown = 100

func readErrors(r Reader, space keys.Space, ns job.Namespace, id job.ID) ([]AttemptError, error) {
	var out []AttemptError
	from, to := space.AttemptErrors(ns, id)
	err := r.Scan(from, to, func(_, value []byte) (bool, error) {
		e, err := decodeAttemptError(value)
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
	QueueConfig
	Counts
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
	if q.QueueConfig, err = decodeQueueConfig(value); err != nil {
		return Queue{}, fmt.Errorf("queue %q: %w", name, err)
	}
	c, err := optional(r.Get(space.Queue(ns, keys.QueueCounts, name)))
	if err != nil {
		return Queue{}, err
	}
	if c != nil {
		if q.Counts, err = decodeCounts(c); err != nil {
			return Queue{}, fmt.Errorf("queue %q: %w", name, err)
		}
	}
	q.Oldest, err = oldest(r, space, ns, name, &q.Counts)
	return q, err
}

// oldest finds the first pending job over all priorities.
func oldest(r Reader, space keys.Space, ns job.Namespace, name string, c *Counts) (job.ID, error) {
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

// Due is one due row.
type Due = keys.Due

// ReadDue lists up to limit rows that wait for lease or for calendar time, with
// from <= time < to, in order.
func ReadDue(g *statedb.Group, lease bool, from, to int64, limit int) ([]Due, error) {
	space := keys.In(g.Prefix())
	lower, upper := space.DueBetween(lease, from, to)
	var out []Due
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
