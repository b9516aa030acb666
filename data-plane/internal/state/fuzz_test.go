package state

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// sampleHead is a head with every field set.
func sampleHead() Head {
	return Head{
		Queue: "q", State: job.Active, Priority: job.High,
		Retry:   command.RetryPolicy{MaxRetries: 5, Backoff: job.BackoffLinear, BaseDelay: time.Second, MaxDelay: time.Minute},
		Attempt: 2, Crashes: 1, Pos: keys.Position{Index: 3, Ordinal: 4}, Due: epoch, Epoch: keys.Position{Index: 5, Ordinal: 6},
		Lease: time.Minute, Worker: "w", Hostname: "h", Peer: 7, flags: flagUnique | flagErrors, Started: epoch + 1, Finished: epoch + 2,
		FailedAt: epoch + 3, Reason: DeadCrashes,
		Timeline: []Moment{{WasEnqueued, epoch, 0}, {WasStarted, epoch + 5, 1}, {WasFailed, epoch + 3, 1}},
		Shift:    9, gen: 300, ExpireAt: epoch + 4, Iteration: 2,
	}
}

// record is one kind of stored value: decoding returns what encoding takes.
type record struct {
	name   string
	sample []byte
	decode func(b []byte) (again []byte, value any, err error)
}

func records() []record {
	h := sampleHead()
	plain := Body{Queue: "q", Payload: []byte("p"), CreatedAt: epoch}
	b := Body{
		Queue: "q", Payload: []byte("p"), CreatedAt: epoch, ScheduledAt: epoch + 1, Tags: []command.Tag{{Key: "a", Value: "b"}},
		UniqueKey: "u", IdempotencyKey: "i", TraceParent: "t",
		ExpireAt: epoch + 2, Agent: &command.AgentLimits{MaxIterations: 1, MaxCost: 2, IterationTimeout: time.Second}, Parent: job.ID{1}, Batch: job.BatchID{2},
		Chain: job.ChainID{3}, ChainStep: ChainOnExit, Schedule: job.ScheduleID{4}, Tick: epoch, DependsOn: []job.ID{{5}, {6}}, OnDependency: command.DependencyCancel,
	}
	c := Counts{Enqueued: 9, Failed: 8}
	for i := range c.Jobs {
		c.Jobs[i] = int64(i)
	}
	for i := range c.Floor {
		c.Floor[i] = keys.Position{Index: uint64(i), Ordinal: 1}
	}
	q := QueueConfig{Paused: true, CreatedAt: epoch}
	l := lock{Owner: job.ID{1}, By: job.ID{2}, Expires: epoch, State: job.Pending, Duplicate: true}
	c2, l2 := c, l
	l2.gen = 300
	ready := Head{Queue: "q", State: job.Pending, Pos: keys.Position{Index: 3, Ordinal: 4}, Timeline: []Moment{{WasEnqueued, epoch, 0}}}
	c2.starts = starts{{epoch, epoch + 5, 2}, {epoch + 7, epoch + 7, 1}}
	q2 := QueueConfig{
		CreatedAt: epoch, MaxConcurrency: 300, Throttle: command.Throttle{Limit: 1000, Window: time.Minute}, gen: 7, kept: 6,
		Draining: true, Retry: command.DefaultRetry(), RetrySet: command.RetryAll,
	}
	m := sweepMark{gen: 300, at: epoch}
	held := Hold{
		Reason: "r", By: "b", At: epoch, Until: epoch + 1, ApproveAtLast: true, Policy: job.PolicyID{3}, Approvers: []string{"a", "c"},
		Decision: Approved, DecidedBy: "d", Comment: "c", DecidedAt: epoch + 2,
	}
	e := attemptError{Attempt: 3, At: epoch, Error: "boom", Backtrace: "trace", Worker: "w"}
	meter := Meter{Input: 1, Output: 2, CacheCreation: 3, CacheRead: 4, Cost: -5, Attempts: 6}
	used := JobUsage{
		Lease: keys.Position{Index: 9, Ordinal: 1}, Iteration: meter, Provider: "p", Model: "m",
		Lines: []UsageLine{{Provider: "p", Model: "m", Sum: meter, total: Meter{Cost: 1}}, {Sum: meter}},
	}
	it := Iteration{
		Number: 7, Status: command.AgentHold, At: epoch, Checkpoint: []byte("c"), Result: []byte("r"), HoldReason: "h", Usage: meter,
		Provider: "p", Model: "m", Lease: keys.Position{Index: 9, Ordinal: 1},
	}
	bud := Budget{CreatedAt: epoch, Budget: command.Budget{
		ID: job.BudgetID{1}, Scope: command.BudgetTag, Target: "k=v", Daily: 1, PerJob: 2, On: command.ExceedAlert,
	}}
	day := budgetDay{cost: -5, told: true}
	pol := Policy{CreatedAt: epoch, Policy: command.Policy{
		ID: job.PolicyID{1}, Name: "n", Enabled: true, Any: true, Queue: "q", TagKey: "k", TagValue: "v", Approvers: []string{"a"},
		Expires: time.Hour, ApproveAtLast: true,
	}}
	ba := Batch{CreatedAt: epoch, FinishedAt: epoch + 1, Callback: "q", CallbackID: job.ID{1}, Sealed: true, Total: 5, Open: 1, Counts: [outcomeSlots]uint64{0, 1, 2, 0, 1}}
	return []record{
		{"head", h.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeHead(v); return x.encode(), x, err }},
		{"body", b.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeBody(v); return x.encode(), x, err }},
		{"plain body", plain.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeBody(v); return x.encode(), x, err }},
		{"counts", c.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeCounts(v); return x.encode(), x, err }},
		{"queue", q.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeQueueConfig(v); return x.encode(), x, err }},
		{"lock", l.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeLock(v); return x.encode(), x, err }},
		{"head of a ready job", ready.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeHead(v); return x.encode(), x, err }},
		{"counts with starts", c2.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeCounts(v); return x.encode(), x, err }},
		{"queue with limits", q2.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeQueueConfig(v); return x.encode(), x, err }},
		{"lock of a later generation", l2.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeLock(v); return x.encode(), x, err }},
		{"sweep mark", m.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeSweepMark(v); return x.encode(), x, err }},
		{"hold", held.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeHold(v); return x.encode(), x, err }},
		{"usage of an hour", meter.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeMeter(v); return x.encode(), x, err }},
		{"usage of a job", used.encode(), func(v []byte) ([]byte, any, error) {
			x, err := decodeJobUsage(v)
			if err != nil {
				return nil, nil, err
			}
			return x.encode(), *x, nil
		}},
		{"iteration", it.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeIteration(7, v); return x.encode(), x, err }},
		{"budget", bud.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeBudget(v); return x.encode(), x, err }},
		{"budget day", day.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeBudgetDay(v); return x.encode(), x, err }},
		{"policy", pol.encode(), func(v []byte) ([]byte, any, error) { x, err := decodePolicy(v); return x.encode(), x, err }},
		{"batch", ba.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeBatch(v); return x.encode(), x, err }},
		{"callback", encodeCallback([]byte("{}")), func(v []byte) ([]byte, any, error) { x, err := decodeCallback(v); return encodeCallback(x), x, err }},
		{"waiters", waiters{300, 301}.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeWaiters(v); return x.encode(), x, err }},
		{"attempt error", e.encode(), func(v []byte) ([]byte, any, error) { x, err := decodeAttemptError(v); return x.encode(), x, err }},
		{"lock name", encodeLockName("q", "k"), func(v []byte) ([]byte, any, error) {
			queue, key, err := decodeLockName(v)
			if err != nil {
				return nil, nil, err
			}
			return encodeLockName(queue, key), queue + "/" + key, err
		}},
	}
}

func TestRecords_ComeBackAndEveryCutIsRefused(t *testing.T) {
	t.Parallel()
	for _, r := range records() {
		again, _, err := r.decode(r.sample)
		if err != nil || !bytes.Equal(again, r.sample) {
			t.Errorf("%s: %x came back as %x, %v", r.name, r.sample, again, err)
		}
		for n := range r.sample {
			if _, _, err := r.decode(r.sample[:n]); !errors.Is(err, ErrRecord) {
				t.Errorf("%s cut to %d of %d bytes: %v", r.name, n, len(r.sample), err)
			}
		}
		if _, _, err := r.decode(append(bytes.Clone(r.sample), 0)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s with a byte more: %v", r.name, err)
		}
		other := bytes.Clone(r.sample)
		other[0]++
		if _, _, err := r.decode(other); !errors.Is(err, ErrRecord) {
			t.Errorf("%s of another version: %v", r.name, err)
		}
	}
	h := sampleHead()
	got, err := decodeHead(h.encode())
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("head %+v, %v, want %+v", got, err, h)
	}
	ready := Head{State: job.Pending, Timeline: []Moment{}}
	named := ready.encode()
	named[len(named)-1] = byte(headDue) // Nothing else stands behind the mask.
	if _, err := decodeHead(append(named, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a head with a due time of zero: %v", err)
	}
	plain := Body{Queue: "q"}
	named = plain.encode()
	named[len(named)-1] = byte(bodyTrace)
	if _, err := decodeBody(append(named, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a body with a trace of no text: %v", err)
	}
	h.State = 0
	if _, err := decodeHead(h.encode()); !errors.Is(err, ErrRecord) {
		t.Errorf("a head without a state: %v", err)
	}
}

func FuzzRecords(f *testing.F) {
	for i, r := range records() {
		f.Add(byte(i), r.sample)
	}
	// More moments than a head keeps.
	h := sampleHead()
	for range 40 {
		h.Timeline = append(h.Timeline, Moment{WasStarted, epoch, 1})
	}
	f.Add(byte(0), h.encode())
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		r := records()[int(which)%len(records())]
		again, value, err := r.decode(b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("%s: error %v", r.name, err)
			}
			return
		}
		_, same, err := r.decode(again)
		if err != nil || !reflect.DeepEqual(same, value) {
			t.Fatalf("%s %+v came back as %+v, %v", r.name, value, same, err)
		}
	})
}

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
		&command.Ack{ID: id}, &command.Delete{ID: id}, &command.TrimFeed{Before: 2}, &command.Pause{Queue: "q", Paused: true},
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
	out, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Lease: r.now, Payload: payload})
	if err != nil {
		return nil, errors.Join(err, txn.Discard())
	}
	if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
		t.Fatalf("end entry: %v", err)
	}
	return out, txn.Commit()
}

// A history never grows beyond its bound, keeps its beginning and its end, and
// never changes a copy that shares it (the cache of leased heads).
func TestNote_KeepsTheFirstAndTheLatest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Head
		var all []Moment
		n := rapid.IntRange(1, 3*timelineMax).Draw(t, "moments")
		for i := range n {
			copied, want := h, append([]Moment(nil), h.Timeline...)
			h.note(WasStarted, int64(i))
			all = append(all, Moment{WasStarted, int64(i), 0})
			if len(copied.Timeline) != len(want) || len(want) > 0 && !reflect.DeepEqual(copied.Timeline, want) {
				t.Fatalf("an older copy became %v, was %v", copied.Timeline, want)
			}
			copied.note(WasFailed, -1) // A copy that goes another way.
		}
		if n > timelineMax {
			all = append(all[:1:1], all[n-timelineMax+1:]...)
		}
		if !reflect.DeepEqual(h.Timeline, all) {
			t.Fatalf("history %v, want %v", h.Timeline, all)
		}
	})
}

// No entry leaves a lock's due row behind. Should one be there all the same, it
// removes itself and not the lock that stands there now.
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
		txn.Set(keys.In(r.store.Prefix()).Due(d), encodeLockName("q", "k"))
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
	for name, h := range map[string]Head{
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
			assertHead(job.ID{7}, &h)
		}()
	}
}

// Rows from before the worker was kept end where it would stand.
func TestAttemptError_WithAndWithoutItsWorkerComesBack(t *testing.T) {
	t.Parallel()
	for _, want := range []attemptError{{Attempt: 3, At: epoch, Error: "boom"}, {Attempt: 3, At: epoch, Error: "boom", Backtrace: "trace", Worker: "w1"}} {
		if got, err := decodeAttemptError(want.encode()); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	nobody := (&attemptError{Attempt: 3}).encode()
	if _, err := decodeAttemptError(append(nobody, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a worker without a name: %v", err)
	}
}
