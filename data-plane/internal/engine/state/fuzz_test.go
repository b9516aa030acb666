package state

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

// FuzzApply applies two arbitrary payloads on two stores: no panic, the same
// answers or the same refusal, and the same bytes.
func FuzzApply(f *testing.F) {
	id := job.ID{1}
	f.Add(command.Encode([]command.Command{&command.Enqueue{ID: id, Queue: "q"}}), command.Encode([]command.Command{&command.Fire{Due: keys.Due{Kind: keys.DueScheduled, ID: id}}}))
	f.Add(command.Encode([]command.Command{
		&command.Enqueue{ID: id, Queue: "q", UniqueKey: "u", UniqueFor: 1, IdempotencyKey: "i", Retry: command.RetryPolicy{MaxRetries: 2}},
		&command.Fetch{Jobs: []job.ID{id}, Floors: []command.Floor{{Queue: "q", Pos: keys.Position{Index: 1}}}},
		&command.Heartbeat{ID: id, Progress: []byte("1")},
		&command.Fail{ID: id, Error: "boom"},
	}), command.Encode([]command.Command{
		&command.Retry{ID: id}, &command.Fetch{Jobs: []job.ID{id}, Lease: 1}, &command.Cancel{ID: id}, &command.Extend{ID: id, Epoch: keys.Position{Index: 2, Ordinal: 2}, Until: 1 << 61},
		&command.Ack{ID: id}, &command.Delete{ID: id}, &command.TrimEvents{Before: 2}, &command.Pause{Queue: "q", Paused: true},
	}))
	f.Add(command.Encode([]command.Command{&command.Enqueue{ID: id, Queue: "q", ScheduledAt: 1<<63 - 1}}), []byte{1, 1, 99})
	f.Add(command.Encode([]command.Command{
		&command.SetQueue{Queue: "q", Set: 7, MaxConcurrency: 1, Throttle: command.Throttle{Limit: 1, Window: 1}},
		&command.Enqueue{ID: id, Queue: "q", UniqueKey: "u", UniqueFor: 1, IdempotencyKey: "i"}, &command.Fetch{Jobs: []job.ID{id, id}, Lease: 1},
		&command.DeleteQueue{Queue: "q"}, &command.Ack{ID: id},
	}), command.Encode([]command.Command{
		&command.Enqueue{ID: job.ID{2}, Queue: "q", UniqueKey: "u", IdempotencyKey: "i"}, &command.DeleteQueue{Queue: "q"},
		&command.Sweep{Queue: "q", Jobs: []job.ID{id, {2}}, Unique: []string{"u"}, Idempotency: []string{"i"}, Done: 2},
	}))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		one, two := newReplica(t), newReplica(t)
		defer one.close(t)
		defer two.close(t)
		for _, payload := range [][]byte{first, second} {
			a, errA := one.applyPayload(t, payload)
			b, errB := two.applyPayload(t, payload)
			if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
				t.Fatalf("errors %v and %v", errA, errB)
			}
			if errA != nil {
				if !errors.Is(errA, command.ErrMalformed) {
					t.Fatalf("error %v", errA)
				}
				return // The node stops here.
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("answers %+v and %+v", a, b)
			}
		}
		if one.digest != two.digest || !bytes.Equal(one.dump(t), two.dump(t)) {
			t.Fatal("replicas differ")
		}
	})
}

// applyPayload applies bytes as they may stand in a log.
func (r *replica) applyPayload(t tb, payload []byte) (any, error) {
	txn := r.store.NewTxn()
	r.index++
	r.now++
	out, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Lease: r.now, Version: r.version, Payload: payload})
	if err != nil {
		return nil, errors.Join(err, txn.Discard())
	}
	if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
		t.Fatalf("end entry: %v", err)
	}
	return out, txn.Commit()
}

// No entry leaves a lock's due row behind. If there is one anyway, it
// removes itself and not the current lock.
func TestFire_StrayRowOfALockLeavesTheLock(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, owner, at := job.Namespace{1}, job.ID{1}, epoch+int64(time.Second)
	r.do(t, epoch, &command.Enqueue{NS: ns, ID: owner, Queue: "q", UniqueKey: "k", UniqueFor: time.Hour})
	for _, d := range []keys.Due{
		{At: at, Kind: keys.DueUnique, NS: ns, ID: job.ID{2}}, // Another job's.
		{At: at, Kind: keys.DueUnique, NS: ns, ID: owner},     // The owner's, of another time.
	} {
		txn := r.store.NewTxn()
		txn.Set(keys.In(r.store.Prefix()).Due(d), records.EncodeLockName("q", "k"))
		r.index++
		if _, err := txn.EndEntry(0, r.index); err != nil {
			t.Fatal(err)
		}
		if err := txn.Commit(); err != nil {
			t.Fatal(err)
		}
		r.do(t, at, &command.Fire{Due: d})
		r.audit(t)
		if res := r.do(t, at, &command.Enqueue{NS: ns, ID: job.ID{3}, Queue: "q", UniqueKey: "k", UniqueFor: 1}); res.ID != owner {
			t.Fatalf("after a stray row %+v the key is held by %s", d, res.ID)
		}
	}
}

func TestAssertHead_PanicsWithTheJobsName(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]records.Head{
		"pending without a place":   {State: job.Pending},
		"active with a place":       {State: job.Active, Due: 1, Pos: keys.Position{Index: 1}},
		"active without an end":     {State: job.Active},
		"completed with a due time": {State: job.Completed, Due: 1},
	} {
		func() {
			defer func() {
				if v, ok := recover().(string); !ok || !bytes.Contains([]byte(v), []byte(job.ID{7}.String())) {
					t.Errorf("%s: %v", name, v)
				}
			}()
			(&subject{Head: h, id: job.ID{7}}).assert()
		}()
	}
}
