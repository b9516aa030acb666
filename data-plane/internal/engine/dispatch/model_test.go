package dispatch

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// The model is the list of pending jobs, read from their heads and sorted by
// priority and place; it says what each Take must give (INV-8).

var modelQueues = []string{"a", "b"}

type model struct {
	*rig
	t      *rapid.T
	jobs   map[job.ID]string // Every job ever, by queue.
	fresh  map[job.ID]string // Those of the entry being built.
	paused map[string]bool
	max    map[string]int
	rate   map[string]command.Throttle
	starts map[string][]int64 // When leases began, of queues with a throttle.
}

// pending lists a queue's ready jobs in the order they must go.
func (m *model) pending(queue string) []job.ID {
	type place struct {
		id  job.ID
		pri job.Priority
		pos keys.Position
	}
	var all []place
	for id, q := range m.jobs {
		if h := m.head(m.t, id); q == queue && h.State == job.Pending {
			all = append(all, place{id, h.Priority, h.Pos})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.pri, b.pri), cmp.Compare(a.pos.Index, b.pos.Index), cmp.Compare(a.pos.Ordinal, b.pos.Ordinal))
	})
	ids := make([]job.ID, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	return ids
}

func (m *model) drawQueue() string { return rapid.SampledFrom(modelQueues).Draw(m.t, "queue") }

// drawJob picks a job for which ok holds.
func (m *model) drawJob(ok func(records.Head) bool) (job.ID, bool) {
	var ids []job.ID
	for id := range m.jobs {
		if ok(m.head(m.t, id)) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return job.ID{}, false
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return rapid.SampledFrom(ids).Draw(m.t, "job"), true
}

// noise draws commands that change who is ready.
func (m *model) noise() []command.Command {
	var cmds []command.Command
	switch rapid.IntRange(0, 9).Draw(m.t, "noise") {
	case 7, 8:
		cmds = append(cmds, m.settings())
	case 9:
		if rapid.IntRange(0, 3).Draw(m.t, "destroy") == 0 {
			cmds = append(cmds, &command.DeleteQueue{NS: testNS, Queue: m.drawQueue()})
		}
	case 0, 1:
		q, p := m.drawQueue(), job.Priority(rapid.IntRange(0, job.Priorities-1).Draw(m.t, "priority"))
		for range rapid.IntRange(1, 5).Draw(m.t, "n") {
			c := m.newJob(q, p)
			m.fresh[c.ID] = q
			cmds = append(cmds, c)
		}
	case 2:
		if id, ok := m.drawJob(func(h records.Head) bool { return h.State == job.Pending }); ok {
			cmds = append(cmds, &command.Cancel{NS: testNS, ID: id})
		}
	case 3:
		if id, ok := m.drawJob(func(h records.Head) bool { return h.State == job.Cancelled || h.State == job.Completed }); ok {
			cmds = append(cmds, &command.Retry{NS: testNS, ID: id})
		}
	case 4:
		if id, ok := m.drawJob(func(h records.Head) bool { return h.State == job.Active }); ok {
			cmds = append(cmds, &command.Fail{NS: testNS, ID: id, Release: true})
		}
	case 5:
		if id, ok := m.drawJob(func(h records.Head) bool { return h.State == job.Active }); ok {
			cmds = append(cmds, &command.Ack{NS: testNS, ID: id})
		}
	default:
		q := m.drawQueue()
		cmds = append(cmds, &command.Pause{NS: testNS, Queue: q, Paused: !m.paused[q]})
	}
	return cmds
}

// modelWindow is so short that no two entries are one run of starts, so that the
// model knows exactly when the throttle opens.
const modelWindow = 20 * time.Millisecond

func (m *model) settings() command.Command {
	c := &command.SetQueue{NS: testNS, Queue: m.drawQueue(), MaxConcurrency: uint32(rapid.IntRange(0, 3).Draw(m.t, "max"))}
	c.Set = rapid.SampledFrom([]command.Settings{command.SetConcurrency, command.SetThrottle, command.SetConcurrency | command.SetThrottle}).Draw(m.t, "set")
	if limit := rapid.IntRange(0, 4).Draw(m.t, "limit"); limit > 0 {
		c.Throttle = command.Throttle{Limit: uint32(limit), Window: modelWindow}
	}
	return c
}

// learn follows what an entry did to the queues.
func (m *model) learn(cmds []command.Command, results []state.Result) {
	for i, c := range cmds {
		switch c := c.(type) {
		case *command.SetQueue:
			if c.Set&command.SetConcurrency != 0 {
				m.max[c.Queue] = int(c.MaxConcurrency)
			}
			if c.Set&command.SetThrottle != 0 {
				m.rate[c.Queue] = c.Throttle
				if c.Throttle.IsZero() {
					delete(m.starts, c.Queue)
				}
			}
		case *command.Pause:
			m.paused[c.Queue] = c.Paused
		case *command.DeleteQueue:
			delete(m.paused, c.Queue)
			delete(m.max, c.Queue)
			delete(m.rate, c.Queue)
			delete(m.starts, c.Queue)
		case *command.Fetch:
			for _, g := range results[i].Grants {
				if !m.rate[g.Queue].IsZero() {
					m.starts[g.Queue] = append(m.starts[g.Queue], m.now)
				}
			}
		}
	}
	for id, queue := range m.jobs { // A deleted queue takes its jobs with it.
		if _, err := stateread.ReadHead(m.store, testNS, id); errors.Is(err, statedb.ErrNotFound) && slices.ContainsFunc(cmds, func(c command.Command) bool {
			d, ok := c.(*command.DeleteQueue)
			return ok && d.Queue == queue
		}) {
			delete(m.jobs, id)
		}
	}
}

// room is how many jobs of a queue the next entry may hand out.
func (m *model) room(queue string) int {
	room := 1 << 20
	if m.paused[queue] {
		return 0
	}
	if limit := m.max[queue]; limit > 0 {
		room = limit
		for id, q := range m.jobs {
			if q == queue && m.head(m.t, id).State.Leased() {
				room--
			}
		}
	}
	if t := m.rate[queue]; !t.IsZero() {
		free := int(t.Limit)
		for _, at := range m.starts[queue] {
			if m.now+int64(time.Millisecond)-at < int64(t.Window) {
				free--
			}
		}
		room = min(room, free)
	}
	return max(room, 0)
}

// entry is one entry of noise and fetches in any order; what apply refuses is
// ready again, and nothing is granted that was not pending.
func (m *model) entry() {
	var cmds []command.Command
	for range rapid.IntRange(1, 5).Draw(m.t, "parts") {
		if rapid.Bool().Draw(m.t, "fetch") {
			if c := m.choose(m.t, m.drawQueue(), rapid.IntRange(1, 4).Draw(m.t, "count")); len(c.Jobs) > 0 {
				cmds = append(cmds, c)
			}
			continue
		}
		noise := m.noise()
		if err := m.Frees(noise, testNS, modelQueues, 3); err != nil {
			m.t.Fatalf("frees: %v", err)
		}
		cmds = append(cmds, noise...)
	}
	maps.Copy(m.jobs, m.fresh)
	clear(m.fresh)
	if len(cmds) > 0 {
		m.learn(cmds, m.apply(m.t, cmds...))
	}
}

// take checks one fetch between two entries against the list.
func (m *model) take() {
	queue, n := m.drawQueue(), rapid.IntRange(1, 7).Draw(m.t, "count")
	want := m.pending(queue)
	want = want[:min(n, len(want), m.room(queue))]
	c := m.choose(m.t, queue, n)
	var got []job.ID
	if len(c.Jobs) > 0 {
		results := m.apply(m.t, c)
		m.learn([]command.Command{c}, results)
		got = idsOf(results[0].Grants)
		same(m.t, "chosen from "+queue, c.Jobs, got)
	}
	same(m.t, "take from "+queue, got, want)
}

func TestTable_AgainstASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{rig: newRig(t), t: t, jobs: map[job.ID]string{}, fresh: map[job.ID]string{}, paused: map[string]bool{},
			max: map[string]int{}, rate: map[string]command.Throttle{}, starts: map[string][]int64{}}
		defer m.close(t)
		m.rows, m.places = rapid.IntRange(1, 4).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "places")
		t.Repeat(map[string]func(*rapid.T){
			"entry": func(t *rapid.T) { m.t = t; m.entry() },
			"take":  func(t *rapid.T) { m.t = t; m.take() },
			"new leader": func(*rapid.T) {
				rows, places := m.rows, m.places
				m.newLeader()
				m.rows, m.places = rows, places
			},
			"": func(t *rapid.T) {
				for _, q := range modelQueues {
					m.belowFloor(t, q)
				}
			},
		})
		m.t = t
		for _, queue := range modelQueues {
			m.apply(t, &command.SetQueue{NS: testNS, Queue: queue, Set: command.SetPaused | command.SetConcurrency | command.SetThrottle})
			want := m.pending(queue)
			same(t, "all that is left in "+queue, m.drain(t, queue, 3), want)
		}
	})
}

// belowFloor: no ready job stands before its floor.
func (m *model) belowFloor(t *rapid.T, queue string) {
	for id, q := range m.jobs {
		if h := m.head(t, id); q == queue && h.State == job.Pending {
			f := m.floor(t, queue, h.Priority)
			if h.Pos.Less(keys.Position{Index: f[0], Ordinal: uint32(f[1])}) {
				t.Fatalf("job %s is ready at %v, below the floor %v", id, h.Pos, f)
			}
		}
	}
}
