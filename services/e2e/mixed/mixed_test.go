package mixed

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
)

func newLoad(word string) *Load { return New("http://tenant", "", word, history.New()) }

// ended is a load of one job in each of some queues, all of which ended well, as their service tells it.
func ended(t *testing.T) (*Load, map[string]*corvo.JobInfo) {
	t.Helper()
	l, jobs := newLoad("acme"), map[string]*corvo.JobInfo{}
	for _, queue := range []string{limited, once, flaky, members, steps, callbacks, doomed, slow} {
		it := l.job(queue)
		payload := json.RawMessage(l.sent[it.serial-1].payload)
		job := &corvo.JobInfo{ID: queue, Queue: queue, Payload: payload, Attempt: 1, State: wire.Completed, Result: l.answer(queue, queue, 1, payload)}
		if queue == doomed {
			job.State, job.Result = wire.Dead, nil
		}
		if queue == callbacks {
			job.Payload = json.RawMessage(strings.Replace(string(payload), "}", `,"batch_id":"b"}`, 1))
		}
		l.ack(time.Now(), []item{it}, []*corvo.Enqueued{{ID: queue}})
		jobs[queue] = job
	}
	jobs[once].UniqueKey = "k"
	jobs[members].BatchID = "b"
	l.ackBatch(&corvo.Batch{ID: "b", Jobs: []*corvo.Enqueued{{ID: members}}})
	return l, jobs
}

func TestLoad_EveryBreachIsFound(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		name, breach string
		change       func(l *Load, jobs map[string]*corvo.JobInfo)
	}{
		{"nothing wrong", "", func(*Load, map[string]*corvo.JobInfo) {}},
		{"gone", "INV-1: members was acknowledged and is not there", func(_ *Load, jobs map[string]*corvo.JobInfo) { delete(jobs, members) }},
		{"in no batch", `INV-10: members was acknowledged in the batch "b" and is in ""`, func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[members].BatchID = "" }},
		{"in another batch", `INV-10: members was acknowledged in the batch "b" and is in "c"`, func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[members].BatchID = "c" }},
		{"in a batch of itself", `INV-10: limited was acknowledged in the batch "" and is in "b"`, func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[limited].BatchID = "b" }},
		{"another's id", "INV-1: limited was told to the enqueue of 1", func(_ *Load, jobs map[string]*corvo.JobInfo) {
			jobs[limited].Payload, jobs[slow].Payload = jobs[slow].Payload, jobs[limited].Payload
		}},
		{"one id for two", "INV-1: limited was told to two enqueues", func(l *Load, _ map[string]*corvo.JobInfo) {
			l.ack(now, []item{l.job(limited)}, []*corvo.Enqueued{{ID: limited}})
		}},
		{"made twice", "made two jobs", func(_ *Load, jobs map[string]*corvo.JobInfo) { again := *jobs[limited]; jobs["again"] = &again }},
		{"made up", "INV-1: x of limited has another payload: nobody sent", func(_ *Load, jobs map[string]*corvo.JobInfo) {
			jobs["x"] = &corvo.JobInfo{Queue: limited, State: wire.Completed, Payload: json.RawMessage(`{"serial":99}`)}
		}},
		{"another payload", "INV-1: limited of limited has another payload", func(_ *Load, jobs map[string]*corvo.JobInfo) {
			jobs[limited].Payload = append(jobs[limited].Payload, ' ')
		}},
		{"a callback without what was sent", "INV-1: callbacks of callbacks has another payload", func(_ *Load, jobs map[string]*corvo.JobInfo) {
			jobs[callbacks].Payload = json.RawMessage(`{"serial":6,"batch_id":"b"}`)
		}},
		{"in another queue", "INV-1: flaky of limited has another payload", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[flaky].Queue = limited }},
		{"dead with attempts left", "INV-2: flaky of flaky ended as dead", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[flaky].State = wire.Dead }},
		{"dead after three workers", "", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[flaky].State, jobs[flaky].Crashes = wire.Dead, 3 }},
		{"completed, and was to fail", "INV-2: doomed of doomed ended as completed", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[doomed].State = wire.Completed }},
		{"left behind", "INV-2: slow of slow ended as held", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[slow].State = wire.Held }},
		{"cancelled by nobody", "INV-2: slow of slow ended as cancelled", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[slow].State = wire.Cancelled }},
		{"cancelled", "", func(l *Load, jobs map[string]*corvo.JobInfo) {
			jobs[slow].State = wire.Cancelled
			l.cancelled[slow] = true
		}},
		{"no result", "INV-3: limited of limited has the result", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[limited].Result = nil }},
		{"the result of another attempt", "INV-3: limited of limited has the result", func(_ *Load, jobs map[string]*corvo.JobInfo) { jobs[limited].Attempt = 2 }},
		{"a duplicate of who held the key", "", func(l *Load, _ map[string]*corvo.JobInfo) {
			l.duplicates = []duplicate{{once, "k", now}}
			l.history.Confirm(once, "lease", now.Add(time.Second))
		}},
		{"a duplicate of who had ended", "INV-5: once was told to hold", func(l *Load, _ map[string]*corvo.JobInfo) {
			l.duplicates = []duplicate{{once, "k", now}}
			l.history.Confirm(once, "lease", now.Add(-time.Second))
		}},
		{"a duplicate of who holds another key", "INV-5: once was told to hold", func(l *Load, _ map[string]*corvo.JobInfo) { l.duplicates = []duplicate{{once, "other", now}} }},
		{"a duplicate of nobody", "INV-5: gone was told to hold", func(l *Load, _ map[string]*corvo.JobInfo) { l.duplicates = []duplicate{{"gone", "k", now}} }},
		{"a worker that was handed something else", "INV-1: a worker was handed limited", func(l *Load, _ map[string]*corvo.JobInfo) {
			l.answer(limited, limited, 1, json.RawMessage(`{"serial":1}`))
		}},
	} {
		l, jobs := ended(t)
		tt.change(l, jobs)
		r := &history.Record{Jobs: jobs}
		found := strings.Join(slices.Concat(l.checkAcked(r), l.checkDuplicates(r), l.checkSerials(r), l.checkEnds(r), l.broken), "\n")
		if tt.breach == "" && found != "" || !strings.Contains(found, tt.breach) {
			t.Errorf("%s: found %q, want %q", tt.name, found, tt.breach)
		}
	}
}

func TestMet_WhatNobodyMetIsMissing(t *testing.T) {
	t.Parallel()
	all := Met{Waited: 1, Late: 1, Duplicates: 1, Full: 1, Slow: 1, Dead: 1, Failures: 1, Cancelled: 1}
	var m Met
	if m.Add(all); m.Missing(true) || m.Missing(false) {
		t.Errorf("%+v lacks nothing", m)
	}
	for _, change := range []func(*Met){
		func(m *Met) { m.Duplicates = 0 }, func(m *Met) { m.Full = 0 }, func(m *Met) { m.Slow = 0 },
		func(m *Met) { m.Dead = 0 }, func(m *Met) { m.Failures = 0 }, func(m *Met) { m.Cancelled = 0 },
	} {
		some := all
		if change(&some); !some.Missing(false) {
			t.Errorf("%+v lacks something", some)
		}
	}
	for _, change := range []func(*Met){func(m *Met) { m.Waited = 0 }, func(m *Met) { m.Late = 0 }} {
		some := all
		if change(&some); some.Missing(false) || !some.Missing(true) {
			t.Errorf("%+v lacks what a heavy load meets", some)
		}
	}
}
