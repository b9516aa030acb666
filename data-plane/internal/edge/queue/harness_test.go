package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// rig is the service of one shard with real raft and real stores.
type rig struct {
	*Service
	t      *testing.T
	caller Caller
	stores *grouptest.Stores
	hub    *notify.Hub
}

// auditedNamespace is of a tenant that wants people's reads of payloads written down.
var auditedNamespace = job.Namespace{6}

func start(t *testing.T) *rig {
	t.Helper()
	r := open(t, grouptest.InMemory())
	t.Cleanup(r.stop)
	return r
}

func open(t *testing.T, d grouptest.Disks) *rig {
	t.Helper()
	stores, hub := grouptest.Open(t, d), notify.New()
	g := stores.Replica(t, 2, grouptest.Setup{Group: group.Options{Alone: true}, Ring: hub.Notify})
	r := &rig{
		Service: New(shard.New(g.Group, g.Store, shard.Options{Plan: Plan}), Rules{
			Keeps:       func(job.Namespace) retention.Policy { return retention.Default() },
			AuditsReads: func(ns job.Namespace) bool { return ns == auditedNamespace },
		}), t: t, stores: stores, hub: hub,
		caller: Caller{Namespace: job.Namespace{5}, Principal: "key_1", Peer: "10.0.0.1", Rights: permission.Here{All: permission.OfLevel(permission.OfNamespace)}},
	}
	eventually.True(r.t, patience, "the shard leads", g.Leading)
	return r
}

func (r *rig) stop() {
	if err := errors.Join(r.shard.Group().Shutdown(), r.stores.Close()); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) enqueue(in EnqueueInput) job.ID {
	r.t.Helper()
	if in.Queue == "" {
		in.Queue = "q"
	}
	res, err := r.Enqueue(r.ctx(), r.caller, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return idOf(res.JobID)
}

func (r *rig) fetch(in FetchInput) []wire.FetchedJob {
	r.t.Helper()
	if in.Queues == nil {
		in.Queues = []string{"q"}
	}
	g, err := r.Fetch(r.ctx(), r.caller, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// one fetches exactly one job.
func (r *rig) one() wire.FetchedJob {
	r.t.Helper()
	g := r.fetch(FetchInput{WorkerID: "w1", Hostname: "h1"})
	if len(g) != 1 {
		r.t.Fatalf("%d grants, want 1", len(g))
	}
	return g[0]
}

func (r *rig) job(id job.ID) wire.Job {
	r.t.Helper()
	j, err := r.Job(r.ctx(), r.caller, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

func reason(err error) string {
	if f := fault.As(err); f != nil {
		return f.Reason
	}
	return "no fault"
}

// paths are the refused fields of err, in order.
func paths(err error) []string {
	f := fault.As(err)
	if f == nil || f.Code != fault.Invalid {
		return []string{"not a validation error"}
	}
	return fieldPaths(f.Fields)
}

func fieldPaths(fields []fault.Field) []string {
	out := []string{}
	for _, f := range fields {
		out = append(out, f.Path)
	}
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// parsed reads an id that the service wrote.
func parsed[ID any](text string, parse func(string) (ID, error)) ID {
	id, err := parse(text)
	if err != nil {
		panic(err)
	}
	return id
}

func idOf(text string) job.ID               { return parsed(text, job.ParseID) }
func scheduleOf(text string) job.ScheduleID { return parsed(text, job.ParseScheduleID) }

func ptr[T any](v T) *T { return &v }
