package mixed

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
)

// Met is what a load came to, so that a rule which was never put to the test is noticed.
type Met struct {
	Waited     int // Jobs that came to fetches which waited for them,
	Late       int // and those that were read by who had stopped reading.
	Settled    int // Ends that were confirmed to those of them.
	Duplicates int // Enqueues that were told of the holder of their unique key.
	Full       int // Starts that took the last place in a window of the throttle.
	Slow       int // Jobs that took longer than a lease, and were completed.
	Dead       int // Jobs that failed for good.
	Failures   int // Jobs that a chain made because a step had died.
	Cancelled  int // Jobs that were cancelled while they ran.
}

// Add adds what another load came to.
func (m *Met) Add(o Met) {
	m.Waited, m.Late, m.Duplicates, m.Full = m.Waited+o.Waited, m.Late+o.Late, m.Duplicates+o.Duplicates, m.Full+o.Full
	m.Settled += o.Settled
	m.Slow, m.Dead, m.Failures, m.Cancelled = m.Slow+o.Slow, m.Dead+o.Dead, m.Failures+o.Failures, m.Cancelled+o.Cancelled
}

// Missing reports whether something was never met. Heavy loads meet more.
func (m *Met) Missing(heavy bool) bool {
	all := []int{m.Duplicates, m.Full, m.Slow, m.Dead, m.Failures, m.Cancelled}
	if heavy {
		all = append(all, m.Waited, m.Late)
	}
	return slices.Contains(all, 0)
}

// Met is what the load came to, once it was checked.
func (l *Load) Met() Met {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.met
}

func (l *Load) meet(m Met) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met.Add(m)
}

// Check compares the record with the rules and returns every breach. Until when the clocks of all nodes
// were right is for what counts calendar time: the throttle, and the pause before a retry.
func (l *Load) Check(r *history.Record, clocksRight time.Time) []string {
	breaches := r.Check(map[string]history.Limit{
		limited: {Concurrency: leasesMax}, ranked: {Concurrency: leasesMax},
		throttled: {Starts: startsMax, Window: startsWindow, Until: clocksRight},
		flaky:     {Backoff: retryAfter, Until: clocksRight},
	})
	l.meet(Met{Full: r.Full, Duplicates: len(l.duplicates)})
	return slices.Concat(breaches, l.checkAcked(r), l.checkDuplicates(r), l.checkSerials(r), l.checkEnds(r), l.history.CheckHandOuts(r), l.broken, l.register.Check())
}

// checkAcked: what was acknowledged is there, and in the batch in which it was.
func (l *Load) checkAcked(r *history.Record) (breaches []string) {
	for id, serial := range l.acked {
		job, batch := r.Jobs[id], l.batches[id]
		switch {
		case job == nil:
			breaches = append(breaches, fmt.Sprintf("INV-1: %s was acknowledged and is not there", id))
		case job.BatchID != batch:
			breaches = append(breaches, fmt.Sprintf("INV-10: %s was acknowledged in the batch %q and is in %q", id, batch, job.BatchID))
		case job.Queue != large && serialOf(job.Payload) != serial:
			breaches = append(breaches, fmt.Sprintf("INV-1: %s was told to the enqueue of %d, and is %.100s", id, serial, job.Payload))
		}
	}
	return breaches
}

// checkDuplicates: whom an enqueue was told instead of a job of its own holds the key, and went on when the
// enqueue began.
func (l *Load) checkDuplicates(r *history.Record) (breaches []string) {
	for _, d := range l.duplicates {
		job := r.Jobs[d.holder]
		ended, ok := l.history.Ended(d.holder)
		switch {
		case job == nil || job.Queue != once || job.UniqueKey != d.key:
			breaches = append(breaches, fmt.Sprintf("INV-5: %s was told to hold the unique key %q, and is %+v", d.holder, d.key, job))
		case ok && ended.Before(d.begun):
			breaches = append(breaches, fmt.Sprintf("INV-5: %s was told to hold %q, %s after its end was confirmed", d.holder, d.key, d.begun.Sub(ended)))
		}
	}
	return breaches
}

// checkSerials: each job is one that was sent, with the payload that was, and no other is the same.
func (l *Load) checkSerials(r *history.Record) (breaches []string) {
	jobs := map[int]string{}
	for id, job := range r.Jobs {
		if job.Queue == large || job.Queue == ticks || !slices.Contains(Queues(), job.Queue) {
			continue
		}
		serial, err := l.arrived(job.Queue, job.Payload)
		if err != nil {
			breaches = append(breaches, fmt.Sprintf("INV-1: %s of %s has another payload: %v", id, job.Queue, err))
			continue
		}
		if other := jobs[serial]; other != "" {
			breaches = append(breaches, fmt.Sprintf("INV-1: the enqueue of %d made two jobs, %s and %s", serial, other, id))
		}
		jobs[serial] = id
	}
	return breaches
}

// merged are the queues to whose payloads the service adds something: results of earlier steps, and counts.
var merged = []string{steps, doomed, exits, failures, callbacks}

// arrived is the serial of a payload that is what was sent.
func (l *Load) arrived(queue string, payload json.RawMessage) (int, error) {
	if queue == ticks {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	serial := serialOf(payload)
	if serial < 1 || serial > len(l.sent) {
		return 0, fmt.Errorf("nobody sent %.100q", payload)
	}
	was := l.sent[serial-1]
	if was.queue != queue || was.payload != string(payload) && !(slices.Contains(merged, queue) && within(was.payload, payload)) {
		return 0, fmt.Errorf("%.100q, and %q was sent to %s", payload, was.payload, was.queue)
	}
	return serial, nil
}

// within reports whether all members of one object are in another.
func within(text string, payload json.RawMessage) bool {
	var a, b map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &a) != nil || json.Unmarshal(payload, &b) != nil {
		return false
	}
	for k, v := range a {
		if string(b[k]) != string(v) {
			return false
		}
	}
	return true
}

// serialOf is 0 if there is none.
func serialOf(payload json.RawMessage) int {
	var job struct{ Serial int }
	if json.Unmarshal(payload, &job) != nil {
		return 0
	}
	return job.Serial
}

// checkEnds: each job has the end that its worker told, or was given up because it took too many workers with it.
func (l *Load) checkEnds(r *history.Record) (breaches []string) {
	for id, job := range r.Jobs {
		if !slices.Contains(Queues(), job.Queue) {
			continue
		}
		switch {
		case job.State == wire.Completed && job.Queue != doomed:
			breaches = append(breaches, l.checkResult(id, job)...)
		case job.State == wire.Cancelled && l.cancelled[id]:
			l.meet(Met{Cancelled: 1})
		case job.State == wire.Dead && job.Queue == doomed:
			l.meet(Met{Dead: 1})
		case history.CrashLoop(job):
		default:
			breaches = append(breaches, fmt.Sprintf("INV-2: %s of %s ended as %s (%s), attempt %d, with %d crashes", id, job.Queue, job.State, job.DeadReason, job.Attempt, job.Crashes))
		}
	}
	return breaches
}

// checkResult: the result is that of the job's last attempt.
func (l *Load) checkResult(id string, job *corvo.JobInfo) (breaches []string) {
	want := result{Attempt: job.Attempt, Serial: serialOf(job.Payload)}
	var err error
	switch job.Queue {
	case large:
		if want.Sum, err = l.whole(job.Payload); err != nil {
			return []string{fmt.Sprintf("INV-1: %s has another payload: %v", id, err)}
		}
	case slow:
		l.meet(Met{Slow: 1})
	case failures:
		l.meet(Met{Failures: 1})
	}
	var told result
	if err := json.Unmarshal(job.Result, &told); err != nil || told != want {
		return []string{fmt.Sprintf("INV-3: %s of %s has the result %.100q, want %+v", id, job.Queue, job.Result, want)}
	}
	return nil
}
