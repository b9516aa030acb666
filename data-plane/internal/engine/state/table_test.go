package state

import (
	"reflect"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

func TestTable_EveryKindOfCommandHasARow(t *testing.T) {
	t.Parallel()
	behind := map[command.Kind]bool{command.KindOf(&command.Atomic{}): true, command.KindOf(&command.Audit{}): true}
	for k := 1; k < command.Kinds; k++ {
		r := &table[k]
		switch kind := command.Kind(k); {
		case r.kind != kind:
			t.Errorf("kind %d has no row", k)
		case (r.apply == nil) != behind[kind]:
			t.Errorf("kind %d has an apply function: %v", k, r.apply != nil)
		}
	}
}

// What proposers go by: forgetting one of these let an enqueue overtake a job that was
// put back in the same entry.
func TestTable_Effects(t *testing.T) {
	t.Parallel()
	id, by := job.ID{1}, command.Holder{Worker: "w"}
	due := func(k keys.DueKind) *command.Fire { return &command.Fire{Due: keys.Due{Kind: k}} }
	type effects struct {
		requeues, ends, settles bool
		unleased                []job.ID
	}
	for _, c := range []struct {
		cmd  command.Command
		want effects
	}{
		{&command.Enqueue{ID: id, Chain: &command.Chain{}, Batch: job.BatchID{1}}, effects{}},
		{&command.Enqueue{ID: id, DependsOn: []job.ID{{2}}}, effects{}},
		{&command.Enqueue{ID: id, DependsOn: []job.ID{{2}}, Chain: &command.Chain{}}, effects{requeues: true}},
		{&command.Enqueue{ID: id, DependsOn: []job.ID{{2}}, Batch: job.BatchID{1}}, effects{requeues: true}},
		{&command.Fetch{Jobs: []job.ID{id}}, effects{}},
		{&command.Ack{ID: id, By: by}, effects{ends: true, settles: true, unleased: []job.ID{id}}},
		{&command.Ack{ID: id, By: by, Agent: command.AgentContinue}, effects{requeues: true, ends: true, settles: true, unleased: []job.ID{id}}},
		{&command.Fail{ID: id, By: by}, effects{ends: true, settles: true, unleased: []job.ID{id}}},
		{&command.Fail{ID: id, By: by, Release: true}, effects{requeues: true, ends: true, settles: true, unleased: []job.ID{id}}},
		{&command.Heartbeat{ID: id}, effects{}},
		{due(keys.DueLease), effects{requeues: true}},
		{due(keys.DueScheduled), effects{requeues: true}},
		{due(keys.DueUnique), effects{}},
		{due(keys.DueIdempotency), effects{}},
		{&command.Cancel{ID: id}, effects{ends: true}},
		{&command.Delete{ID: id}, effects{ends: true}},
		{&command.Decide{ID: id}, effects{ends: true}},
		{&command.Decide{ID: id, Approve: true}, effects{requeues: true, ends: true}},
		{&command.Retry{ID: id}, effects{requeues: true}},
		{&command.Move{ID: id}, effects{requeues: true}},
		{&command.Prioritize{ID: id}, effects{requeues: true}},
		{&command.Requeue{Jobs: []job.ID{id}}, effects{requeues: true}},
		{&command.SealBatch{}, effects{requeues: true}},
		{&command.Tick{}, effects{requeues: true}},
		{&command.Sweep{Jobs: []job.ID{id, {2}}}, effects{requeues: true, unleased: []job.ID{id, {2}}}},
		{&command.SweepNamespace{Due: []keys.Due{{ID: id}}}, effects{unleased: []job.ID{id}}},
	} {
		got := effects{requeues: MayRequeue(c.cmd)}
		var ended, settled job.ID
		var holder command.Holder
		ended, got.ends = MayEnd(c.cmd)
		settled, holder, got.settles = Settles(c.cmd)
		EachUnleased(c.cmd, func(id job.ID) { got.unleased = append(got.unleased, id) })
		if !reflect.DeepEqual(got, c.want) || got.ends && ended != id || got.settles && (settled != id || holder != by) {
			t.Errorf("%T%+v has %+v, want %+v", c.cmd, c.cmd, got, c.want)
		}
	}
}
