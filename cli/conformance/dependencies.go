package conformance

import "time"

// pairOf enqueues a job and one that waits for it.
func (t *T) pairOf(policy string) (first, second Enqueued, q string) {
	q = t.Queue()
	first = t.Enqueue(Job{Queue: q, MaxRetries: new(1)})
	second = t.Enqueue(Job{Queue: q, DependsOn: []string{first.ID}, OnDependencyFailed: policy})
	return first, second, q
}

var dependencyRules = []Rule{
	{Name: "a job waits for all jobs that it depends on", Needs: "dependencies", Run: func(t *T, q string) {
		a, b := t.Queue(), t.Queue()
		one, two := t.Enqueue(Job{Queue: a}), t.Enqueue(Job{Queue: b})
		e := t.Enqueue(Job{Queue: q, DependsOn: []string{one.ID, two.ID}})
		Equal(t, "status", e.Status, "pending")
		Equal(t, "waiting on", t.State(e.ID, "pending").WaitingOn, 2)
		t.Ack(t.Fetch(a))
		t.Nothing(q)
		t.Ack(t.Fetch(b))
		Equal(t, "job", t.Fetch(q).ID, e.ID)
		Equal(t, "waiting on", t.Job(e.ID).WaitingOn, 0)
	}},
	{Name: "what has ended counts at once", Needs: "dependencies", Run: func(t *T, q string) {
		done, _ := t.inState(q, "completed")
		e := t.Enqueue(Job{Queue: q, DependsOn: []string{done}})
		Equal(t, "job", t.Fetch(q).ID, e.ID)
		dead, _ := t.inState(q, "dead")
		t.Becomes(t.Enqueue(Job{Queue: q, DependsOn: []string{dead}}).ID, "dead")
		e = t.Enqueue(Job{Queue: q, DependsOn: []string{dead}, OnDependencyFailed: "run"})
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "when one dies, is cancelled or deleted, the policy decides", Needs: "dependencies", Run: func(t *T, _ string) {
		for policy, want := range map[string]string{"": "dead", "fail": "dead", "cancel": "cancelled", "run": "pending"} {
			for _, how := range []string{"die", "cancel", "delete"} {
				first, second, q := t.pairOf(policy)
				switch how {
				case "die":
					t.Failed(t.Fetch(q), "dead")
				case "cancel":
					t.Do(first.ID, "cancel", "cancelled")
				default:
					t.Delete(first.ID)
				}
				if want == "pending" {
					Equal(t, "job", t.Fetch(q).ID, second.ID)
					continue
				}
				j := t.Becomes(second.ID, want)
				t.FailIf(want == "dead" && j.DeadReason != "dependency_failed", "reason %q", j.DeadReason)
			}
		}
	}},
	{Name: "the end of a job that waits is passed on", Needs: "dependencies", Run: func(t *T, _ string) {
		first, second, q := t.pairOf("")
		third := t.Enqueue(Job{Queue: q, DependsOn: []string{second.ID}})
		t.Do(first.ID, "cancel", "cancelled")
		t.Becomes(second.ID, "dead")
		t.Becomes(third.ID, "dead")
	}},
	{Name: "many jobs may wait for one", Needs: "dependencies", Run: func(t *T, q string) {
		waiting := t.Queue()
		first := t.Enqueue(Job{Queue: q})
		jobs := make([]Job, 600)
		for i := range jobs {
			jobs[i] = Job{Queue: waiting, DependsOn: []string{first.ID}}
		}
		t.EnqueueBatch(nil, jobs...)
		t.Nothing(waiting)
		t.Ack(t.Fetch(q))
		for n := 0; n < len(jobs); {
			leases := t.FetchMany(Fetch{Queues: []string{waiting}, Count: 512, Worker: "w1", Lease: time.Hour, Wait: soon})
			if n += len(leases); len(leases) == 0 {
				t.Fatalf("%d of %d jobs go on", n, len(jobs))
			}
		}
	}},
	{Name: "a scheduled job waits for both, its time and the others", Timed: true, Needs: "dependencies", Run: func(t *T, q string) {
		first := t.Enqueue(Job{Queue: q})
		e := t.Enqueue(Job{Queue: q, DependsOn: []string{first.ID}, ScheduledAt: later()})
		Equal(t, "status", e.Status, "scheduled")
		t.Ack(t.Fetch(q))
		t.State(e.ID, "scheduled")
		t.Do(e.ID, "retry", "retried")
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "an approved job still waits for the others", Needs: "dependencies", Run: func(t *T, _ string) {
		first, second, q := t.pairOf("")
		t.Do(second.ID, "hold", "held")
		t.Do(second.ID, "approve", "pending")
		Equal(t, "job", t.Fetch(q).ID, first.ID)
		t.Nothing(q)
		t.Ack(Lease{ID: first.ID})
		Equal(t, "job", t.Fetch(q).ID, second.ID)
	}},
	{Name: "a job that is not there cannot be waited for", Needs: "dependencies", Run: func(t *T, q string) {
		gone := t.Enqueue(Job{Queue: q}).ID
		t.Delete(gone)
		for _, id := range []string{gone, "nonsense"} {
			_, err := t.Client.Enqueue(t.Context, Job{Queue: q, DependsOn: []string{id}})
			r := AsRefusal(err)
			t.FailIf(r == nil || r.Code == conflict || len(r.Fields) != 1 || r.Fields[0] != "depends_on[0]", "waiting for %q: %v", id, err)
		}
		t.EnqueueRefused(Job{Queue: q, OnDependencyFailed: "hope", DependsOn: []string{t.Enqueue(Job{Queue: q}).ID}}, invalid, "on_dependency_failed")
	}},
}
