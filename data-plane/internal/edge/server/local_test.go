package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// local is one shard with its use cases, and what tests look at behind the server.
type local struct {
	*queue.Service
	views *queue.Views
	bulk  *queue.Bulk
	shard *shard.Shard
	store *statedb.Group

	plan atomic.Pointer[queue.PlanLimits]
}

// place is where it is served.
func (l *local) place() Placement {
	return Placement{Local: l.Service, Views: l.views, Bulk: l.bulk, Index: 7}
}

func startLocal(t testing.TB) *local {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	stores, hub := grouptest.Open(t, grouptest.InMemory()), notify.New()
	g := stores.Replica(t, 2, grouptest.Setup{Group: group.Options{Alone: true}, Ring: hub.Notify})
	t.Cleanup(func() { fail(errors.Join(g.Shutdown(), stores.Close())) })
	s := shard.New(g.Group, g.Store, shard.Options{Plan: queue.Plan})
	eventually.True(t, patience, "the shard leads", g.Leading)
	models, err := readmodel.OpenDir(t.TempDir(), quiet())
	fail(err)
	model := readmodel.NewProjector(models, g.Store, hub, quiet())
	ctx, cancel := context.WithCancel(context.Background())
	var project sync.WaitGroup
	project.Go(func() { model.Run(ctx) })
	t.Cleanup(func() { cancel(); project.Wait(); fail(models.Close()) })
	l := &local{shard: s, store: g.Store}
	l.plan.Store(&queue.PlanLimits{})
	l.Service = queue.New(s, queue.Rules{Limits: func(job.Namespace) queue.PlanLimits { return *l.plan.Load() }, Keeps: func(job.Namespace) retention.Policy { return retention.Default() }})
	l.views = queue.NewViews(l.Service, model, hub)
	l.bulk = queue.NewBulk(l.views, quiet())
	return l
}

// ids are the jobs of namespace A, in the order in which they were made.
func (l *local) ids() (out []job.ID) {
	space := keys.In(l.store.Prefix())
	first, last := job.ID{}, job.ID(slices.Repeat([]byte{0xff}, len(job.ID{})))
	err := l.store.Scan(space.Job(nsA, keys.Head, first), space.Job(nsA, keys.Head, last), func(key, _ []byte) (bool, error) {
		id, err := space.Tail(key)
		out = append(out, id)
		return true, err
	})
	if err != nil {
		panic(err)
	}
	return out
}

// nth is the id of the nth job, from 1.
func (l *local) nth(n int) string { return l.ids()[n-1].String() }

func (l *local) stateOf(id job.ID) job.State {
	h, err := stateread.ReadHead(l.store, nsA, id)
	if err != nil {
		return 0
	}
	return h.State
}

// commands is how much was done so far.
func (l *local) commands() uint64 { return l.shard.Stats().Commands.Load() }

// parked is how many fetches wait.
func (l *local) parked() int64 { return l.shard.Stats().Parked.Load() }

// lostLead is the use cases of a shard that no longer leads.
func lostLead(t testing.TB) *queue.Service {
	t.Helper()
	l := startLocal(t)
	if err := l.shard.Group().Shutdown(); err != nil {
		t.Fatal(err)
	}
	return l.Service
}

// here stands in for use cases that a test does not call.
var here = &queue.Service{}

// noEvents refuses readers, whose streams would never end.
func noEvents(*queue.Views, queue.Caller, queue.EventFilter) (Events, error) {
	return nil, fault.New(fault.NotFound, "STILL", "nothing happens here")
}
