package stateread

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// DeletedQueue is a queue whose jobs are gone but not yet swept: those of a generation
// before Alive. Of a queue that was only cleared, workers may hold some of Kept and later,
// which are there; Kept is Alive if that is not so.
type DeletedQueue struct{ Kept, Alive uint64 }

// Has reports whether a job of a generation is there.
func (q DeletedQueue) Has(generation uint64, leased bool) bool {
	return generation >= q.Alive || leased && generation >= q.Kept
}

// ReadDeletedQueues returns the queues of a namespace that are still to be swept, by
// name. It reads one snapshot of the state, and nothing of other namespaces.
func ReadDeletedQueues(g *statedb.Group, ns job.Namespace) (_ map[string]DeletedQueue, err error) {
	space := keys.In(g.Prefix())
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	out := make(map[string]DeletedQueue)
	from, to := space.SweepsOf(ns)
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		_, queue, err := space.ParseSweep(key)
		if err != nil {
			return false, err
		}
		mark, err := records.DecodeSweepMark(value)
		out[queue] = DeletedQueue{Kept: mark.Gen, Alive: mark.Gen}
		return err == nil, err
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	// Those that were made again, or only cleared: their own generation decides.
	from, to = space.Queues(ns, keys.QueueConfig)
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		queue, err := space.QueueName(key)
		if err != nil {
			return false, err
		}
		q, deleted := out[queue]
		if !deleted {
			return true, nil
		}
		cfg, err := records.DecodeQueueConfig(value)
		if err != nil {
			return false, err
		}
		gen := cfg.Generation()
		q.Alive = gen.Own
		if q.Kept = q.Alive; gen.Kept != 0 {
			q.Kept = gen.Kept - 1
		}
		out[queue] = q
		return true, nil
	})
	return out, err
}
