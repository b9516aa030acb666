package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// renews wants a heartbeat to renew a lease of one second.
func (t *T) renews(beat func(h Heartbeat, id string)) {
	q, clock := t.Queue(), t.Queue()
	t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: clock})
	second := func(queue string) Lease {
		return t.FetchAs(Fetch{Queues: []string{queue}, Worker: "w1", Lease: time.Second, Wait: soon})
	}
	l := second(q)
	beat(Heartbeat{Worker: "w1", Lease: time.Minute, Jobs: map[string]JobUpdate{l.ID: {Token: l.Token}}}, l.ID)
	second(clock)
	t.Fetch(clock) // A lease of one second, taken later, has run out.
	t.State(l.ID, "active")
	t.Ack(l)
}

var workRules = []Rule{
	{Name: "jobs of a queue go out in the order they came in", Run: func(t *T, q string) {
		for i := range 10 {
			t.Enqueue(Job{Queue: q, Payload: JSON(fmt.Sprint(i))})
		}
		for i := range 10 {
			Equal(t, "payload", t.Fetch(q).Payload, JSON(fmt.Sprint(i)))
		}
	}},
	{Name: "a higher priority goes first, in its own order", Run: func(t *T, q string) {
		for i, p := range []string{"normal", "critical", "high", "", "critical"} {
			t.Enqueue(Job{Queue: q, Payload: JSON(fmt.Sprint(i)), Priority: p})
		}
		for _, want := range []JSON{"1", "4", "2", "0", "3"} {
			Equal(t, "payload", t.Fetch(q).Payload, want)
		}
	}},
	{Name: "a fetch from several queues starves none of them", Run: func(t *T, _ string) {
		a, b, c := t.Queue(), t.Queue(), t.Queue()
		for range 20 {
			t.Enqueue(Job{Queue: a})
		}
		t.EnqueueBatch(nil, Job{Queue: b}, Job{Queue: b}, Job{Queue: c}, Job{Queue: c})
		got := map[string]int{}
		for range 12 {
			got[t.Fetch(a, b, c).Queue]++
		}
		t.FailIf(got[b] != 2 || got[c] != 2, "12 fetches took %v", got)
	}},
	{Name: "a fetch takes from the queues it names alone", Run: func(t *T, _ string) {
		a, b := t.Queue(), t.Queue()
		t.Enqueue(Job{Queue: a})
		t.Nothing(b)
		Equal(t, "queue", t.Fetch(b, a).Queue, a)
	}},
	{Name: "a fetch of many takes what there is, up to its count, each once", Run: func(t *T, q string) {
		jobs := make([]Job, 7)
		for i := range jobs {
			jobs[i] = Job{Queue: q, Payload: JSON(fmt.Sprint(i))}
		}
		t.EnqueueBatch(nil, jobs...)
		var all []JSON
		for _, want := range []int{5, 2, 0} {
			leases := t.FetchMany(Fetch{Queues: []string{q}, Count: 5, Lease: time.Minute})
			Equal(t, "jobs", len(leases), want)
			for _, l := range leases {
				all = append(all, l.Payload)
			}
		}
		want := []JSON{"0", "1", "2", "3", "4", "5", "6"}
		t.FailIf(!slices.Equal(all, want), "took %v", all)
	}},
	{Name: "a waiting fetch is woken by the job it waits for", Run: func(t *T, q string) {
		t.Leased(Job{Queue: q}) // So that the queue is there.
		var got []Lease
		var err error
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err = t.Client.Fetch(t.Context, Fetch{Queues: []string{q}, Lease: time.Minute, Wait: soon})
		})
		e := t.Enqueue(Job{Queue: q})
		wg.Wait()
		t.must("fetch", err)
		t.FailIf(len(got) != 1 || got[0].ID != e.ID, "the fetch got %+v, want %s", got, e.ID)
	}},
	{Name: "workers that fetch at the same time share no job", Run: func(t *T, q string) {
		const jobs = 40
		t.EnqueueBatch(nil, slices.Repeat([]Job{{Queue: q}}, jobs)...)
		var mu sync.Mutex
		seen := map[string]int{}
		var failed error
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					leases, err := t.Client.Fetch(t.Context, Fetch{Queues: []string{q}, Count: 3, Lease: time.Minute})
					mu.Lock()
					for _, l := range leases {
						seen[l.ID]++
					}
					if err != nil {
						failed = err
					}
					mu.Unlock()
					if err != nil || len(leases) == 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		t.must("fetch", failed)
		Equal(t, "jobs", len(seen), jobs)
		for id, n := range seen {
			t.FailIf(n != 1, "job %s was handed out %d times", id, n)
		}
	}},
	{Name: "an ack completes the job and keeps its result", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q})
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Result: `{"sent":[1]}`})
		j := t.State(l.ID, "completed")
		Equal(t, "result", string(j.Result), `{"sent":[1]}`)
		t.FailIf(j.CompletedAt.IsZero() || j.Attempt != 1, "completed job %+v", j)
		t.Nothing(q)
	}},
	{Name: "an ack keeps its checkpoint, alone and in a batch", Run: func(t *T, q string) {
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q})
		a, b := t.Fetch(q), t.Fetch(q)
		t.AckAs(Ack{ID: a.ID, Token: a.Token, Checkpoint: "1"})
		t.AckBatch(Ack{ID: b.ID, Token: b.Token, Checkpoint: "2"})
		Equal(t, "checkpoints", string(t.State(a.ID, "completed").Checkpoint)+string(t.State(b.ID, "completed").Checkpoint), "12")
	}},
	{Name: "a repeated ack with the same token is the same success", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q})
		for range 3 {
			t.AckAs(Ack{ID: l.ID, Token: l.Token, Result: "1"})
		}
		Equal(t, "completed", t.QueueNow(q).Completed, 1)
	}},
	{Name: "acks in a batch have an outcome each", Run: func(t *T, q string) {
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q})
		a, b := t.Fetch(q), t.Fetch(q)
		unknown := t.Enqueue(Job{Queue: q})
		t.Delete(unknown.ID)
		errs := t.AckBatch(Ack{ID: a.ID, Token: a.Token, Result: "1"}, Ack{ID: unknown.ID}, Ack{ID: "nonsense"}, Ack{ID: a.ID, Token: a.Token}, Ack{ID: b.ID, Token: a.Token}, Ack{ID: b.ID, Token: b.Token})
		for i, want := range []string{"", notFound, notFound, "", leaseLost, ""} {
			switch {
			case want == "" && errs[i] != nil:
				t.Fatalf("ack %d: %v", i, errs[i])
			case want != "":
				t.Refused(errs[i], want)
			}
		}
		Equal(t, "result", string(t.State(a.ID, "completed").Result), "1")
		t.State(b.ID, "completed")
		Equal(t, "completed", t.QueueNow(q).Completed, 2)
	}},
	{Name: "settling what is not there, not active or not yours is refused by name", Run: func(t *T, q string) {
		e := t.Enqueue(Job{Queue: q})
		other := t.Enqueue(Job{Queue: t.Queue()})
		t.Refused(t.Client.Ack(t.Context, Ack{ID: e.ID}), notActive)
		_, err := t.Client.Fail(t.Context, Fail{ID: e.ID, Error: "boom"})
		t.Refused(err, notActive)
		l := t.Fetch(q)
		t.Delete(other.ID)
		t.Refused(t.Client.Ack(t.Context, Ack{ID: other.ID}), notFound)
		_, err = t.Client.Fail(t.Context, Fail{ID: other.ID})
		t.Refused(err, notFound)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true})
		again := t.Fetch(q)
		t.Refused(t.Client.Ack(t.Context, Ack{ID: l.ID, Token: l.Token}), leaseLost)
		_, err = t.Client.Fail(t.Context, Fail{ID: l.ID, Token: l.Token, Error: "late"})
		t.Refused(err, leaseLost)
		Equal(t, "word of a heartbeat", t.Heartbeat(l), "lost")
		t.State(again.ID, "active")
		t.Ack(again)
	}},
	{Name: "while no lease has run out a call without a token is taken", Run: func(t *T, q string) {
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q, MaxRetries: new(1)})
		a, b := t.Fetch(q), t.Fetch(q)
		t.AckAs(Ack{ID: a.ID})
		Equal(t, "status", t.Fail(Fail{ID: b.ID, Error: "boom"}).Status, "dead")
		t.State(a.ID, "completed")
	}},
	{Name: "a lease that runs out counts as a crash, and its token is worth nothing", Timed: true, Run: func(t *T, q string) {
		t.Enqueue(Job{Queue: q})
		lost := t.FetchAs(Fetch{Queues: []string{q}, Worker: "w1", Lease: time.Second, Wait: soon})
		l := t.FetchAs(Fetch{Queues: []string{q}, Worker: "w2", Lease: time.Minute, Wait: soon})
		Equal(t, "id", l.ID, lost.ID)
		Equal(t, "attempt", l.Attempt, 2)
		t.FailIf(l.Token == lost.Token, "two leases have one token")
		Equal(t, "crashes", t.Job(l.ID).Crashes, 1)
		t.Refused(t.Client.Ack(t.Context, Ack{ID: l.ID, Token: lost.Token}), leaseLost)
		t.Refused(t.Client.Ack(t.Context, Ack{ID: l.ID, Worker: "w1"}), leaseLost)
		Equal(t, "word of a heartbeat", t.Heartbeat(lost), "lost")
		t.AckAs(Ack{ID: l.ID, Worker: "w2"}) // Without a token, the holder by name.
	}},
	{Name: "three leases that run out make a job dead", Timed: true, Run: func(t *T, q string) {
		e := t.Enqueue(Job{Queue: q, MaxRetries: new(10)})
		for range 3 {
			t.FetchAs(Fetch{Queues: []string{q}, Lease: time.Second, Wait: soon})
		}
		Equal(t, "reason", t.Becomes(e.ID, "dead").DeadReason, "crash_loop")
	}},
	{Name: "a heartbeat renews the lease", Timed: true, Run: func(t *T, _ string) {
		t.renews(func(h Heartbeat, id string) { Equal(t, "word", t.HeartbeatAs(h)[id].Status, "ok") })
	}},
	{Name: "a heartbeat whose news is refused renews the lease", Timed: true, Run: func(t *T, _ string) {
		t.renews(func(h Heartbeat, id string) {
			h.Jobs[id] = JobUpdate{Token: h.Jobs[id].Token, Progress: quoted(strings.Repeat("x", 64<<10))}
			_, err := t.Client.Heartbeat(t.Context, h)
			t.Refused(err, invalid, "progress")
		})
	}},
	{Name: "a heartbeat stores progress and checkpoint, and the next attempt gets the checkpoint", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Backoff: "none"})
		t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token, Progress: "42", Checkpoint: `{"at":3}`}}})
		j := t.State(l.ID, "active")
		Equal(t, "progress and checkpoint", string(j.Progress)+string(j.Checkpoint), `42{"at":3}`)
		t.Failed(l, "retrying")
		Equal(t, "checkpoint", t.Fetch(q).Checkpoint, `{"at":3}`)
	}},
	{Name: "a heartbeat has a word for each of its jobs", Run: func(t *T, q string) {
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q})
		a, b := t.Fetch(q), t.Fetch(q)
		t.Do(b.ID, "cancel", "cancelling")
		beats := t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{
			a.ID: {Token: a.Token}, b.ID: {Token: b.Token}, "nonsense": {Token: a.Token}, "old": {},
		}})
		// Who shows no token may know ok and cancel only.
		t.FailIf(beats[a.ID].Status != "ok" || beats[b.ID].Status != "cancel" || beats["nonsense"].Status != "lost" || beats["old"].Status != "cancel", "heartbeat answered %+v", beats)
	}},
	{Name: "a failed attempt is tried again after its backoff", Timed: true, Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(2), Backoff: "fixed", BaseDelay: new(time.Second)})
		out := t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "boom", Backtrace: "here"})
		t.FailIf(out.Status != "retrying" || out.Remaining != 1 || out.NextAt.IsZero(), "fail answered %+v", out)
		j := t.State(l.ID, "retrying")
		t.FailIf(len(j.Errors) != 1 || j.Errors[0].Error != "boom" || j.Errors[0].Backtrace != "here" || j.Errors[0].Attempt != 1, "errors %+v", j.Errors)
		t.Nothing(q)
		l = t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 2)
		started := t.Job(l.ID).StartedAt
		t.FailIf(started.Before(out.NextAt), "tried again at %s, was due at %s", started, out.NextAt)
		if out := t.Failed(l, "dead"); out.Remaining != 0 || !out.NextAt.IsZero() {
			t.Fatalf("the last fail answered %+v", out)
		}
		Equal(t, "reason", t.State(l.ID, "dead").DeadReason, "max_retries")
		t.Nothing(q)
	}},
	{Name: "a repeated fail with the same token is answered as before", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
		t.Failed(l, "dead")
		t.Failed(l, "dead")
		Equal(t, "failed attempts", t.QueueNow(q).Failed, 1)
	}},
	{Name: "a release spends no attempt", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
		Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "no time", Release: true}).Status, "pending")
		l = t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 1)
		Equal(t, "failed attempts", t.QueueNow(q).Failed, 0)
		t.Ack(l)
	}},
	{Name: "the error worker_shutdown is a release", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
		Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "worker_shutdown"}).Status, "pending")
		Equal(t, "attempt", t.Fetch(q).Attempt, 1)
	}},
	{Name: "a job that was given back goes to the end of its queue", Run: func(t *T, q string) {
		t.EnqueueBatch(nil, Job{Queue: q, Payload: "0"}, Job{Queue: q, Payload: "1"})
		l := t.Fetch(q)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true})
		Equal(t, "payload", t.Fetch(q).Payload, "1")
		Equal(t, "payload", t.Fetch(q).Payload, "0")
	}},
	{Name: "a terminal failure is the last one", Needs: "nack", Run: func(t *T, _ string) {
		l := t.Leased(Job{MaxRetries: new(9)})
		out := t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "no use", Terminal: true})
		Equal(t, "answer", out, Failed{Status: "dead"})
		Equal(t, "reason", t.State(l.ID, "dead").DeadReason, "terminal")
	}},
	{Name: "a failure with a delay is tried again after exactly that", Timed: true, Needs: "nack", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(3)})
		before := time.Now()
		out := t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "later", Delay: new(time.Minute)})
		t.FailIf(out.Status != "retrying" || out.Remaining != 2 || !about(out.NextAt.Sub(before), time.Minute), "fail answered %+v", out)
		t.Do(l.ID, "retry", "retried")
		l = t.Fetch(q)
		Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "now", Delay: new(time.Duration(0))}).Status, "retrying")
		l = t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 3)
		Equal(t, "status of the last attempt", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "later", Delay: new(time.Minute)}).Status, "dead")
	}},
	{Name: "a release with a delay comes back after it, and spends nothing", Timed: true, Needs: "nack", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
		out := t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true, Delay: new(time.Second)})
		Equal(t, "status", out.Status, "retrying")
		t.Nothing(q)
		l = t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 1)
		t.Ack(l)
	}},
}
