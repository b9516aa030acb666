package queue

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const aDay = 24 * time.Hour

// planned makes the namespace one of a plan with a maximum.
func (r *rig) planned() retention.Policy {
	most := retention.Policy{Finished: retention.Finished{Completed: 10 * aDay, Max: 1000}}
	p := retention.Resolve(retention.Policy{}, retention.Policy{}, most)
	r.keeps = func(job.Namespace) retention.Policy { return p }
	return p
}

func TestRetention_OfAQueueIsItsOwnThenTheNamespaces(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.planned()
	day := aDay.Milliseconds()
	namespace := wire.QueueRetention{CompletedMS: 7 * day, DeadMS: 30 * day, CancelledMS: 30 * day, FinishedMax: 1000}
	q := r.set("mail", QueueSettings{Paused: set(true)})
	if q.Retention != nil || q.EffectiveRetention != namespace {
		t.Errorf("without settings: %+v, %+v", q.Retention, q.EffectiveRetention)
	}
	if q.RetentionMax == nil || *q.RetentionMax != (wire.QueueRetention{CompletedMS: 10 * day, FinishedMax: 1000}) {
		t.Errorf("the plan's maximum is %+v", q.RetentionMax)
	}
	before := q.ETag
	q = r.set("mail", QueueSettings{Retention: &retention.Finished{Completed: time.Hour, Max: 5}})
	want := namespace
	want.CompletedMS, want.FinishedMax = time.Hour.Milliseconds(), 5
	if q.Retention == nil || *q.Retention != (wire.QueueRetention{CompletedMS: time.Hour.Milliseconds(), FinishedMax: 5}) || q.EffectiveRetention != want || q.ETag == before {
		t.Errorf("set: %+v, %+v", q.Retention, q.EffectiveRetention)
	}
	if q.InheritedRetention != namespace {
		t.Errorf("with settings of its own, the queue would inherit %+v", q.InheritedRetention)
	}
	if q = r.set("mail", QueueSettings{Paused: set(false)}); q.EffectiveRetention != want {
		t.Errorf("another setting changed it: %+v", q.EffectiveRetention)
	}
	if q = r.set("mail", QueueSettings{Retention: &retention.Finished{}}); q.Retention != nil || q.EffectiveRetention != namespace {
		t.Errorf("removed: %+v, %+v", q.Retention, q.EffectiveRetention)
	}
	equal(t, "the audit log", r.audited(r.caller)[1:], []string{
		`key_1 queue.update mail 1/0 {"retention_completed":"1h","retention_finished_max":"5","was_retention_completed":"default","was_retention_finished_max":"default"}`,
		`key_1 queue.update mail 1/0 {"paused":"false","was_paused":"true"}`,
		`key_1 queue.update mail 1/0 {"retention_completed":"default","retention_finished_max":"default","was_retention_completed":"1h","was_retention_finished_max":"5"}`,
	})
}

func TestRetention_OutOfBoundsOrOverThePlanIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.planned()
	for _, c := range []struct {
		in   retention.Finished
		want []string
	}{
		{retention.Finished{Completed: time.Minute - 1, Dead: -1, Cancelled: retention.AgeMax + 1, Max: -1}, []string{"retention.completed_ms", "retention.dead_ms", "retention.cancelled_ms", "retention.finished_max"}},
		{retention.Finished{Max: FinishedMax + 1}, []string{"retention.finished_max"}},
		{retention.Finished{Completed: 11 * aDay, Dead: 90 * aDay, Max: 1001}, []string{"retention.completed_ms", "retention.finished_max"}},
	} {
		_, err := r.SetQueue(r.ctx(), r.caller, "q", QueueSettings{Retention: &c.in})
		equal(t, "refused", paths(err), c.want)
	}
	r.set("q", QueueSettings{Retention: &retention.Finished{Completed: 10 * aDay, Dead: retention.AgeMax, Cancelled: time.Minute, Max: 1000}})
}

func TestRetention_AFinishedJobTellsUntilWhenItIsKept(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{})
	until := func() time.Duration {
		t.Helper()
		j, err := r.Job(r.ctx(), r.caller, id)
		must(t, err)
		if j.RetainedUntil.IsZero() {
			return 0
		}
		return j.RetainedUntil.Sub(j.FinishedAt)
	}
	if got := until(); got != 0 {
		t.Errorf("a pending job is kept for %v", got)
	}
	_, err := r.Cancel(r.ctx(), r.caller, id)
	must(t, err)
	if got := until(); got != 30*aDay {
		t.Errorf("kept for %v", got)
	}
	r.set("q", QueueSettings{Retention: &retention.Finished{Cancelled: time.Hour}})
	if got := until(); got != time.Hour {
		t.Errorf("kept for %v", got)
	}
}
