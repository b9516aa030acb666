package stateread

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadJobUsage reads what a job reported; nil if it reported nothing.
func ReadJobUsage(g *statedb.Group, ns job.Namespace, id job.ID) (*records.JobUsage, error) {
	return readJobUsage(g, keys.In(g.Prefix()), ns, id)
}

func readJobUsage(r Reader, space keys.Space, ns job.Namespace, id job.ID) (*records.JobUsage, error) {
	u, _, err := Get(r, space.Job(ns, keys.JobUsage, id), records.DecodeJobUsage)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	return u, nil
}

// HourUsage is what the jobs of a queue used a model for in an hour.
type HourUsage struct {
	Hour                   uint64 // Since 1970.
	Queue, Provider, Model string
	records.Meter
}

// ReadUsage calls f for the usage of the hours in [from, to), in order, until it
// answers false.
func ReadUsage(g *statedb.Group, ns job.Namespace, from, to uint64, f func(HourUsage) bool) error {
	space := keys.In(g.Prefix())
	lower, upper := space.UsageBetween(ns, from, to)
	return g.Scan(lower, upper, func(key, value []byte) (bool, error) {
		var u HourUsage
		var err error
		if u.Hour, u.Queue, u.Provider, u.Model, err = space.UsageOf(key); err != nil {
			return false, err
		}
		if u.Meter, err = records.DecodeMeter(value); err != nil {
			return false, fmt.Errorf("usage of queue %q: %w", u.Queue, err)
		}
		return f(u), nil
	})
}
