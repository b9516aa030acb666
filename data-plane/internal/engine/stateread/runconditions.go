package stateread

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// RunConditions are what decides when a job runs: the job and its queue, in one
// snapshot of the state.
type RunConditions struct {
	Job
	Config records.QueueConfig
	Limits QueueState // Without what budgets shut.
	// ShutUntil: a spent budget lets no job of the queue start before; 0 if none does.
	ShutUntil int64
	// TagShut is a tag of the job whose spent budget holds it when it would start, until
	// TagShutUntil; "" if there is none.
	TagShut      string
	TagShutUntil int64
	Counts       records.Counts
	// WaitsFor are the jobs that it waits for and that have not ended.
	WaitsFor []job.ID
	// Ahead is how many ready jobs of the queue come first, counted up to AheadMax.
	Ahead int
}

// AheadMax bounds the look at the ready order.
const AheadMax = 1000

// ReadRunConditions returns statedb.ErrNotFound if there is no such job.
func ReadRunConditions(g *statedb.Group, ns job.Namespace, id job.ID) (_ RunConditions, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(g.Prefix())
	var s RunConditions
	if s.Job, err = readJob(v, space, ns, id); err != nil {
		return RunConditions{}, err
	}
	name := s.Head.Queue
	if s.Config, _, err = Get(v, space.Queue(ns, keys.QueueConfig, name), records.DecodeQueueConfig); err != nil {
		return RunConditions{}, err
	}
	if s.Counts, _, err = Get(v, space.Queue(ns, keys.QueueCounts, name), records.DecodeCounts); err != nil {
		return RunConditions{}, err
	}
	if s.Blocked() {
		if s.WaitsFor, err = ReadWaits(v, space, ns, id); err != nil {
			return RunConditions{}, err
		}
	}
	if s.ShutUntil, err = readShut(v, space, ns, name); err != nil {
		return RunConditions{}, err
	}
	if s.TagShut, s.TagShutUntil, err = readShutTag(v, space, ns, s.Body.Tags); err != nil {
		return RunConditions{}, err
	}
	s.Limits = QueueStateOf(ns, name, &s.Config, &s.Counts, 0)
	if s.State == job.Pending && !s.Blocked() {
		s.Ahead, err = ahead(v, space, ns, &s)
	}
	return s, err
}

// ahead counts the ready jobs in front of one: all of higher priorities, and those
// of its own that became ready before.
func ahead(r Reader, space keys.Space, ns job.Namespace, s *RunConditions) (n int, err error) {
	for p := job.Priority(0); p <= s.Priority && n < AheadMax; p++ {
		from, to := space.ReadyFrom(ns, s.Head.Queue, p, s.Counts.Floor[p])
		if p == s.Priority {
			to = space.Ready(ns, s.Head.Queue, p, s.Pos)
		}
		if string(from) >= string(to) {
			continue
		}
		err := r.Scan(from, to, func([]byte, []byte) (bool, error) {
			n++
			return n < AheadMax, nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
