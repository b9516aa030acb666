package queue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// workersMax of a namespace are remembered; one more takes the place of the one
	// that was silent for longest.
	workersMax = 1000
	// workersAllMax of a shard are; more are not listed until some are silent.
	workersAllMax = 50_000
	// workerSilent is how long a worker is listed after it was heard of: twice the
	// longest wait of a fetch.
	workerSilent = 2 * WaitMax
)

// Worker is somebody who fetches jobs of a namespace.
type Worker struct {
	ID        string
	Hostname  string
	Queues    []string // Of its last fetch.
	StartedAt time.Time
	LastSeen  time.Time // Fetch or heartbeat.
}

// roster is the leader's memory of who works: heard in fetches and heartbeats,
// written nowhere. After a change of leaders it fills again within a minute.
type roster struct {
	mu    sync.Mutex // Guards the rest.
	of    map[job.Namespace]map[string]*Worker
	n     int
	swept time.Time
}

func newRoster() *roster { return &roster{of: make(map[job.Namespace]map[string]*Worker)} }

// hear notes that a worker lives; hostname and queues are those of a fetch.
func (r *roster) hear(ns job.Namespace, id, hostname string, queues []string, now time.Time) {
	if id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.of[ns][id]
	if w == nil {
		if w = r.add(ns, id, now); w == nil {
			return
		}
	}
	w.LastSeen = now
	if len(queues) > 0 {
		w.Hostname, w.Queues = hostname, queues
	}
}

func (r *roster) add(ns job.Namespace, id string, now time.Time) *Worker {
	if now.Sub(r.swept) > workerSilent || r.n >= workersAllMax {
		r.sweep(now)
	}
	if len(r.of[ns]) >= workersMax {
		r.forgetOne(ns)
	}
	if r.n >= workersAllMax {
		return nil
	}
	if r.of[ns] == nil {
		r.of[ns] = make(map[string]*Worker)
	}
	w := &Worker{ID: id, StartedAt: now}
	r.of[ns][id] = w
	r.n++
	return w
}

// sweep forgets who is silent.
func (r *roster) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return // A full roster is not walked for each newcomer.
	}
	r.swept = now
	for ns, workers := range r.of {
		for id, w := range workers {
			if now.Sub(w.LastSeen) > workerSilent {
				delete(workers, id)
				r.n--
			}
		}
		if len(workers) == 0 {
			delete(r.of, ns)
		}
	}
}

func (r *roster) forgetOne(ns job.Namespace) {
	var silent *Worker
	for _, w := range r.of[ns] {
		if silent == nil || w.LastSeen.Before(silent.LastSeen) {
			silent = w
		}
	}
	delete(r.of[ns], silent.ID)
	r.n--
}

// list is who was heard of lately, by id.
func (r *roster) list(ns job.Namespace, now time.Time) []Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Worker, 0, len(r.of[ns]))
	for _, w := range r.of[ns] {
		if now.Sub(w.LastSeen) <= workerSilent {
			out = append(out, *w)
		}
	}
	slices.SortFunc(out, func(a, b Worker) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Workers lists who fetches jobs of the namespace, as far as this leader heard of
// them; a worker without a name is not listed.
func (v *Views) Workers(_ context.Context, c Caller) ([]Worker, error) {
	if err := v.leads(); err != nil {
		return nil, err
	}
	return v.service.workers.list(c.Namespace, time.Now()), nil
}

// hearOf notes the workers that a frame names. Who renews a lease without a name is
// noted when it is known whose lease it is.
func (s *Service) hearOf(c Caller, in *FrameInput) {
	now := time.Now()
	last := ""
	for i := range in.Heartbeats {
		if id := in.Heartbeats[i].WorkerID; id != last { // Mostly all are one's own.
			s.workers.hear(c.Namespace, id, "", nil, now)
			last = id
		}
	}
	if f := in.Fetch; f != nil {
		s.workers.hear(c.Namespace, f.WorkerID, f.Hostname, f.Queues, now)
	}
}
