package stateread

import (
	"bytes"
	"fmt"
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadLeaseLimit is when the lease of a job ends at the latest, in lease time, however often its
// holder renews it; the end of time if nothing limits it.
func ReadLeaseLimit(g *statedb.Group, ns job.Namespace, id job.ID, h *records.Head) (int64, error) {
	if !h.Has(records.FlagAgent) {
		return math.MaxInt64, nil
	}
	body, err := ReadBody(g, ns, id)
	if err != nil {
		return 0, fmt.Errorf("body of job %s: %w", id, err)
	}
	return records.LeaseLimit(h, body.AgentLimits()), nil
}

// iterationsBytesMax bounds one answer of ReadIterations.
const iterationsBytesMax = 8 << 20

// ReadIterations lists up to limit finished iterations of a job after one, in order;
// more tells that there are others.
func ReadIterations(g *statedb.Group, ns job.Namespace, id job.ID, after uint32, limit int) (out []records.Iteration, more bool, err error) {
	space := keys.In(g.Prefix())
	_, to := space.Iterations(ns, id)
	size := 0
	err = g.Scan(space.Iteration(ns, id, min(after, math.MaxUint32-1)+1), to, func(key, value []byte) (bool, error) {
		if size += len(value); len(out) == limit || len(out) > 0 && size > iterationsBytesMax {
			more = true
			return false, nil
		}
		n, err := space.IterationOf(key)
		if err != nil {
			return false, err
		}
		it, err := records.DecodeIteration(n, bytes.Clone(value)) // Its checkpoint and result outlive the call.
		if err != nil {
			return false, fmt.Errorf("job %s: %w", id, err)
		}
		out = append(out, it)
		return true, nil
	})
	return out, more, err
}

// ReadIteration reads one finished iteration, or statedb.ErrNotFound.
func ReadIteration(g *statedb.Group, ns job.Namespace, id job.ID, n uint32) (records.Iteration, error) {
	v, err := g.Get(keys.In(g.Prefix()).Iteration(ns, id, n))
	if err != nil {
		return records.Iteration{}, err
	}
	return records.DecodeIteration(n, v)
}
