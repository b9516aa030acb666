package records

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

const epoch = int64(1_700_000_000_000_000_000)

// sampleHead is a head with every field set.
func sampleHead() Head {
	return Head{
		Queue: "q", State: job.Active, Priority: job.High,
		Retry:   command.RetryPolicy{MaxRetries: 5, Backoff: job.BackoffLinear, BaseDelay: time.Second, MaxDelay: time.Minute},
		Attempt: 2, Crashes: 1, Pos: keys.Position{Index: 3, Ordinal: 4}, Due: epoch, Epoch: keys.Position{Index: 5, Ordinal: 6},
		Lease: time.Minute, Worker: "w", Hostname: "h", Peer: 7, Flags: FlagUnique | FlagErrors, Started: epoch + 1, Finished: epoch + 2,
		FailedAt: epoch + 3, Reason: DeadCrashes,
		Timeline: []Moment{{feed.Enqueued, epoch, 0}, {feed.Started, epoch + 5, 1}, {feed.Failed, epoch + 3, 1}},
		Shift:    9, Gen: 300, ExpireAt: epoch + 4, Iteration: 2,
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
	l := Lock{Owner: job.ID{1}, By: job.ID{2}, Expires: epoch, State: job.Pending, Duplicate: true}
	c2, l2 := c, l
	l2.Gen = 300
	ready := Head{Queue: "q", State: job.Pending, Pos: keys.Position{Index: 3, Ordinal: 4}, Timeline: []Moment{{feed.Enqueued, epoch, 0}}}
	c2.Starts = Starts{{epoch, epoch + 5, 2}, {epoch + 7, epoch + 7, 1}}
	q2 := QueueConfig{
		CreatedAt: epoch, MaxConcurrency: 300, Throttle: command.Throttle{Limit: 1000, Window: time.Minute}, Gen: 7, Kept: 6,
		Draining: true, Retry: command.DefaultRetry(), RetrySet: command.RetryAll,
		Retention: command.QueueRetention{Completed: time.Hour, Dead: 24 * time.Hour, Cancelled: time.Minute, Max: 1000},
	}
	m := SweepMark{Gen: 300, At: epoch}
	held := Hold{
		Cause: HoldCause{Text: "r"}, By: "b", At: epoch, Until: epoch + 1, ApproveAtLast: true, Policy: job.PolicyID{3}, Approvers: []string{"a", "c"},
		Decision: Approved, DecidedBy: "d", Comment: "c", DecidedAt: epoch + 2,
	}
	e := AttemptError{Attempt: 3, At: epoch, Cause: IterationRanOut, Error: "boom", Backtrace: "trace", Worker: "w"}
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
	day := BudgetDay{Cost: -5, Told: true}
	pol := Policy{CreatedAt: epoch, Policy: command.Policy{
		ID: job.PolicyID{1}, Name: "n", Enabled: true, Any: true, Queue: "q", TagKey: "k", TagValue: "v", Approvers: []string{"a"},
		Expires: time.Hour, ApproveAtLast: true,
	}}
	ba := Batch{CreatedAt: epoch, FinishedAt: epoch + 1, Callback: "q", CallbackID: job.ID{1}, Sealed: true, Total: 5, Open: 1, Counts: [OutcomeSlots]uint64{0, 1, 2, 0, 1}}
	metered := ready
	metered.Metered, metered.Stored = true, 300
	plainReading := Reading{Hour: HourOf(epoch), Seq: 300, Jobs: 1, Executions: 2, PayloadBytes: 3, Kept: 4, Until: 5, OpenJobs: 6, StoredBytes: 7}
	reading := plainReading
	reading.Quiet = Quiet{From: HourOf(epoch) - 9, OpenJobs: 1, StoredBytes: 2, Seq: 300}
	return []record{
		{"head", h.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeHead(v); return x.Encode(), x, err }},
		{"body", b.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeBody(v); return x.Encode(), x, err }},
		{"plain body", plain.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeBody(v); return x.Encode(), x, err }},
		{"counts", c.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeCounts(v); return x.Encode(), x, err }},
		{"queue", q.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeQueueConfig(v); return x.Encode(), x, err }},
		{"lock", l.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeLock(v); return x.Encode(), x, err }},
		{"head of a ready job", ready.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeHead(v); return x.Encode(), x, err }},
		{"counts with starts", c2.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeCounts(v); return x.Encode(), x, err }},
		{"queue with limits", q2.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeQueueConfig(v); return x.Encode(), x, err }},
		{"lock of a later generation", l2.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeLock(v); return x.Encode(), x, err }},
		{"sweep mark", m.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeSweepMark(v); return x.Encode(), x, err }},
		{"hold", held.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeHold(v); return x.Encode(), x, err }},
		{"usage of an hour", meter.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeMeter(v); return x.Encode(), x, err }},
		{"usage of a job", used.Encode(), func(v []byte) ([]byte, any, error) {
			x, err := DecodeJobUsage(v)
			if err != nil {
				return nil, nil, err
			}
			return x.Encode(), *x, nil
		}},
		{"iteration", it.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeIteration(7, v); return x.Encode(), x, err }},
		{"budget", bud.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeBudget(v); return x.Encode(), x, err }},
		{"budget day", day.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeBudgetDay(v); return x.Encode(), x, err }},
		{"policy", pol.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodePolicy(v); return x.Encode(), x, err }},
		{"batch", ba.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeBatch(v); return x.Encode(), x, err }},
		{"callback", EncodeCallback([]byte("{}")), func(v []byte) ([]byte, any, error) { x, err := DecodeCallback(v); return EncodeCallback(x), x, err }},
		{"waiters", Waiters{300, 301}.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeWaiters(v); return x.Encode(), x, err }},
		{"head of a metered job", metered.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeHead(v); return x.Encode(), x, err }},
		{"reading", plainReading.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeReading(v); return x.Encode(), x, err }},
		{"reading after quiet hours", reading.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeReading(v); return x.Encode(), x, err }},
		{"attempt error", e.Encode(), func(v []byte) ([]byte, any, error) { x, err := DecodeAttemptError(v); return x.Encode(), x, err }},
		{"lock name", EncodeLockName("q", "k"), func(v []byte) ([]byte, any, error) {
			queue, key, err := DecodeLockName(v)
			if err != nil {
				return nil, nil, err
			}
			return EncodeLockName(queue, key), queue + "/" + key, err
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
	got, err := DecodeHead(h.Encode())
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("head %+v, %v, want %+v", got, err, h)
	}
	ready := Head{State: job.Pending, Timeline: []Moment{}}
	named := ready.Encode()
	named[len(named)-1] = byte(headDue) // Nothing else stands behind the mask.
	if _, err := DecodeHead(append(named, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a head with a due time of zero: %v", err)
	}
	plain := Body{Queue: "q"}
	named = plain.Encode()
	named[len(named)-1] = byte(bodyTrace)
	if _, err := DecodeBody(append(named, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a body with a trace of no text: %v", err)
	}
	h.State = 0
	if _, err := DecodeHead(h.Encode()); !errors.Is(err, ErrRecord) {
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
		h.Timeline = append(h.Timeline, Moment{feed.Started, epoch, 1})
	}
	f.Add(byte(0), h.Encode())
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

// A history never grows beyond its bound, keeps its beginning and its end, and
// never changes a copy that shares it (the cache of leased heads).
func TestNote_KeepsTheFirstAndTheLatest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Head
		var all []Moment
		n := rapid.IntRange(1, 3*TimelineMax).Draw(t, "moments")
		for i := range n {
			copied, want := h, append([]Moment(nil), h.Timeline...)
			h.Note(feed.Started, int64(i))
			all = append(all, Moment{feed.Started, int64(i), 0})
			if len(copied.Timeline) != len(want) || len(want) > 0 && !reflect.DeepEqual(copied.Timeline, want) {
				t.Fatalf("an older copy became %v, was %v", copied.Timeline, want)
			}
			copied.Note(feed.Failed, -1) // A copy that goes another way.
		}
		if n > TimelineMax {
			all = append(all[:1:1], all[n-TimelineMax+1:]...)
		}
		if !reflect.DeepEqual(h.Timeline, all) {
			t.Fatalf("history %v, want %v", h.Timeline, all)
		}
	})
}

// Rows from before the worker was kept end where it would stand.
func TestAttemptError_WithAndWithoutItsWorkerComesBack(t *testing.T) {
	t.Parallel()
	for _, want := range []AttemptError{{Attempt: 3, At: epoch, Error: "boom"}, {Attempt: 3, At: epoch, Error: "boom", Backtrace: "trace", Worker: "w1"}} {
		if got, err := DecodeAttemptError(want.Encode()); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	nobody := (&AttemptError{Attempt: 3}).Encode()
	if _, err := DecodeAttemptError(append(nobody, 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a worker without a name: %v", err)
	}
}
