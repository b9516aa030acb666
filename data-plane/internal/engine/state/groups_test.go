package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

var groupNS = job.Namespace{'n', '1'}

// groupRig drives one replica by short commands.
type groupRig struct {
	*testing.T
	r *replica
}

func newGroupRig(t *testing.T) *groupRig {
	g := &groupRig{t, newReplica(t)}
	t.Cleanup(func() {
		g.r.audit(t)
		g.r.close(t)
	})
	return g
}

func (g *groupRig) do(cmds ...command.Command) []Result {
	g.Helper()
	res := g.r.apply(g, logEntry{now: g.r.now + int64(time.Second), cmds: cmds})[0].Results
	g.r.audit(g)
	return res
}

// groupJob is a job with the ties to others that c names; nil names none.
func groupJob(id string, c *command.Enqueue) *command.Enqueue {
	if c == nil {
		c = new(command.Enqueue)
	}
	c.NS, c.ID, c.Queue, c.Payload, c.Priority = groupNS, idOf(id), "q", []byte("{}"), job.High
	c.Retry = command.RetryPolicy{MaxRetries: 1, Backoff: job.BackoffFixed, BaseDelay: time.Second, MaxDelay: time.Minute}
	c.Tags, c.TraceParent = []command.Tag{{Key: "k", Value: "v"}}, "trace"
	return c
}

func threeSteps() *command.Chain {
	return &command.Chain{
		ID:        job.ChainID{'c'},
		Steps:     []command.Step{{Queue: "q"}, {Queue: "q2", Payload: []byte(`{"n":2}`)}, {Queue: "q3", Payload: []byte(`[3]`)}},
		OnFailure: &command.Step{Queue: "bad"}, OnExit: &command.Step{Queue: "exit", Payload: []byte(`{"x":1}`)},
	}
}

func groupFetch(ids ...job.ID) *command.Fetch {
	return &command.Fetch{NS: groupNS, Jobs: ids, Worker: "w", Lease: time.Hour}
}

func groupAck(id job.ID) *command.Ack { return &command.Ack{NS: groupNS, ID: id} }

func (g *groupRig) chain() records.ChainState {
	g.Helper()
	c, err := stateread.ReadChain(g.r.store, groupNS, job.ChainID{'c'})
	if err != nil {
		g.Fatal(err)
	}
	return c.ChainState
}

func (g *groupRig) batch(name byte) *records.Batch {
	g.Helper()
	b, err := stateread.ReadBatch(g.r.store, groupNS, job.BatchID{name})
	if err != nil {
		g.Fatal(err)
	}
	return &b
}

func (g *groupRig) job(id job.ID) *stateread.Job {
	g.Helper()
	j, err := stateread.ReadJob(g.r.store, groupNS, id)
	if err != nil {
		g.Fatalf("job %s: %v", id, err)
	}
	return &j
}

func (g *groupRig) state(id string) job.State {
	g.Helper()
	return g.job(idOf(id)).State
}

// deliver fires the due rows that notify dependents, until there are none.
func (g *groupRig) deliver() (entries int) {
	g.Helper()
	for ; ; entries++ {
		rows, err := bothDue(g.r.store, 0, g.r.now+1, 1000)
		if err != nil {
			g.Fatal(err)
		}
		var cmds []command.Command
		for _, d := range rows {
			if d.Kind == keys.DueDeliver {
				cmds = append(cmds, &command.Fire{Due: d})
			}
		}
		if len(cmds) == 0 {
			return entries
		}
		g.do(cmds...)
	}
}

// A chain continues however its acks arrive: use cases and protocols batch them
// into entries, and apply has one way for all (D10: batched acks skipped chains; D2:
// ids of steps derive from the chain, not from a counter of the replica).
func TestTrap24_D2_D10_ChainGoesOnHoweverAcksAreGathered(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(groupJob("A", &command.Enqueue{Chain: threeSteps()}), groupJob("B", nil), groupJob("C", nil))
	a := idOf("A")
	ack := groupAck(a)
	ack.Result = []byte(`"r"`)
	g.do(groupFetch(a, idOf("B"), idOf("C")), groupAck(idOf("B")), ack, groupAck(a), groupAck(idOf("C")))
	s := g.chain()
	if len(s.Jobs) != 2 || s.Jobs[1] != job.Derived(g.r.now, [16]byte{'c'}, 1) {
		t.Fatalf("after the first step: %+v", s)
	}
	second := g.job(s.Jobs[1])
	want := fmt.Sprintf(`{"previous_job_id":"%s","previous_result":"r","n":2}`, a)
	if string(second.Payload) != want || second.Body.ChainStep != 1 || second.Body.Chain != (job.ChainID{'c'}) {
		t.Fatalf("second step: %s, %+v", second.Payload, second.Body)
	}
	// The step, its fetch and its ack share an entry with the next step's.
	g.do(groupFetch(s.Jobs[1]), groupAck(s.Jobs[1]), groupFetch(job.Derived(g.r.now+int64(time.Second), [16]byte{'c'}, 2)))
	s = g.chain()
	if len(s.Jobs) != 3 || g.job(s.Jobs[2]).State != job.Active {
		t.Fatalf("after the second step: %+v", s)
	}
	g.do(groupAck(s.Jobs[2]))
	if s = g.chain(); s.Status != records.ChainCompleted || g.job(s.OnExit).Head.Queue != "exit" {
		t.Fatalf("at the end: %+v", s)
	}
	if n := len(g.r.audit(t)); n != 6 {
		t.Fatalf("%d jobs, want three, two steps and on_exit", n)
	}
}

// D11: a next step is in its namespace's shard, in the ready order of its queue,
// and is found by whoever fetches from it.
func TestD11_ANextStepIsReadyInItsQueue(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(groupJob("A", &command.Enqueue{Chain: threeSteps()}))
	applied := g.r.apply(t, logEntry{now: g.r.now + 1, cmds: []command.Command{groupFetch(idOf("A")), groupAck(idOf("A"))}})[0]
	next := g.chain().Jobs[1]
	if !slices.ContainsFunc(applied.Ready, func(r Ready) bool { return r.ID == next && r.Queue == "q2" && r.NS == groupNS }) {
		t.Fatalf("ready: %+v", applied.Ready)
	}
	if g.do(groupFetch(next))[0].Grants[0].ID != next {
		t.Fatal("the step can not be fetched")
	}
}

// Trap 41: follow-up jobs inherit, and a payload or result that is not an object is kept.
func TestTrap41_StepsInheritAndKeepEveryPayload(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(&command.MakeBatch{NS: groupNS, ID: job.BatchID{'b'}})
	first := groupJob("A", &command.Enqueue{Chain: threeSteps(), Batch: job.BatchID{'b'}, ExpireAt: g.r.now + int64(time.Minute), Agent: &command.AgentLimits{MaxIterations: 9}})
	g.do(first, groupFetch(idOf("A")), groupAck(idOf("A")))
	created := g.job(idOf("A")).CreatedAt
	s := g.chain()
	ack := groupAck(s.Jobs[1])
	ack.Result = []byte(` [1, 2]`)
	g.do(groupFetch(s.Jobs[1]), ack)
	third := g.job(g.chain().Jobs[2])
	h, m := third.Head, third.Body
	if h.Priority != job.High || h.Retry != first.Retry || third.TraceParent != "trace" || !slices.Equal(third.Tags, first.Tags) ||
		m.Batch != (job.BatchID{'b'}) || m.Agent == nil || m.Agent.MaxIterations != 9 || m.Parent != s.Jobs[1] {
		t.Fatalf("third step: %+v %+v", h, m)
	}
	if left := h.ExpireAt - third.CreatedAt; left != first.ExpireAt-created {
		t.Fatalf("the third step lives %s", time.Duration(left))
	}
	if want := fmt.Sprintf(`{"previous_job_id":"%s","previous_result": [1, 2],"payload":[3]}`, s.Jobs[1]); string(third.Payload) != want {
		t.Fatalf("payload %s, want %s", third.Payload, want)
	}
	if b := g.batch('b'); b.Total != 3 || b.Open != 1 || b.Counts[records.OutcomeCompleted] != 2 {
		t.Fatalf("batch %+v", b)
	}
}

func TestChain_ExitFailureContinueCancel(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, change func(*command.Chain)) *groupRig {
		g := newGroupRig(t)
		c := threeSteps()
		if change != nil {
			change(c)
		}
		g.do(groupJob("A", &command.Enqueue{Chain: c}), groupFetch(idOf("A")))
		return g
	}
	fail := &command.Fail{NS: groupNS, ID: idOf("A"), Error: "boom"}
	t.Run("exit", func(t *testing.T) {
		t.Parallel()
		g := start(t, nil)
		ack := groupAck(idOf("A"))
		ack.Step, ack.ExitReason = command.StepExit, "enough"
		g.do(ack, ack)
		if s := g.chain(); s.Status != records.ChainExited || s.ExitReason != "enough" || len(s.Jobs) != 1 || g.job(s.OnExit).Body.ChainStep != records.ChainOnExit {
			t.Fatalf("%+v", s)
		}
	})
	t.Run("failure, once", func(t *testing.T) {
		t.Parallel()
		g := start(t, nil)
		g.do(fail)
		s := g.chain()
		bad := g.job(s.OnFailure)
		want := fmt.Sprintf(`{"failed_job_id":"%s","failed_step":0,"error":"boom"}`, idOf("A"))
		if s.Status != records.ChainFailed || string(bad.Payload) != want || bad.Body.ChainStep != records.ChainOnFailure {
			t.Fatalf("%+v %s", s, bad.Payload)
		}
		// Retried it resumes the chain; it is not failed for a second time.
		g.do(&command.Retry{NS: groupNS, ID: idOf("A")}, groupFetch(idOf("A")))
		if g.chain().Status != records.ChainRunning {
			t.Fatalf("retried: %+v", g.chain())
		}
		g.do(fail)
		g.do(&command.Retry{NS: groupNS, ID: idOf("A")}, groupFetch(idOf("A")), groupAck(idOf("A")))
		if again := g.chain(); again.OnFailure != s.OnFailure || len(again.Jobs) != 2 || again.Status != records.ChainRunning {
			t.Fatalf("at last: %+v", again)
		}
	})
	t.Run("continue", func(t *testing.T) {
		t.Parallel()
		g := start(t, func(c *command.Chain) { c.GoOn = true })
		g.do(fail)
		s := g.chain()
		if len(s.Jobs) != 2 || s.Status != records.ChainRunning {
			t.Fatalf("%+v", s)
		}
		// The dead step may complete later: its follower is there already.
		g.do(&command.Retry{NS: groupNS, ID: idOf("A")}, groupFetch(idOf("A")), groupAck(idOf("A")))
		if again := g.chain(); !slices.Equal(again.Jobs, s.Jobs) {
			t.Fatalf("%+v", again)
		}
	})
	for name, end := range map[string][]command.Command{
		"cancel": {&command.Cancel{NS: groupNS, ID: idOf("A")}, fail},
		"delete": {&command.Fail{NS: groupNS, ID: idOf("A"), Release: true}, &command.Delete{NS: groupNS, ID: idOf("A")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, nil)
			g.do(end...)
			if s := g.chain(); s.Status != records.ChainCancelled || !s.OnExit.IsZero() || !s.OnFailure.IsZero() || len(s.Jobs) != 1 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// Trap 25, D8: many acks of one batch in one entry count each, and the callback fires.
func TestTrap25_D8_ManyAcksOfABatchInOneEntry(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	cmds := []command.Command{&command.MakeBatch{NS: groupNS, ID: job.BatchID{'b'}, Callback: &command.Step{Queue: "cb", Payload: []byte(`{"total":"mine"}`)}}}
	var ids []job.ID
	for i := range 50 {
		name := fmt.Sprintf("J%d", i)
		ids = append(ids, idOf(name))
		cmds = append(cmds, groupJob(name, &command.Enqueue{Batch: job.BatchID{'b'}}))
	}
	cmds = append(cmds, &command.SealBatch{NS: groupNS, ID: job.BatchID{'b'}})
	g.do(append([]command.Command{&command.Atomic{Count: uint32(len(cmds))}}, cmds...)...)
	g.do(groupFetch(ids...))
	var acks []command.Command
	for _, id := range ids {
		acks = append(acks, groupAck(id), groupAck(id)) // D9: twice in one entry counts once.
	}
	g.do(acks...)
	b := g.batch('b')
	if !b.Fired() || b.Counts[records.OutcomeCompleted] != 50 || b.CallbackID != job.Derived(g.r.now, [16]byte{'b'}, 0) {
		t.Fatalf("%+v", b)
	}
	want := fmt.Sprintf(`{"batch_id":"%s","completed":50,"dead":0,"cancelled":0,"deleted":0,"total":"mine"}`, job.BatchID{'b'})
	if cb := g.job(b.CallbackID); string(cb.Payload) != want {
		t.Fatalf("callback %s, want %s", cb.Payload, want)
	}
}

// Trap 26: every end of a job counts for its batch, and removal is one.
func TestTrap26_EveryEndCountsForTheBatch(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	batch := job.BatchID{'b'}
	g.do(&command.MakeBatch{NS: groupNS, ID: batch, Callback: &command.Step{Queue: "cb"}})
	for _, name := range []string{"done", "dead", "cancelled", "deleted", "expired", "lost", "rejected", "cleared"} {
		more := &command.Enqueue{Batch: batch}
		if name == "expired" {
			more.ExpireAt = g.r.now + int64(20*time.Second)
		}
		c := groupJob(name, more)
		if name == "cleared" {
			c.Queue = "cleared"
		}
		g.do(c)
	}
	id := func(name string) job.ID { return idOf(name) }
	g.do(groupFetch(id("done"), id("dead"), id("lost")))
	g.do(groupAck(id("done")), &command.Fail{NS: groupNS, ID: id("dead")}, &command.Cancel{NS: groupNS, ID: id("cancelled")},
		&command.Delete{NS: groupNS, ID: id("deleted")}, &command.Hold{NS: groupNS, ID: id("rejected")},
		&command.Decide{NS: groupNS, ID: id("rejected")}, &command.SealBatch{NS: groupNS, ID: batch})
	g.do(&command.DeleteQueue{NS: groupNS, Queue: "cleared"})
	g.r.sweepAll(t)
	g.r.now += int64(time.Minute)
	for !g.batch('b').Fired() {
		before := g.batch('b')
		rows, err := bothDue(g.r.store, 0, g.r.now+int64(48*time.Hour), 100)
		if err != nil || len(rows) == 0 {
			t.Fatalf("nothing more happens: %+v, %v", before, err)
		}
		g.r.now = max(g.r.now, rows[0].At)
		g.do(&command.Fire{Due: rows[0]})
		if h := g.job(id("lost")).Head; h.State == job.Pending {
			g.do(groupFetch(id("lost")))
		}
	}
	b := g.batch('b')
	if b.Total != 8 || b.Counts != [records.OutcomeSlots]uint64{records.OutcomeCompleted: 1, records.OutcomeDead: 4, records.OutcomeCancelled: 1, records.OutcomeDeleted: 2} {
		t.Fatalf("%+v", b)
	}
	// Its members change nothing any more.
	g.do(&command.Retry{NS: groupNS, ID: id("dead")})
	if again := g.batch('b'); again.Counts != b.Counts || again.CallbackID != b.CallbackID {
		t.Fatalf("%+v", again)
	}
}

// Trap 27: the callback is a job like any other: its queue exists, the retry policy
// is the queue's, and it is in the order of its priority.
func TestTrap27_TheCallbackIsAnOrdinaryJob(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(&command.SetQueue{NS: groupNS, Queue: "cb", Set: command.SetRetry, Retry: command.RetryPolicy{MaxRetries: 7}, RetrySet: command.RetryMax},
		&command.MakeBatch{NS: groupNS, ID: job.BatchID{'b'}, Callback: &command.Step{Queue: "cb", Payload: []byte(`"text"`)}},
		groupJob("A", &command.Enqueue{Batch: job.BatchID{'b'}}), &command.SealBatch{NS: groupNS, ID: job.BatchID{'b'}},
		groupFetch(idOf("A")), groupAck(idOf("A")))
	cb := g.job(g.batch('b').CallbackID)
	if cb.State != job.Pending || cb.Head.Retry.MaxRetries != 7 || cb.Head.Retry.BaseDelay != job.DefaultBaseDelay || cb.Priority != job.Normal ||
		!strings.HasSuffix(string(cb.Payload), `"deleted":0,"payload":"text"}`) {
		t.Fatalf("%+v %s", cb.Head, cb.Payload)
	}
	if len(g.do(groupFetch(g.batch('b').CallbackID))[0].Grants) != 1 {
		t.Fatal("it can not be fetched")
	}
}

func TestBatch_JoinSealReopen(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	batch := job.BatchID{'b'}
	more := func() *command.Enqueue { return &command.Enqueue{Batch: batch} }
	if r := g.do(groupJob("A", more())); r[0].Refusal != NoBatch {
		t.Fatalf("join of nothing: %+v", r)
	}
	g.do(&command.MakeBatch{NS: groupNS, ID: batch, Callback: &command.Step{Queue: "cb"}})
	if r := g.do(&command.MakeBatch{NS: groupNS, ID: batch}); r[0].Refusal != Exists {
		t.Fatalf("made twice: %+v", r)
	}
	g.do(groupJob("A", more()), groupJob("B", more()), &command.SealBatch{NS: groupNS, ID: batch}, &command.SealBatch{NS: groupNS, ID: batch})
	if r := g.do(groupJob("C", more())); r[0].Refusal != BatchClosed {
		t.Fatalf("join of a sealed batch: %+v", r)
	}
	g.do(groupFetch(idOf("A"), idOf("B")), &command.Fail{NS: groupNS, ID: idOf("A")})
	g.do(&command.Retry{NS: groupNS, ID: idOf("A")}, groupAck(idOf("B")))
	if b := g.batch('b'); b.Fired() || b.Open != 1 || b.Counts[records.OutcomeDead] != 0 {
		t.Fatalf("a member runs again: %+v", b)
	}
	g.do(groupFetch(idOf("A")), groupAck(idOf("A")))
	if b := g.batch('b'); !b.Fired() || b.Counts[records.OutcomeCompleted] != 2 {
		t.Fatalf("%+v", b)
	}
	other := command.SealBatch{NS: job.Namespace{'n', '2'}, ID: batch}
	if r := g.do(&other); r[0].Refusal != NotFound {
		t.Fatalf("another namespace's batch: %+v", r)
	}
}

// The callback's payload is written once: joining and ending cost a member the same,
// whatever its size (law 8).
func TestBatch_AMemberCostsTheSameWhateverTheCallbackCarries(t *testing.T) {
	t.Parallel()
	const members = 50
	written := func(payload string) uint64 {
		g := newGroupRig(t)
		g.do(&command.MakeBatch{NS: groupNS, ID: job.BatchID{'b'}, Callback: &command.Step{Queue: "cb", Payload: []byte(payload)}})
		before := g.r.db.Metrics().WAL.BytesIn
		for i := range members {
			g.do(groupJob(fmt.Sprintf("J%d", i), &command.Enqueue{Batch: job.BatchID{'b'}}))
		}
		for i := range members {
			id := idOf(fmt.Sprintf("J%d", i))
			g.do(groupFetch(id), groupAck(id))
		}
		defer func() {
			g.do(&command.SealBatch{NS: groupNS, ID: job.BatchID{'b'}})
			if cb := g.job(g.batch('b').CallbackID); !strings.HasSuffix(string(cb.Payload), payload[1:]) {
				t.Errorf("the callback carries %d bytes", len(cb.Payload))
			}
		}()
		return g.r.db.Metrics().WAL.BytesIn - before
	}
	small, large := written(`{"a":1}`), written(`{"a":"`+strings.Repeat("a", 200<<10)+`"}`)
	if small != large {
		t.Errorf("%d members wrote %d bytes, and %d with a large callback", members, small, large)
	}
}

// A call that is repeated with its idempotency keys makes no second batch, not even an
// empty one that calls back at once.
func TestAtomic_ARepeatedBatchIsTheFirst(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	call := func(batch byte, a, b string) []Result {
		job1, job2 := groupJob(a, &command.Enqueue{Batch: job.BatchID{batch}}), groupJob(b, &command.Enqueue{Batch: job.BatchID{batch}})
		job1.IdempotencyKey, job2.IdempotencyKey = "k#0", "k#1"
		job1.IdempotencyFor, job2.IdempotencyFor = time.Hour, time.Hour
		return g.do(&command.Atomic{Count: 4}, &command.MakeBatch{NS: groupNS, ID: job.BatchID{batch}, Callback: &command.Step{Queue: "cb"}},
			job1, job2, &command.SealBatch{NS: groupNS, ID: job.BatchID{batch}})
	}
	first, again := call('b', "A", "B"), call('c', "C", "D")
	if again[1].Batch != first[1].Batch || again[2].ID != idOf("A") || !again[3].Replayed {
		t.Fatalf("%+v, then %+v", first, again)
	}
	if _, err := stateread.ReadBatch(g.r.store, groupNS, job.BatchID{'c'}); err == nil || len(g.r.audit(t)) != 2 {
		t.Fatal("the repetition made something")
	}
}

func TestAtomic_OneRefusalRefusesAll(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(&command.MakeBatch{NS: groupNS, ID: job.BatchID{'s'}}, &command.SealBatch{NS: groupNS, ID: job.BatchID{'s'}})
	before := g.r.dump(t)
	r := g.do(&command.Atomic{Count: 4}, &command.MakeBatch{NS: groupNS, ID: job.BatchID{'b'}},
		groupJob("A", &command.Enqueue{Batch: job.BatchID{'b'}}), groupJob("B", &command.Enqueue{DependsOn: []job.ID{idOf("Z")}}),
		&command.SealBatch{NS: groupNS, ID: job.BatchID{'b'}})
	if r[0].Refusal != NoDependency || r[0].Culprit != 2 || r[0].ID != idOf("Z") || r[1].Refusal != NoDependency || r[2].Refusal != NoDependency {
		t.Fatalf("%+v", r)
	}
	if !bytes.Equal(before, g.r.dump(t)) {
		t.Fatal("something was done")
	}
}

// Trap 40: a job that ends wakes those that wait for it, and nothing polls; when it ends
// badly or is removed the policy decides. Trap 30: a waiting job is in no ready order.
func TestTrap40_DependenciesWakeByReverseEdges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end    command.Command
		policy command.DependencyPolicy
		want   job.State
	}{
		{groupAck(idOf("D")), command.DependencyFail, job.Pending},
		{&command.Fail{NS: groupNS, ID: idOf("D")}, command.DependencyFail, job.Dead},
		{&command.Fail{NS: groupNS, ID: idOf("D")}, command.DependencyRun, job.Pending},
		{&command.Fail{NS: groupNS, ID: idOf("D")}, command.DependencyCancel, job.Cancelled},
	} {
		g := newGroupRig(t)
		g.do(groupJob("D", nil), groupJob("E", nil), groupJob("J", &command.Enqueue{DependsOn: []job.ID{idOf("D"), idOf("E")}, OnDependency: c.policy}))
		j := g.job(idOf("J"))
		if j.State != job.Pending || !j.Blocked() || j.WaitingOn != 2 || !j.Pos.IsZero() {
			t.Fatalf("at first: %+v", j.Head)
		}
		if res := g.do(groupFetch(idOf("J"), idOf("D"), idOf("E")))[0]; len(res.Grants) != 2 || res.Skipped[0] != idOf("J") {
			t.Fatalf("fetch: %+v", res)
		}
		g.do(c.end, groupAck(idOf("E")))
		g.deliver()
		j = g.job(idOf("J"))
		if j.State != c.want || j.Blocked() || c.want == job.Dead && j.Reason != records.DeadDependency {
			t.Fatalf("%T, policy %d: %s, want %s", c.end, c.policy, j.State, c.want)
		}
		if c.want == job.Pending && len(g.do(groupFetch(idOf("J")))[0].Grants) != 1 {
			t.Fatal("it can not be fetched")
		}
	}
}

// A dependency that was cleared or deleted blocks nobody forever; one that completed
// first has completed, however soon it is deleted.
func TestTrap40_RemovedDependenciesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	d := groupJob("D", nil)
	d.Queue = "gone"
	g.do(d, groupJob("E", nil), groupJob("F", nil),
		groupJob("J", &command.Enqueue{DependsOn: []job.ID{idOf("D")}}),
		groupJob("K", &command.Enqueue{DependsOn: []job.ID{idOf("E")}, OnDependency: command.DependencyRun}),
		groupJob("L", &command.Enqueue{DependsOn: []job.ID{idOf("F")}}),
		groupJob("M", &command.Enqueue{DependsOn: []job.ID{idOf("J")}}))
	g.do(&command.DeleteQueue{NS: groupNS, Queue: "gone"}, &command.Delete{NS: groupNS, ID: idOf("E")},
		groupFetch(idOf("F")), groupAck(idOf("F")), &command.Delete{NS: groupNS, ID: idOf("F")})
	g.r.sweepAll(t)
	g.deliver()
	for name, want := range map[string]job.State{"J": job.Dead, "K": job.Pending, "L": job.Pending, "M": job.Dead} {
		if got := g.state(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	// What has ended counts at once.
	r := g.do(groupJob("N", &command.Enqueue{DependsOn: []job.ID{idOf("J")}}),
		groupJob("O", &command.Enqueue{DependsOn: []job.ID{idOf("J")}, OnDependency: command.DependencyRun}),
		groupJob("P", &command.Enqueue{DependsOn: []job.ID{idOf("E")}}))
	if r[0].State != job.Dead || r[1].State != job.Pending || r[2].Refusal != NoDependency {
		t.Fatalf("%+v", r)
	}
}

// A job of a deleted queue is not notified, and its sweep removes its dependency rows.
func TestDependency_AJobThatWaitsInADeletedQueueIsForgotten(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	waits := groupJob("W", &command.Enqueue{DependsOn: []job.ID{idOf("D"), idOf("E")}})
	waits.Queue = "gone"
	g.do(groupJob("D", nil), groupJob("E", nil), waits)
	g.do(&command.DeleteQueue{NS: groupNS, Queue: "gone"}, groupFetch(idOf("D")), groupAck(idOf("D")))
	g.deliver() // Before the sweep: the audit after every command looks at both halves.
	g.r.sweepAll(t)
	g.do(groupFetch(idOf("E")), groupAck(idOf("E")))
	g.deliver()
	if _, err := stateread.ReadJob(g.r.store, groupNS, idOf("W")); !errors.Is(err, statedb.ErrNotFound) {
		t.Fatalf("W is still there: %v", err)
	}
	if left := g.r.look(t).groups; len(left.waits)+len(left.dependents)+len(left.waiters) > 0 {
		t.Errorf("there is left: %v waits, %v dependents, %v", left.waits, left.dependents, left.waiters)
	}
}

// A job with very many dependents notifies them in pieces: no entry grows with them.
func TestDependents_AreToldInPieces(t *testing.T) {
	t.Parallel()
	g := &groupRig{t, newReplica(t)}
	defer g.r.close(t)
	const n = 3*256 + 1
	cmds := []command.Command{groupJob("D", nil)}
	for i := range n {
		cmds = append(cmds, groupJob(fmt.Sprintf("J%d", i), &command.Enqueue{DependsOn: []job.ID{idOf("D")}}))
	}
	g.r.apply(t, logEntry{now: g.r.now + 1, cmds: cmds})
	g.do(groupFetch(idOf("D")), groupAck(idOf("D")))
	if entries := g.deliver(); entries != 4 {
		t.Fatalf("told in %d entries", entries)
	}
	c, err := stateread.ReadCounts(g.r.store, groupNS, "q")
	if err != nil || c.Jobs[job.Pending] != n || g.state("J0") != job.Pending || g.job(idOf("J0")).Blocked() {
		t.Fatalf("%+v %v", c, err)
	}
}

// If a job is retried when only some of its dependents were notified, the others learn
// of its next end instead.
func TestDependents_OfARetriedJobLearnOfItsLastEnd(t *testing.T) {
	t.Parallel()
	g := &groupRig{t, newReplica(t)}
	defer g.r.close(t)
	const n = 256 + 44
	cmds := []command.Command{groupJob("D", nil)}
	for i := range n {
		cmds = append(cmds, groupJob(fmt.Sprintf("J%d", i), &command.Enqueue{DependsOn: []job.ID{idOf("D")}}))
	}
	g.r.apply(t, logEntry{now: g.r.now + 1, cmds: cmds})
	g.do(groupFetch(idOf("D")), groupAck(idOf("D")))
	rows, err := bothDue(g.r.store, 0, g.r.now+1, 2)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	g.do(&command.Fire{Due: rows[0]})
	g.do(&command.Retry{NS: groupNS, ID: idOf("D")})
	g.do(&command.Delete{NS: groupNS, ID: idOf("D")})
	g.deliver()
	for name, want := range map[string]job.State{"J0": job.Pending, "J255": job.Pending, "J256": job.Dead, "J299": job.Dead} {
		if got := g.state(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestDependency_AJobThatWaitsMayBeScheduledHeldAndRetried(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	later := groupJob("S", &command.Enqueue{DependsOn: []job.ID{idOf("D")}})
	later.ScheduledAt = g.r.now + int64(10*time.Second)
	g.do(groupJob("D", nil), later, groupJob("H", &command.Enqueue{DependsOn: []job.ID{idOf("D")}}),
		groupJob("C", &command.Enqueue{DependsOn: []job.ID{idOf("D")}}))
	g.do(&command.Hold{NS: groupNS, ID: idOf("H")})
	g.do(&command.Decide{NS: groupNS, ID: idOf("H"), Approve: true})
	g.do(&command.Cancel{NS: groupNS, ID: idOf("C")}, &command.Retry{NS: groupNS, ID: idOf("C")})
	g.r.now += int64(20 * time.Second)
	g.do(&command.Fire{Due: keys.Due{At: later.ScheduledAt, Kind: keys.DueScheduled, NS: groupNS, ID: idOf("S")}})
	for name, blocked := range map[string]bool{"S": true, "H": true, "C": false} {
		if j := g.job(idOf(name)); j.State != job.Pending || j.Blocked() != blocked {
			t.Errorf("%s is %s, blocked %v", name, j.State, j.Blocked())
		}
	}
	g.do(groupFetch(idOf("D")), groupAck(idOf("D")))
	g.deliver()
	if res := g.do(groupFetch(idOf("S"), idOf("H"), idOf("C")))[0]; len(res.Grants) != 3 {
		t.Fatalf("%+v", res)
	}
}

// Every command of a script of groups has the same outcome one by one as several in an
// entry, and every invariant holds in between (INV-9 to INV-11).
func TestGroups_OneByOneEqualsTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		apart, joined := newReplica(t), newReplica(t)
		defer apart.close(t)
		defer joined.close(t)
		made := 0
		for round := range rapid.IntRange(2, 8).Draw(t, "rounds") {
			now := epoch + int64(round+1)*int64(time.Second)
			var cmds []command.Command
			ids := slices.Sorted(mapKeys(apart.audit(t)))
			for range rapid.IntRange(1, 8).Draw(t, "commands") {
				cmds = append(cmds, drawGroupCommand(t, ids, &made))
			}
			for _, c := range cmds {
				apart.apply(t, logEntry{now: now, cmds: []command.Command{c}})
				apart.audit(t)
			}
			joined.apply(t, logEntry{now: now, cmds: cmds})
			apart.now, joined.now = now+int64(time.Millisecond), now+int64(time.Millisecond)
			if rapid.Bool().Draw(t, "restart") { // Nothing of it lives in memory alone.
				joined.machine = New(joined.store, nil)
			}
			deliverAll(t, apart)
			deliverAll(t, joined)
			apart.audit(t)
			joined.audit(t)
			if a, j := groupSummary(t, apart), groupSummary(t, joined); a != j {
				t.Fatalf("one by one:\n%s\ntogether:\n%s", a, j)
			}
		}
	})
}

func mapKeys(heads map[job.ID]records.Head) func(func(string) bool) {
	return func(yield func(string) bool) {
		for id := range heads {
			if !yield(string(id[:])) {
				return
			}
		}
	}
}

func drawGroupCommand(t *rapid.T, ids []string, made *int) command.Command {
	pick := func(what string) job.ID {
		if len(ids) == 0 {
			return idOf("none")
		}
		return job.ID([]byte(rapid.SampledFrom(ids).Draw(t, what)))
	}
	batch := job.BatchID{byte(rapid.IntRange(1, 2).Draw(t, "batch"))}
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0, 1, 2, 3:
		*made++
		more := &command.Enqueue{OnDependency: command.DependencyPolicy(rapid.IntRange(0, 2).Draw(t, "policy"))}
		if rapid.Bool().Draw(t, "joins") {
			more.Batch = batch
		}
		if rapid.Bool().Draw(t, "waits") {
			more.DependsOn = []job.ID{pick("on")}
		}
		if rapid.Bool().Draw(t, "chains") {
			c := threeSteps()
			c.ID = job.ChainID{'c', byte(*made)}
			c.GoOn = rapid.Bool().Draw(t, "go on")
			if rapid.Bool().Draw(t, "quiet") {
				c.OnExit, c.OnFailure = nil, nil
			}
			more.Chain = c
		}
		return groupJob(fmt.Sprintf("J%d", *made), more)
	case 4:
		return &command.MakeBatch{NS: groupNS, ID: batch, Callback: &command.Step{Queue: "cb"}}
	case 5:
		return &command.SealBatch{NS: groupNS, ID: batch}
	case 6, 7:
		return groupFetch(pick("fetched"), pick("fetched too"))
	case 8, 9:
		ack := groupAck(pick("acked"))
		if rapid.IntRange(0, 3).Draw(t, "exit") == 0 {
			ack.Step = command.StepExit
		}
		return ack
	case 10:
		return &command.Fail{NS: groupNS, ID: pick("failed"), Error: "e", Release: rapid.Bool().Draw(t, "release")}
	case 11:
		return &command.Cancel{NS: groupNS, ID: pick("cancelled")}
	case 12:
		return &command.Delete{NS: groupNS, ID: pick("deleted")}
	default:
		return &command.Retry{NS: groupNS, ID: pick("retried")}
	}
}

func deliverAll(t *rapid.T, r *replica) {
	for {
		rows, err := bothDue(r.store, 0, r.now+1, 1000)
		if err != nil {
			t.Fatalf("read due: %v", err)
		}
		fired := false
		for _, d := range rows {
			if d.Kind == keys.DueDeliver {
				r.apply(t, logEntry{now: r.now, cmds: []command.Command{&command.Fire{Due: d}}})
				fired = true
			}
		}
		if !fired {
			return
		}
	}
}

// groupSummary is what people see of jobs, batches and chains, without times and places.
func groupSummary(t *rapid.T, r *replica) string {
	var b strings.Builder
	for _, id := range slices.Sorted(mapKeys(r.audit(t))) {
		j, err := stateread.ReadJob(r.store, groupNS, job.ID([]byte(id)))
		if err != nil {
			t.Fatalf("read job: %v", err)
		}
		fmt.Fprintf(&b, "%x %s %s blocked %v %s\n", id, j.Head.Queue, j.State, j.Blocked(), j.Payload)
	}
	batches, _, err := stateread.ReadBatches(r.store, groupNS, job.BatchID{}, 100)
	if err != nil {
		t.Fatalf("read batches: %v", err)
	}
	for _, x := range batches {
		fmt.Fprintf(&b, "%s %v %d %v %v %s\n", x.ID, x.Sealed, x.Total, x.Counts, x.Fired(), x.CallbackID)
	}
	chains, _, err := stateread.ReadChains(r.store, groupNS, job.ChainID{}, 100)
	if err != nil {
		t.Fatalf("read chains: %v", err)
	}
	for _, c := range chains {
		fmt.Fprintf(&b, "%s %s %v %s %s\n", c.ID, c.Status, c.Jobs, c.OnExit, c.OnFailure)
	}
	return b.String()
}

// The feed has a job's end before the jobs that follow from it.
func TestDeliver_TellsTheEndFirst(t *testing.T) {
	t.Parallel()
	g := newGroupRig(t)
	g.do(groupJob("A", &command.Enqueue{Chain: threeSteps()}), groupFetch(idOf("A")))
	g.do(groupAck(idOf("A")))
	rows := rowsOf(t, g.r.store)
	events := rows[len(rows)-1].Events
	if len(events) != 2 || events[0].Type != feed.Completed || events[1].Type != feed.Enqueued {
		t.Fatalf("%+v", events)
	}
}

// wildGroup makes commands about batches, chains and dependencies that no server would
// propose.
func wildGroup(t *rapid.T) command.Command {
	ns := job.Namespace{byte(rapid.IntRange(1, 2).Draw(t, "ns"))}
	id, batch := job.ID{byte(rapid.IntRange(1, 3).Draw(t, "id"))}, job.BatchID{byte(rapid.IntRange(0, 2).Draw(t, "batch"))}
	step := &command.Step{Queue: "a", Payload: rapid.SampledFrom([][]byte{nil, []byte("{}"), []byte(`{"a":1}`), []byte("null"), []byte("not json"), []byte(" [1]")}).Draw(t, "payload")}
	switch rapid.IntRange(0, 9).Draw(t, "about") {
	case 0:
		return &command.MakeBatch{NS: ns, ID: batch, Callback: step}
	case 1:
		return &command.SealBatch{NS: ns, ID: batch}
	case 2:
		return &command.Atomic{Count: rapid.SampledFrom([]uint32{0, 1, 2, 3, 1<<32 - 1}).Draw(t, "count")}
	case 3:
		return &command.Fire{Due: keys.Due{At: epoch + int64(rapid.IntRange(0, 3).Draw(t, "at")), Kind: keys.DueDeliver, NS: ns, ID: id}}
	case 4, 5, 6:
		c := &command.Enqueue{NS: ns, ID: id, Queue: "a", Batch: batch, OnDependency: command.DependencyPolicy(rapid.IntRange(0, 2).Draw(t, "policy"))}
		c.DependsOn = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job.ID { return job.ID{byte(rapid.IntRange(1, 3).Draw(t, "on"))} }), 0, 3).Draw(t, "depends on")
		if rapid.Bool().Draw(t, "chain") {
			c.Chain = &command.Chain{ID: job.ChainID{batch[0]}, OnFailure: step, OnExit: step, Steps: slices.Repeat([]command.Step{*step}, rapid.IntRange(0, 3).Draw(t, "steps"))}
		}
		return c
	default:
		return wild(t)
	}
}

func TestApply_NonsenseAboutGroupsIsAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { gatheredLikeOneByOne(t, 0, wildGroup) })
}
