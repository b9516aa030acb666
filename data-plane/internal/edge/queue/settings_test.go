package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func set[T any](v T) *T { return &v }

func (r *rig) set(name string, in QueueSettings) wire.Queue {
	r.t.Helper()
	q, err := r.SetQueue(r.ctx(), r.caller, name, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

func TestQueue_OneThatDoesNotExistIsNotFound(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.Queue(r.ctx(), r.caller, "nope")
	if gone := r.DeleteQueue(r.ctx(), r.caller, "nope"); reason(err) != "NOT_FOUND" || reason(gone) != "NOT_FOUND" {
		t.Errorf("%v, %v", err, gone)
	}
	for _, name := range []string{"-", "a/b", "", strings.Repeat("q", 129)} {
		_, err := r.Queue(r.ctx(), r.caller, name)
		equal(t, "read", paths(err), []string{"queue"})
		equal(t, "deleted", paths(r.DeleteQueue(r.ctx(), r.caller, name)), []string{"queue"})
		_, err = r.SetQueue(r.ctx(), r.caller, name, QueueSettings{MaxConcurrency: set(-1)})
		equal(t, "set", paths(err), []string{"queue", "max_concurrency"})
	}
}

func throttled(q wire.Queue, by Throttle) bool {
	return q.RateLimit == by.Limit && q.RateWindowMS == by.Window.Milliseconds()
}

func fingerprint(q wire.Queue) uint64 {
	n, _ := ParseETag(q.ETag)
	return n
}

func TestSetQueue_MakesItAndChangesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	r := start(t)
	rate := Throttle{Limit: 100, Window: time.Minute}
	q := r.set("mail", QueueSettings{MaxConcurrency: set(3), Throttle: &rate, Paused: set(true)})
	if q.Name != "mail" || !q.Paused || q.MaxConcurrency != 3 || !throttled(q, rate) || q.CreatedAt.IsZero() {
		t.Fatalf("made %+v", q)
	}
	if q = r.set("mail", QueueSettings{Paused: set(false)}); q.Paused || q.MaxConcurrency != 3 || !throttled(q, rate) {
		t.Fatalf("resumed %+v", q)
	}
	if q = r.set("mail", QueueSettings{MaxConcurrency: set(0)}); q.MaxConcurrency != 0 || !throttled(q, rate) {
		t.Fatalf("without slots %+v", q)
	}
	if q = r.set("mail", QueueSettings{Throttle: &Throttle{}}); !throttled(q, Throttle{}) {
		t.Fatalf("without a throttle %+v", q)
	}
	all, err := r.Queues(r.ctx(), r.caller)
	if err != nil || len(all) != 1 || all[0].Name != "mail" {
		t.Fatalf("listed %+v, %v", all, err)
	}
}

func TestSetQueue_OnConditionChangesOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := start(t)
	seen := r.set("mail", QueueSettings{MaxConcurrency: set(3)})
	other := r.set("mail", QueueSettings{Paused: set(true)})
	if fingerprint(seen) == 0 || seen.ETag == other.ETag {
		t.Fatalf("fingerprints %s and %s", seen.ETag, other.ETag)
	}
	for _, name := range []string{"mail", "not-there"} {
		_, err := r.SetQueue(r.ctx(), r.caller, name, QueueSettings{MaxConcurrency: set(4), IfFingerprint: fingerprint(seen)})
		if reason(err) != "QUEUE_CHANGED" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Queue(r.ctx(), r.caller, "not-there"); reason(err) != "NOT_FOUND" {
		t.Errorf("a refused change made the queue: %v", err)
	}
	now := r.set("mail", QueueSettings{MaxConcurrency: set(5), IfFingerprint: fingerprint(other)})
	if now.MaxConcurrency != 5 || !now.Paused {
		t.Errorf("is %+v", now)
	}
	r.enqueue(EnqueueInput{Queue: "mail"}) // What goes through a queue is none of its settings.
	if again := r.set("mail", QueueSettings{IfFingerprint: fingerprint(now)}); again.ETag != now.ETag {
		t.Errorf("fingerprint %s became %s", now.ETag, again.ETag)
	}
}

func TestSetQueue_LimitsAreChecked(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, c := range []struct {
		in   QueueSettings
		want []string
	}{
		{QueueSettings{MaxConcurrency: set(-1)}, []string{"max_concurrency"}},
		{QueueSettings{MaxConcurrency: set(ConcurrencyMax + 1)}, []string{"max_concurrency"}},
		{QueueSettings{Throttle: &Throttle{Limit: 1}}, []string{"throttle.window_ms"}},
		{QueueSettings{Throttle: &Throttle{Window: time.Second}}, []string{"throttle.limit"}},
		{QueueSettings{Throttle: &Throttle{Limit: ThrottleMax + 1, Window: WindowMax + 1}}, []string{"throttle.limit", "throttle.window_ms"}},
		{QueueSettings{Throttle: &Throttle{Limit: 1, Window: WindowMin - 1}}, []string{"throttle.window_ms"}},
	} {
		_, err := r.SetQueue(r.ctx(), r.caller, "q", c.in)
		equal(t, "refused", paths(err), c.want)
	}
	r.set("q", QueueSettings{MaxConcurrency: set(ConcurrencyMax), Throttle: &Throttle{Limit: ThrottleMax, Window: WindowMax}})
	r.set("q", QueueSettings{Throttle: &Throttle{Limit: 1, Window: WindowMin}})
}

// Three workers wait for a queue with one slot: each gets its job when the one before
// is done, at once.
func TestLimits_AWaitingFetchGetsTheSlotThatIsFreed(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.set("q", QueueSettings{MaxConcurrency: set(1)})
	for range 3 {
		r.enqueue(EnqueueInput{})
	}
	g := r.one()
	if got := r.fetch(FetchInput{Count: 5}); len(got) != 0 {
		t.Fatalf("a second job for one slot: %+v", got)
	}
	for range 2 {
		got := make(chan []wire.FetchedJob, 1)
		go func() {
			grants, err := r.Service.Fetch(t.Context(), r.caller, FetchInput{Queues: []string{"q"}, Count: 5, Wait: patience})
			if err != nil {
				t.Error(err)
			}
			got <- grants
		}()
		eventually.True(r.t, patience, "the fetch waits", func() bool { return r.shard.Stats().Parked.Load() == 1 })
		if errs, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		grants := <-got
		if len(grants) != 1 {
			t.Fatalf("%d jobs for one slot", len(grants))
		}
		g = grants[0]
	}
}

// A deleted queue takes its jobs with it; who holds one is told when it settles, and
// the name is free with its keys.
func TestDeleteQueue_TakesTheJobsAndFreesTheName(t *testing.T) {
	t.Parallel()
	r := start(t)
	waiting := r.enqueue(EnqueueInput{UniqueKey: "u", IdempotencyKey: "i"})
	r.enqueue(EnqueueInput{Priority: "critical"})
	g := r.one()
	other := r.enqueue(EnqueueInput{Queue: "other"})
	if err := r.DeleteQueue(r.ctx(), r.caller, "q"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []job.ID{waiting, idOf(g.JobID)} {
		if _, err := r.Job(r.ctx(), r.caller, id); reason(err) != "NOT_FOUND" {
			t.Errorf("job %s: %v", id, err)
		}
	}
	res, err := r.Frame(r.ctx(), r.caller, FrameInput{
		Acks: []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}}, Fails: []FailInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}},
		Heartbeats: []HeartbeatInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}},
	})
	if err != nil || reason(res.Acks[0]) != "NOT_FOUND" || reason(res.Fails[0].Err) != "NOT_FOUND" || res.Heartbeats[0].Status != wire.HeartbeatLost {
		t.Errorf("settling a deleted job: %+v, %v", res, err)
	}
	if !strings.Contains(res.Acks[0].Error(), "queue was deleted") {
		t.Errorf("the refusal does not say why: %v", res.Acks[0])
	}
	if got := r.fetch(FetchInput{}); len(got) != 0 {
		t.Errorf("a deleted job was handed out: %+v", got)
	}
	again := r.enqueue(EnqueueInput{UniqueKey: "u", IdempotencyKey: "i"})
	if got := r.one(); got.JobID != again.String() || again == waiting {
		t.Errorf("after the queue was made again %+v was handed out, want %s", got, again)
	}
	if r.job(other).State != wire.Pending {
		t.Error("another queue's job is not what it was")
	}
	if all, err := r.Queues(r.ctx(), r.caller); err != nil || len(all) != 2 {
		t.Errorf("queues %+v, %v", all, err)
	}
}
