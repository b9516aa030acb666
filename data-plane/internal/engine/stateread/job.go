package stateread

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadHead reads the head of a job, or statedb.ErrNotFound.
func ReadHead(g *statedb.Group, ns job.Namespace, id job.ID) (records.Head, error) {
	return readHead(g, keys.In(g.Prefix()), ns, id)
}

// ReadFollows reports whether the end of a job may make other jobs ready.
func ReadFollows(g *statedb.Group, ns job.Namespace, id job.ID) (bool, error) {
	h, _, err := Get(g, keys.In(g.Prefix()).Job(ns, keys.Head, id), records.DecodeHead)
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

// ReadBody reads the body of a job, or statedb.ErrNotFound.
func ReadBody(g *statedb.Group, ns job.Namespace, id job.ID) (records.Body, error) {
	v, err := g.Get(keys.In(g.Prefix()).Job(ns, keys.Body, id))
	if err != nil {
		return records.Body{}, err
	}
	return records.DecodeBody(v)
}

// Bodies reads the bodies of jobs of one namespace. Of many, each read starts where the last
// one ended, which is cheap if they come in the order of their ids. Close it.
type Bodies struct {
	store *statedb.Group
	ns    job.Namespace
	many  *statedb.Lookup // Nil for few.
}

// manyBodies pay for the start of a lookup.
const manyBodies = 8

// OpenBodies is for about so many bodies.
func OpenBodies(g *statedb.Group, ns job.Namespace, about int) (*Bodies, error) {
	r := &Bodies{store: g, ns: ns}
	if about < manyBodies {
		return r, nil
	}
	var err error
	r.many, err = g.Lookup()
	return r, err
}

// Read returns a job's body, or statedb.ErrNotFound.
func (r *Bodies) Read(id job.ID) (records.Body, error) {
	if r.many == nil {
		return ReadBody(r.store, r.ns, id)
	}
	v, err := r.many.Get(keys.In(r.store.Prefix()).Job(r.ns, keys.Body, id))
	if err != nil {
		return records.Body{}, err
	}
	return records.DecodeBody(bytes.Clone(v))
}

// Close ends the reading.
func (r *Bodies) Close() error {
	if r.many == nil {
		return nil
	}
	return r.many.Close()
}

// ReadCheckpoint reads a job's checkpoint; nil if there is none.
func ReadCheckpoint(g *statedb.Group, ns job.Namespace, id job.ID) ([]byte, error) {
	return optional(g.Get(keys.In(g.Prefix()).Job(ns, keys.Checkpoint, id)))
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

// ReadJob reads a whole job from one snapshot of the state, or statedb.ErrNotFound.
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
		waits, err := ReadWaits(r, space, ns, id)
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
	err := r.ScanBack(from, to, func(_, value []byte) (bool, error) {
		e, err := records.DecodeAttemptError(value)
		out = append(out, e)
		return len(out) < errorsShown, err
	})
	slices.Reverse(out)
	return out, err
}

// ReadLastError reads the latest failed attempt of a job; zero if there is none. It reads
// that one alone.
func ReadLastError(g *statedb.Group, ns job.Namespace, id job.ID) (last records.AttemptError, err error) {
	from, to := keys.In(g.Prefix()).AttemptErrors(ns, id)
	err = g.ScanBack(from, to, func(_, value []byte) (bool, error) {
		last, err = records.DecodeAttemptError(value)
		return false, err
	})
	return last, err
}

// ReadHold reads why a job is or was held; zero if there is no record, which a job that
// changes meanwhile may show.
func ReadHold(g *statedb.Group, ns job.Namespace, id job.ID) (records.Hold, error) {
	h, _, err := Get(g, keys.In(g.Prefix()).Job(ns, keys.Hold, id), records.DecodeHold)
	if err != nil {
		return records.Hold{}, fmt.Errorf("hold of job %s: %w", id, err)
	}
	return h, nil
}
