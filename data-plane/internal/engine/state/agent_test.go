package state

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
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
	again := &command.Ack{NS: ns, ID: id, Agent: command.AgentContinue}
	r.do(t, r.now, &command.Enqueue{
		NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), Agent: &command.AgentLimits{},
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
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), Agent: limits})
	g := r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Hour}).Grants[0]
	if g.Lease != limits.IterationTimeout {
		t.Fatalf("the worker was told a lease of %s", g.Lease)
	}
	h, err := stateread.ReadHead(r.store, ns, id)
	if err != nil {
		t.Fatal(err)
	}
	end := h.Started + int64(limits.IterationTimeout)
	if limit, err := stateread.ReadLeaseLimit(r.store, ns, id, &h); err != nil || limit != end || h.Due != end {
		t.Fatalf("the lease ends at %d, at the latest at %d, %v; want %d", h.Due, limit, err, end)
	}
	r.do(t, r.now, &command.Extend{NS: ns, ID: id, Epoch: g.Epoch, Until: end + int64(time.Hour)})
	res := r.do(t, end, &command.Fire{Due: keys.Due{At: end, Kind: dueKind(job.Active), NS: ns, ID: id}})
	if j, err := stateread.ReadJob(r.store, ns, id); err != nil || res.State != job.Retrying || j.Crashes != 0 || j.Errors[0].Text() != "iteration timed out" {
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
	again := &command.Ack{NS: ns, ID: id, Checkpoint: []byte("1"), Agent: command.AgentContinue}
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), Agent: &command.AgentLimits{}})
	const runs = IterationsKept + 5
	for range runs {
		r.agentRun(t, ns, id, again)
	}
	list, more, err := stateread.ReadIterations(r.store, ns, id, 0, runs)
	if err != nil || more || len(list) != IterationsKept || list[0].Number != 6 || list[IterationsKept-1].Number != runs {
		t.Fatalf("%d iterations, %v, %v", len(list), more, err)
	}
	if list, more, err = stateread.ReadIterations(r.store, ns, id, 10, 2); err != nil || !more || len(list) != 2 || list[0].Number != 11 {
		t.Fatalf("a page after 10: %+v, %v, %v", list, more, err)
	}
	r.do(t, r.now, &command.Delete{NS: ns, ID: id})
	if list, _, err = stateread.ReadIterations(r.store, ns, id, 0, runs); err != nil || len(list) != 0 {
		t.Fatalf("a deleted job has %d iterations, %v", len(list), err)
	}
	r.audit(t)
}

// An acked iteration is over, even if a person wanted the job held meanwhile:
// the next one has all its attempts.
func TestTrap38_AnIterationAckedWhileToBeHeldSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	fetch := &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Minute}
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), Agent: &command.AgentLimits{}})
	for range 2 { // A lease that runs out counts its attempt.
		r.do(t, r.now, fetch)
		if h := r.audit(t)[id]; h.Crashes < 1 {
			r.do(t, h.Due, &command.Fire{Due: keys.Due{At: h.Due, Kind: dueKind(job.Active), NS: ns, ID: id}})
		}
	}
	r.do(t, r.now, &command.Hold{NS: ns, ID: id})
	r.do(t, r.now, &command.Ack{NS: ns, ID: id, By: command.Holder{Worker: "w"}, Agent: command.AgentContinue})
	if h := r.audit(t)[id]; h.State != job.Held || h.Attempt != 0 || h.Crashes != 0 {
		t.Fatalf("held after its iteration: %s, attempt %d, crashes %d", h.State, h.Attempt, h.Crashes)
	}
	r.do(t, r.now, &command.Decide{NS: ns, ID: id, Approve: true})
	if g := r.do(t, r.now, fetch).Grants; len(g) != 1 || g[0].Attempt != 1 || g[0].Iteration != 2 {
		t.Errorf("the next iteration begins with %+v", g)
	}
}

// Only a repeat of the ack that ended the latest iteration succeeds: an older one has
// lost its lease, whether the next iteration runs or a person is asked.
func TestAgent_AnAckOfAnOlderIterationIsRefused(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry(), Agent: &command.AgentLimits{}})
	var acks []command.Command
	for _, says := range []command.AgentStatus{command.AgentContinue, command.AgentHold} {
		g := r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Minute}).Grants[0]
		by := command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}
		acks = append(acks, &command.Ack{NS: ns, ID: id, By: by, Agent: says})
		if res := r.do(t, r.now, acks[len(acks)-1]); res.Refusal != Accepted {
			t.Fatalf("ack answered %+v", res)
		}
	}
	if res := r.do(t, r.now, acks[1]); res.Refusal != Accepted {
		t.Errorf("the latest ack said again answered %d", res.Refusal)
	}
	if res := r.do(t, r.now, acks[0]); res.Refusal != LeaseLost {
		t.Errorf("an older ack answered %d", res.Refusal)
	}
}
