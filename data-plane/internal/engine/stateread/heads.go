package stateread

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// IDHead is the head of a job.
type IDHead struct {
	ID job.ID
	records.Head
}

// HeadReader reads many heads. It remembers generations of queues, so what it takes
// for there may have gone with its queue since the reader was made.
type HeadReader struct {
	store *statedb.Group
	space keys.Space
	gens  map[queueName]records.Generation
}

type queueName struct {
	ns    job.Namespace
	queue string
}

// NewHeadReader makes a reader for one piece of work.
func NewHeadReader(g *statedb.Group) *HeadReader {
	return &HeadReader{store: g, space: keys.In(g.Prefix()), gens: make(map[queueName]records.Generation)}
}

// Jobs reads the heads and bodies of jobs and hands them over in the order of ids,
// which makes it cheap; a job that is not there comes with nil. The body's payload
// is valid during the call.
func (r *HeadReader) Jobs(ns job.Namespace, ids []job.ID, f func(job.ID, *records.Head, *records.Body) error) (err error) {
	heads, err := r.store.Lookup()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, heads.Close()) }()
	bodies, err := r.store.Lookup()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bodies.Close()) }()
	for _, id := range ids {
		h, b, err := r.job(heads, bodies, ns, id)
		if errors.Is(err, statedb.ErrNotFound) {
			h, b, err = nil, nil, nil
		}
		if err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		if err := f(id, h, b); err != nil {
			return err
		}
	}
	return nil
}

func (r *HeadReader) job(heads, bodies *statedb.Lookup, ns job.Namespace, id job.ID) (*records.Head, *records.Body, error) {
	v, err := heads.Get(r.space.Job(ns, keys.Head, id))
	if err != nil {
		return nil, nil, err
	}
	h, there, err := r.decode(ns, id, v)
	if err == nil && !there {
		err = statedb.ErrNotFound
	}
	if err != nil {
		return nil, nil, err
	}
	b, err := r.body(bodies, ns, id)
	return &h, b, err
}

// body reads the body of a job whose head was read; ErrNotFound: it was deleted since, or
// added since bodies was taken.
func (r *HeadReader) body(bodies *statedb.Lookup, ns job.Namespace, id job.ID) (*records.Body, error) {
	v, err := bodies.Get(r.space.Job(ns, keys.Body, id))
	if err != nil {
		return nil, err
	}
	b, err := records.DecodeBody(v)
	return &b, err
}

// JobsAfter walks over up to limit heads of a namespace after an id and hands over the jobs
// that are there, as Jobs does: each head is read once. It ends at last; done tells that
// there are no more. A job that comes or goes meanwhile may be missing.
func (r *HeadReader) JobsAfter(ns job.Namespace, after job.ID, limit int, f func(job.ID, *records.Head, *records.Body) error) (last job.ID, done bool, err error) {
	bodies, err := r.store.Lookup()
	if err != nil {
		return job.ID{}, false, err
	}
	defer func() { err = errors.Join(err, bodies.Close()) }()
	return r.walk(ns, after, limit, func(id job.ID, h *records.Head) error {
		b, err := r.body(bodies, ns, id)
		if errors.Is(err, statedb.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		return f(id, h, b)
	})
}

func (r *HeadReader) decode(ns job.Namespace, id job.ID, v []byte) (h records.Head, there bool, err error) {
	if h, err = records.DecodeHead(v); err != nil {
		return records.Head{}, false, fmt.Errorf("job %s: %w", id, err)
	}
	k := queueName{ns, h.Queue}
	gen, known := r.gens[k]
	if !known {
		if gen, err = readGeneration(r.store, r.space, ns, h.Queue); err != nil {
			return records.Head{}, false, err
		}
		r.gens[k] = gen
	}
	return h, gen.Has(h.Gen, h.State.Leased()), nil
}

// Heads walks over up to limit heads of a namespace after an id and lists those of
// jobs that are there, by id. It ends at last; done tells that there are no more.
func (r *HeadReader) Heads(ns job.Namespace, after job.ID, limit int) (out []IDHead, last job.ID, done bool, err error) {
	last, done, err = r.walk(ns, after, limit, func(id job.ID, h *records.Head) error {
		out = append(out, IDHead{id, *h})
		return nil
	})
	return out, last, done, err
}

func (r *HeadReader) walk(ns job.Namespace, after job.ID, limit int, f func(job.ID, *records.Head) error) (last job.ID, done bool, err error) {
	walked := 0
	from, to := r.space.Heads(ns, after)
	err = r.store.Scan(from, to, func(key, value []byte) (bool, error) {
		id, err := r.space.HeadID(key)
		if err != nil {
			return false, err
		}
		h, there, err := r.decode(ns, id, value)
		if err == nil && there {
			err = f(id, &h)
		}
		if err != nil {
			return false, err
		}
		last = id
		walked++
		return walked < limit, nil
	})
	return last, walked < limit, err
}
