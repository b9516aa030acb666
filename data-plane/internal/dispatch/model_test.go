package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
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
func (m *model) drawJob(ok func(state.Head) bool) (job.ID, bool) {
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
	switch rapid.IntRange(0, 6).Draw(m.t, "noise") {
	case 0, 1:
		q, p := m.drawQueue(), job.Priority(rapid.IntRange(0, job.Priorities-1).Draw(m.t, "priority"))
		for range rapid.IntRange(1, 5).Draw(m.t, "n") {
			c := m.newJob(q, p)
			m.fresh[c.ID] = q
			cmds = append(cmds, c)
		}
	case 2:
		if id, ok := m.drawJob(func(h state.Head) bool { return h.State == job.Pending }); ok {
			cmds = append(cmds, &command.Cancel{NS: testNS, ID: id})
		}
	case 3:
		if id, ok := m.drawJob(func(h state.Head) bool { return h.State == job.Cancelled || h.State == job.Completed }); ok {
			cmds = append(cmds, &command.Retry{NS: testNS, ID: id})
		}
	case 4:
		if id, ok := m.drawJob(func(h state.Head) bool { return h.State == job.Active }); ok {
			cmds = append(cmds, &command.Fail{NS: testNS, ID: id, Release: true})
		}
	case 5:
		if id, ok := m.drawJob(func(h state.Head) bool { return h.State == job.Active }); ok {
			cmds = append(cmds, &command.Ack{NS: testNS, ID: id})
		}
	default:
		q := m.drawQueue()
		m.paused[q] = !m.paused[q]
		cmds = append(cmds, &command.Pause{NS: testNS, Queue: q, Paused: m.paused[q]})
	}
	return cmds
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
		cmds = append(cmds, m.noise()...)
	}
	if len(cmds) > 0 {
		m.apply(m.t, cmds...)
	}
	maps.Copy(m.jobs, m.fresh)
	clear(m.fresh)
}

// take checks one fetch between two entries against the list.
func (m *model) take() {
	queue, n := m.drawQueue(), rapid.IntRange(1, 7).Draw(m.t, "count")
	want := m.pending(queue)
	if m.paused[queue] {
		want = nil
	}
	want = want[:min(n, len(want))]
	same(m.t, "take from "+queue, idsOf(m.fetch(m.t, queue, n)), want)
}

func TestTable_AgainstASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{rig: newRig(t), t: t, jobs: map[job.ID]string{}, fresh: map[job.ID]string{}, paused: map[string]bool{}}
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
			m.apply(t, &command.Pause{NS: testNS, Queue: queue, Paused: false})
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
