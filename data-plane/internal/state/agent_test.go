package state

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// agentRun leases the only job and acks or fails it.
func (r *replica) agentRun(t tb, ns job.Namespace, id job.ID, settle command.Command) Result {
	t.Helper()
	res := r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Minute})
	if len(res.Grants) != 1 {
		t.Fatalf("job %s was not handed out: %+v", idText(id), res)
	}
	return r.do(t, r.now, settle)
}

// Attempts belong to an iteration: after many iterations a failure is still the first.
func TestTrap38_IterationsSpendNoAttempts(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	again := &command.Ack{NS: ns, ID: id, More: &command.AckMore{Agent: command.AgentContinue}}
	r.do(t, r.now, &command.Enqueue{
		NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), More: &command.EnqueueMore{Agent: &command.AgentLimits{}},
	})
	for i := range 3 * job.DefaultMaxRetries {
		if res := r.agentRun(t, ns, id, again); res.Refusal != Accepted || res.State != job.Pending {
			t.Fatalf("iteration %d: %+v", i+1, res)
		}
	}
	res := r.agentRun(t, ns, id, &command.Fail{NS: ns, ID: id, Error: "no"})
	if res.State != job.Retrying || res.Remaining != job.DefaultMaxRetries-1 {
		t.Fatalf("a failure after many iterations: %+v", res)
	}
	r.audit(t)
}

func TestTrap39_IterationTimeoutEndsTheLease(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	limits := &command.AgentLimits{IterationTimeout: 10 * time.Second}
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), More: &command.EnqueueMore{Agent: limits}})
	g := r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Hour}).Grants[0]
	if g.Lease != limits.IterationTimeout {
		t.Fatalf("the worker was told a lease of %s", g.Lease)
	}
	h, err := ReadHead(r.store, ns, id)
	if err != nil {
		t.Fatal(err)
	}
	end := h.Started + int64(limits.IterationTimeout)
	if limit, err := ReadLeaseLimit(r.store, ns, id, &h); err != nil || limit != end || h.Due != end {
		t.Fatalf("the lease ends at %d, at the latest at %d, %v; want %d", h.Due, limit, err, end)
	}
	r.do(t, r.now, &command.Extend{NS: ns, ID: id, Epoch: g.Epoch, Until: end + int64(time.Hour)})
	res := r.do(t, end, &command.Fire{Due: Due{At: end, Kind: dueKind(job.Active), NS: ns, ID: id}})
	if j, err := ReadJob(r.store, ns, id); err != nil || res.State != job.Retrying || j.Crashes != 0 || j.Errors[0].Error != "iteration timed out" {
		t.Fatalf("after its time: %+v, %+v, %v", res, j, err)
	}
	r.audit(t)
}

// Only the latest iterations are kept, however many there are.
func TestAgent_KeepsTheLatestIterations(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	again := &command.Ack{NS: ns, ID: id, Checkpoint: []byte("1"), More: &command.AckMore{Agent: command.AgentContinue}}
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), More: &command.EnqueueMore{Agent: &command.AgentLimits{}}})
	const runs = IterationsKept + 5
	for range runs {
		r.agentRun(t, ns, id, again)
	}
	list, more, err := ReadIterations(r.store, ns, id, 0, runs)
	if err != nil || more || len(list) != IterationsKept || list[0].Number != 6 || list[IterationsKept-1].Number != runs {
		t.Fatalf("%d iterations, %v, %v", len(list), more, err)
	}
	if list, more, err = ReadIterations(r.store, ns, id, 10, 2); err != nil || !more || len(list) != 2 || list[0].Number != 11 {
		t.Fatalf("a page after 10: %+v, %v, %v", list, more, err)
	}
	r.do(t, r.now, &command.Delete{NS: ns, ID: id})
	if list, _, err = ReadIterations(r.store, ns, id, 0, runs); err != nil || len(list) != 0 {
		t.Fatalf("a deleted job has %d iterations, %v", len(list), err)
	}
	r.audit(t)
}
