package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadWaits is what a job waits for.
func ReadWaits(r getter, space keys.Space, ns job.Namespace, id job.ID) ([]job.ID, error) {
	v, err := optional(r.Get(space.Job(ns, keys.Waits, id)))
	if err != nil || v == nil {
		return nil, err
	}
	return records.DecodeIDs("waits of job "+id.String(), v)
}

// ReadWaiters are the jobs that wait for the end of one.
func ReadWaiters(r getter, space keys.Space, ns job.Namespace, on job.ID) (records.Waiters, error) {
	w, _, err := Get(r, space.Job(ns, keys.Waiters, on), records.DecodeWaiters)
	return w, err
}

// CountDependents is how many jobs are notified when a due row of kind deliver fires.
func CountDependents(g *statedb.Group, d keys.Due) (int, error) {
	w, err := ReadWaiters(g, keys.In(g.Prefix()), d.NS, d.ID)
	return int(w.Next()), err
}
