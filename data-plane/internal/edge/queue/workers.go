package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// workersMax is how many workers of a namespace are remembered; one more
	// replaces the one that was silent for longest.
	workersMax = 1000
	// workersAllMax is the same for a shard; more are not listed until some fall
	// silent.
	workersAllMax = 50_000
	// workerSilent is how long a worker is listed after its last call: twice the
	// longest wait of a fetch.
	workerSilent = 2 * WaitMax
)

// worker is a process that fetches jobs of a namespace.
type worker struct {
	ID        string
	Hostname  string
	Queues    []string // Of its last fetch.
	StartedAt time.Time
	LastSeen  time.Time // Fetch or heartbeat.
}

// workerRegistry is the leader's list of workers, taken from fetches and heartbeats and
// stored nowhere. After a change of leader it fills again within a minute.
type workerRegistry struct {
	mu    sync.Mutex // Guards the rest.
	of    map[job.Namespace]map[string]*worker
	n     int
	swept time.Time
}

func newWorkerRegistry() *workerRegistry {
	return &workerRegistry{of: make(map[job.Namespace]map[string]*worker)}
}

// touch records that a worker is alive; hostname and queues are those of a fetch.
func (r *workerRegistry) touch(ns job.Namespace, id, hostname string, queues []string, now time.Time) {
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

func (r *workerRegistry) add(ns job.Namespace, id string, now time.Time) *worker {
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
		r.of[ns] = make(map[string]*worker)
	}
	w := &worker{ID: id, StartedAt: now}
	r.of[ns][id] = w
	r.n++
	return w
}

// sweep forgets silent workers.
func (r *workerRegistry) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return // Do not walk a full registry for each new worker.
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

func (r *workerRegistry) forgetOne(ns job.Namespace) {
	var silent *worker
	for _, w := range r.of[ns] {
		if silent == nil || w.LastSeen.Before(silent.LastSeen) {
			silent = w
		}
	}
	delete(r.of[ns], silent.ID)
	r.n--
}

// list is the workers seen recently, by id.
func (r *workerRegistry) list(ns job.Namespace, now time.Time) []worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]worker, 0, len(r.of[ns]))
	for _, w := range r.of[ns] {
		if now.Sub(w.LastSeen) <= workerSilent {
			out = append(out, *w)
		}
	}
	slices.SortFunc(out, func(a, b worker) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Workers lists the workers of the namespace that this leader has seen; one without
// a name is not listed.
func (v *Views) Workers(_ context.Context, c Caller) ([]wire.Worker, error) {
	if err := v.leads(); err != nil {
		return nil, err
	}
	return each(v.service.workers.list(c.Namespace, time.Now()), viewWorker), nil
}

func viewWorker(w *worker) wire.Worker {
	queues, _ := json.Marshal(append([]string{}, w.Queues...)) // Texts have no error.
	return wire.Worker{ID: w.ID, Hostname: w.Hostname, Queues: string(queues), LastHeartbeat: w.LastSeen.UTC(), StartedAt: w.StartedAt.UTC()}
}

// touchWorkers records the workers that a frame names. A renewal without a name is
// recorded once the lease's worker is known.
func (s *Service) touchWorkers(c Caller, in *FrameInput) {
	now := time.Now()
	last := ""
	for i := range in.Heartbeats {
		if id := in.Heartbeats[i].WorkerID; id != last { // Mostly all are of one worker.
			s.workers.touch(c.Namespace, id, "", nil, now)
			last = id
		}
	}
	if f := in.Fetch; f != nil {
		s.workers.touch(c.Namespace, f.WorkerID, f.Hostname, f.Queues, now)
	}
}
