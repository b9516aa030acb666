package queue

import (
	"errors"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// How long finished jobs are kept, as far as it is said, checked and shown here. The shard
// deletes them.

// retained is an age of retention.Finished: its member on the wire without the unit.
type retained struct {
	member string
	of     func(*retention.Finished) *time.Duration
}

var allRetained = [...]retained{
	{"completed", func(f *retention.Finished) *time.Duration { return &f.Completed }},
	{"dead", func(f *retention.Finished) *time.Duration { return &f.Dead }},
	{"cancelled", func(f *retention.Finished) *time.Duration { return &f.Cancelled }},
}

// retention checks what holds whatever the plan.
func (c *checker) retention(f retention.Finished) {
	for _, r := range allRetained {
		if d := *r.of(&f); d != 0 && (d < retention.AgeMin || d > retention.AgeMax) {
			c.failf("retention."+r.member+"_ms", "is %d, must be between %d (a minute) and %d (ten years)", d.Milliseconds(), retention.AgeMin.Milliseconds(), retention.AgeMax.Milliseconds())
		}
	}
	if f.Max < 0 || f.Max > FinishedMax {
		c.failf("retention.finished_max", "is %d, must be between 0 (as the namespace says) and %d", f.Max, FinishedMax)
	}
}

// planKeeps refuses more than the plan keeps, which would be cut without a word.
func planKeeps(namespace retention.Policy, own retention.Finished) error {
	var bad checker
	most := namespace.Queue(own)
	for _, r := range allRetained {
		if d, most := *r.of(&own), *r.of(&most); d > most {
			bad.failf("retention."+r.member+"_ms", "is %d (%s), must be at most %d (%s): this tenant's plan keeps no more", d.Milliseconds(), shortly(d), most.Milliseconds(), shortly(most))
		}
	}
	if own.Max > most.Max {
		bad.failf("retention.finished_max", "is %d, must be at most %d: this tenant's plan keeps no more", own.Max, most.Max)
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.InvalidFields(bad)
}

// describeRetention says each of retentionFields, in the words of the API.
func describeRetention(f retention.Finished) (out [len(allRetained) + 1]string) {
	for i, r := range allRetained {
		out[i] = "default"
		if d := *r.of(&f); d != 0 {
			out[i] = shortly(d)
		}
	}
	out[len(allRetained)] = "default"
	if f.Max != 0 {
		out[len(allRetained)] = strconv.FormatInt(f.Max, 10)
	}
	return out
}

var retentionFields = [len(allRetained) + 1]string{"retention_completed", "retention_dead", "retention_cancelled", "retention_finished_max"}

func viewRetention(f retention.Finished) wire.QueueRetention {
	return wire.QueueRetention{CompletedMS: f.Completed.Milliseconds(), DeadMS: f.Dead.Milliseconds(), CancelledMS: f.Cancelled.Milliseconds(), FinishedMax: f.Max}
}

// viewOwnRetention is nil if nothing is set.
func viewOwnRetention(f retention.Finished) *wire.QueueRetention {
	if f == (retention.Finished{}) {
		return nil
	}
	v := viewRetention(f)
	return &v
}

// keeping tells until when finished jobs of a namespace are kept. It reads each queue once.
type keeping struct {
	g      *statedb.Group
	caller *Caller
	policy retention.Policy
	queues map[string]retention.Finished
}

func (s *Service) keeping(g *statedb.Group, c *Caller) *keeping {
	return &keeping{g: g, caller: c, policy: s.keeps(c.Namespace), queues: make(map[string]retention.Finished)}
}

// until is zero for a job that has not ended.
func (k *keeping) until(j *stateread.Job) (time.Time, error) {
	if !j.Head.State.Terminal() {
		return time.Time{}, nil
	}
	f, known := k.queues[j.Head.Queue]
	if !known {
		q, err := stateread.ReadQueue(k.g, k.caller.Namespace, j.Head.Queue)
		if err != nil && !errors.Is(err, statedb.ErrNotFound) {
			return time.Time{}, err
		}
		f = k.policy.Queue(retention.Finished(q.Retention))
		k.queues[j.Head.Queue] = f
	}
	age := f.Completed
	switch j.Head.State {
	case job.Dead:
		age = f.Dead
	case job.Cancelled:
		age = f.Cancelled
	}
	return when(j.Head.Finished + int64(age)), nil
}

// view shows a whole job, or as much of it as the caller may see.
func (k *keeping) view(id job.ID, j *stateread.Job) (wire.Job, error) {
	v := viewJob(id, j)
	if k.caller.hides(v.Queue) {
		redactJob(&v)
	}
	var err error
	v.RetainedUntil, err = k.until(j)
	return v, err
}
