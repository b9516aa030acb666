package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Leftovers of a deleted or cleared queue are found by walking over the namespace's jobs: no
// index lists the jobs of a queue, because every key written per job costs all jobs
// some percent, and this walk is rare and off the path of everybody.

// Sweeping is a walk for what one deleted queue left. Its marks are only in memory:
// a new leader begins again.
type Sweeping struct {
	NS    job.Namespace
	Queue string

	Gen   uint64
	phase int
	job   job.ID // The last one that was looked at.
	lock  string // Where the walk over the locks goes on.
}

// Continues reports whether a walk is for what another one, read later, is for.
func (s *Sweeping) Continues(later *Sweeping) bool {
	return s.NS == later.NS && s.Queue == later.Queue && s.Gen == later.Gen
}

// ReadSweeps lists queues that are to be swept: some of each namespace, so that whoever
// sweeps them in turn lets no namespace wait for all that another one deleted.
func ReadSweeps(g *statedb.Group) ([]Sweeping, error) {
	space := keys.In(g.Prefix())
	var out []Sweeping
	from, to := space.Sweeps()
	for more := true; more && len(out) < sweepsRead; {
		more = false
		var of job.Namespace
		n := 0
		err := g.Scan(from, to, func(key, value []byte) (bool, error) {
			ns, queue, err := space.ParseSweep(key)
			if err != nil {
				return false, err
			}
			if ns != of {
				of, n = ns, 0
			}
			if n++; n > SweepsOfEach {
				from, more = space.SweepsAfter(ns), true
				return false, nil
			}
			mark, err := records.DecodeSweepMark(value)
			out = append(out, Sweeping{NS: ns, Queue: queue, Gen: mark.Gen})
			return err == nil, err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

const (
	// SweepsOfEach bounds the queues of a namespace in one look.
	SweepsOfEach = 32
	sweepsRead   = 4096 // Queues of one look, about; the others come with the next.
	HeadsWalked  = 4096 // Heads of one step, found or not.
)

// Phases of a walk. Locks of a queue lie together.
const (
	sweepUnique = iota
	sweepIdempotency
	sweepJobs
	sweepDone
)

// Next walks on and returns the next command to propose, or nil if this part had
// nothing of the deleted queue. After the last one, whose Done is set, it must not
// be called again.
func (s *Sweeping) Next(g *statedb.Group) (*command.Sweep, error) {
	c := &command.Sweep{NS: s.NS, Queue: s.Queue}
	var err error
	switch s.phase {
	case sweepUnique:
		c.Unique, err = s.locks(g, keys.Unique)
	case sweepIdempotency:
		c.Idempotency, err = s.locks(g, keys.Idempotency)
	case sweepJobs:
		c.Jobs, err = s.jobs(g)
	default:
		c.Done = s.Gen
		return c, nil
	}
	if err != nil || len(c.Unique)+len(c.Idempotency)+len(c.Jobs) == 0 {
		return nil, err
	}
	return c, nil
}

func (s *Sweeping) locks(g *statedb.Group, family byte) ([]string, error) {
	space := keys.In(g.Prefix())
	var found []string
	walked, more := 0, false
	gen, err := readGeneration(g, space, s.NS, s.Queue)
	if err != nil {
		return nil, err
	}
	from, to := space.Locks(s.NS, family, s.Queue, s.lock)
	err = g.Scan(from, to, func(key, value []byte) (bool, error) {
		name, err := space.LockKey(key)
		if err != nil {
			return false, err
		}
		if walked == HeadsWalked || len(found) == command.SweepMax {
			s.lock, more = name, true
			return false, nil
		}
		walked++
		l, err := records.DecodeLock(value)
		if err != nil || l.Gen == gen.Own || family == keys.Idempotency && gen.Keeps(l.Gen) {
			return true, err
		}
		found = append(found, name) // Apply knows whether the owner of a unique lock is there.
		return true, nil
	})
	if !more {
		s.phase++
		s.lock = ""
	}
	return found, err
}

func (s *Sweeping) jobs(g *statedb.Group) ([]job.ID, error) {
	space := keys.In(g.Prefix())
	var found []job.ID
	walked, more := 0, false
	gen, err := readGeneration(g, space, s.NS, s.Queue)
	if err != nil {
		return nil, err
	}
	from, to := space.Heads(s.NS, s.job)
	err = g.Scan(from, to, func(key, value []byte) (bool, error) {
		if walked == HeadsWalked || len(found) == command.SweepMax {
			more = true
			return false, nil
		}
		id, err := space.HeadID(key)
		if err != nil {
			return false, err
		}
		s.job = id
		walked++
		h, err := records.DecodeHead(value)
		if err == nil && h.Queue == s.Queue && !gen.Has(h.Gen, h.State.Leased()) {
			found = append(found, id)
		}
		return true, err
	})
	if !more {
		s.phase = sweepDone
	}
	return found, err
}
