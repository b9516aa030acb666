package stateread

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// IDBatch is a batch and its name.
type IDBatch struct {
	ID job.BatchID
	records.Batch
}

// BatchMember is a job of a batch, how it ended, and where it stands now.
type BatchMember struct {
	ID      job.ID
	Outcome records.Outcome
	Queue   string
	State   job.State // 0: it is gone.
}

// ReadBatch reads a batch, or statedb.ErrNotFound.
func ReadBatch(g *statedb.Group, ns job.Namespace, id job.BatchID) (records.Batch, error) {
	v, err := g.Get(keys.In(g.Prefix()).Batch(ns, id))
	if err != nil {
		return records.Batch{}, err
	}
	return records.DecodeBatch(v)
}

// ReadBatches lists up to limit batches of a namespace that are older than one,
// youngest first; more tells that there are others.
func ReadBatches(g *statedb.Group, ns job.Namespace, before job.BatchID, limit int) (out []IDBatch, more bool, err error) {
	from, to := keys.In(g.Prefix()).Batches(ns, before)
	more, err = readBack(g, from, to, limit, func(id [16]byte, value []byte) error {
		b, err := records.DecodeBatch(value)
		out = append(out, IDBatch{id, b})
		return err
	})
	return out, more, err
}

// ReadMembers lists up to limit jobs of a batch after one, by id; more tells that
// there are others.
func ReadMembers(g *statedb.Group, ns job.Namespace, id job.BatchID, after job.ID, limit int) (out []BatchMember, more bool, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(g.Prefix())
	from, to := space.Members(ns, id, after)
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		if len(out) == limit {
			more = true
			return false, nil
		}
		tail, err := space.Tail(key)
		if err != nil {
			return false, err
		}
		m := BatchMember{ID: tail}
		if m.Outcome, err = records.DecodeOutcome(value); err != nil {
			return false, err
		}
		out = append(out, m)
		return true, nil
	})
	for i := range out {
		if err == nil {
			out[i].Queue, out[i].State, err = queueAndState(v, space, ns, out[i].ID)
		}
	}
	return out, more, err
}

// queueAndState is the queue and the state of a job; zero if it is gone.
func queueAndState(r Reader, space keys.Space, ns job.Namespace, id job.ID) (string, job.State, error) {
	h, err := readHead(r, space, ns, id)
	if errors.Is(err, statedb.ErrNotFound) {
		return "", 0, nil
	}
	return h.Queue, h.State, err
}

// readBack calls f for up to limit rows of a span from its end; more tells that there
// are others.
func readBack(g *statedb.Group, from, to []byte, limit int, f func(id [16]byte, value []byte) error) (more bool, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	n := 0
	err = v.ScanBack(from, to, func(key, value []byte) (bool, error) {
		if n == limit {
			more = true
			return false, nil
		}
		n++
		id, err := keys.In(g.Prefix()).Tail(key)
		if err == nil {
			err = f(id, value)
		}
		return true, err
	})
	return more, err
}
