package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Subscribe listens to what happens from now on, or from after an event.
func (t *T) Subscribe(s Subscription) Events {
	e, err := t.Client.Subscribe(t.Context, s)
	t.must("subscribe", err)
	return e
}

// Next waits for the next event.
func (t *T) Next(from Events) Event {
	e, err := from.Next()
	if e.Type == "end" {
		t.cut.Store(true)
	}
	t.must("next event", err)
	return e
}

// Told wants the next events to have these types, in this order, and returns them.
func (t *T) Told(from Events, types ...string) []Event {
	var got []Event
	for i, want := range types {
		e := t.Next(from)
		if got = append(got, e); e.Type != want {
			t.Fatalf("event %d is %+v, want %s", i, e, strings.Join(types[i:], ", "))
		}
	}
	return got
}

// life runs a job through a failed attempt to its end.
func (t *T) life(q string) (id string) {
	l := t.Leased(Job{Queue: q, Backoff: "none"})
	t.Failed(l, "retrying")
	t.Ack(t.Fetch(q))
	return l.ID
}

// lifeTold are its events. A retry without back-off is pending in the same moment.
var lifeTold = []string{
	"enqueued", "started", "failed", "retrying", "promoted", "started", "completed",
}

// lastSeq is the number of the event that is the newest now, of what the rule does.
func (t *T) lastSeq() uint64 {
	q := t.Queue()
	from := t.Subscribe(Subscription{Queues: []string{q}})
	t.Enqueue(Job{Queue: q})
	return t.Next(from).Seq
}

// recentView is a page of events.
type recentView struct {
	Events []Event `json:"events"`
	Lost   bool    `json:"lost"`
}

var eventRules = []Rule{
	{Name: "what happens to a job is told as it happens, in order, with the state before and after", Needs: "events", Run: func(t *T, q string) {
		from := t.Subscribe(Subscription{Queues: []string{q}})
		id := t.life(q)
		states := map[string][2]string{
			"enqueued": {"", "pending"}, "started": {"pending", "active"}, "failed": {"active", "retrying"},
			"promoted": {"retrying", "pending"}, "completed": {"active", "completed"},
		}
		var at int64
		var seq uint64
		for _, e := range t.Told(from, lifeTold...) {
			want, ok := states[e.Type]
			t.FailIf(ok && (want != [2]string{e.From, e.State}), "%+v, want %v", e, want)
			t.FailIf(e.Job != id || e.Queue != q || e.Seq <= seq || e.AtNS < at, "%+v, after number %d at %d", e, seq, at)
			seq, at = e.Seq, e.AtNS
		}
	}},
	{Name: "whatever is done to a job or a queue is told under its own name", Needs: "events", Run: func(t *T, q string) {
		to := t.Queue()
		from := t.Subscribe(Subscription{Queues: []string{q, to}})
		for _, step := range []struct {
			told string
			do   func()
		}{
			{"queue.updated", func() { t.SetQueue(q, object{"max_concurrency": 9}) }},
			{"queue.paused", func() { t.DoQueue(q, "pause", "paused") }},
			{"queue.resumed", func() { t.DoQueue(q, "resume", "resumed") }},
			{"scheduled", func() { t.inState(q, "scheduled") }},
			{"enqueued held", func() { t.inState(q, "held") }},
			{"enqueued held approved", func() {
				id, _ := t.inState(q, "held")
				t.Do(id, "approve", "pending")
			}},
			{"started progress released", func() {
				l := t.Fetch(q)
				t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token, Progress: "1"}}})
				t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true})
			}},
			{"started cancel_requested cancelled retried moved", func() {
				l := t.Fetch(q)
				t.Do(l.ID, "cancel", "cancelling")
				t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "stopped"})
				t.Do(l.ID, "retry", "retried")
				t.Move(l.ID, to)
			}},
			{"started failed dead deleted", func() {
				l := t.Fetch(to)
				t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "no use", Terminal: true})
				t.Delete(l.ID)
			}},
			{"enqueued held rejected dead", func() {
				id, _ := t.inState(to, "held")
				t.Do(id, "reject", "dead")
			}},
			{"enqueued enqueued started completed unblocked", func() {
				first := t.Enqueue(Job{Queue: to})
				t.Enqueue(Job{Queue: to, DependsOn: []string{first.ID}})
				t.Ack(t.Fetch(to))
			}},
			{"started lease_expired", func() {
				t.FetchAs(Fetch{Queues: []string{to}, Worker: "w1", Lease: time.Second, Wait: soon})
			}},
			{"started completed", func() { t.Ack(t.Fetch(to)) }},
			{"enqueued expired dead", func() { t.Enqueue(Job{Queue: to, ExpireAfter: new(time.Millisecond)}) }},
			{"queue.draining", func() { t.Call(http.MethodPost, queuePath(q, "/drain"), nil, nil) }},
			{"queue.cleared deleted deleted", func() { t.Clear(q, 2) }},
			{"queue.deleted", func() { t.Call(http.MethodDelete, queuePath(q, "?confirm=true"), nil, nil) }},
		} {
			step.do()
			t.Told(from, strings.Fields(step.told)...)
		}
	}},
	{Name: "who follows the states of the events knows the counts of a queue", Needs: "events", Run: func(t *T, q string) {
		counts := map[string]int{}
		from := t.Subscribe(Subscription{Queues: []string{q}})
		for _, state := range []string{"retrying", "completed", "dead", "cancelled", "cancelling", "active", "scheduled", "pending", "held"} {
			t.inState(q, state)
		}
		t.Enqueue(Job{Queue: q, ExpireAfter: new(time.Millisecond)})
		t.Eventually("a second dead job", func() bool { return t.QueueNow(q).Dead == 2 })
		t.DoQueue(q, "pause", "paused") // The last event.
		for e := t.Next(from); e.Type != "queue.paused"; e = t.Next(from) {
			if isNew := e.Type == "enqueued" || e.Type == "scheduled"; isNew || e.From != "" {
				counts[e.State]++
			}
			if e.From != "" {
				counts[e.From]--
			}
		}
		v := t.QueueNow(q)
		for state, n := range map[string]int{
			"pending": v.Pending, "scheduled": v.Scheduled, "active": v.Active, "cancelling": v.Cancelling, "retrying": v.Retrying,
			"held": v.Held, "completed": v.Completed, "dead": v.Dead, "cancelled": v.Cancelled,
		} {
			Equal(t, state+" jobs by the events", counts[state], n)
		}
	}},
	{Name: "only what is asked for is told: by queue, job and type", Needs: "events", Run: func(t *T, q string) {
		other := t.Queue()
		mine, not := t.Enqueue(Job{Queue: q}).ID, t.Enqueue(Job{Queue: q}).ID
		last := t.Queue() // Something that every filter lets through ends the rule.
		end := t.Enqueue(Job{Queue: last}).ID
		byQueue := t.Subscribe(Subscription{Queues: []string{q, last}})
		byJob := t.Subscribe(Subscription{Jobs: []string{mine, end}})
		byType := t.Subscribe(Subscription{Queues: []string{q, other, last}, Types: []string{"completed"}})
		byAll := t.Subscribe(Subscription{Queues: []string{q, last}, Jobs: []string{mine, end}, Types: []string{"started", "completed"}})
		t.Enqueue(Job{Queue: other})
		for _, queue := range []string{other, q, q, last} {
			t.Ack(t.Fetch(queue))
		}
		one := []string{"started", "completed"}
		for i, e := range t.Told(byQueue, slices.Concat(one, one, one)...) {
			Equal(t, "job by queue", e.Job, []string{mine, not, end}[i/2])
		}
		for i, e := range t.Told(byJob, slices.Concat(one, one)...) {
			Equal(t, "job by job", e.Job, []string{mine, end}[i/2])
		}
		for i, e := range t.Told(byType, slices.Repeat([]string{"completed"}, 4)...) {
			Equal(t, "queue by type", e.Queue, []string{other, q, q, last}[i])
		}
		for i, e := range t.Told(byAll, slices.Concat(one, one)...) {
			Equal(t, "job by all", e.Job, []string{mine, end}[i/2])
		}
	}},
	{Name: "who comes again with the number of the last event misses none and hears none twice", Needs: "events", Run: func(t *T, q string) {
		sub := Subscription{Queues: []string{q}, After: t.lastSeq()}
		t.life(q)
		from := t.Subscribe(sub)
		var all []Event
		for range 3 {
			all = append(all, t.Next(from))
		}
		t.life(q) // While it is away.
		sub.After = all[2].Seq
		again := t.Subscribe(sub)
		for range 2*len(lifeTold) - 3 {
			all = append(all, t.Next(again))
		}
		for i, e := range all {
			Equal(t, "type", e.Type, lifeTold[i%len(lifeTold)])
			if i > 0 && e.Seq <= all[i-1].Seq {
				t.Fatalf("event %d is told after %d", e.Seq, all[i-1].Seq)
			}
		}
	}},
	{Name: "the events of a namespace are numbered without gaps", Needs: "events", Run: func(t *T, q string) {
		seq := t.lastSeq()
		t.EnqueueBatch(nil, slices.Repeat([]Job{{Queue: q}}, 20)...)
		from := t.Subscribe(Subscription{After: seq}) // All that happens, also to others.
		t.life(q)
		var at int64
		for mine := 0; mine < 20+len(lifeTold); seq++ {
			e := t.Next(from)
			t.FailIf(e.Seq != seq+1 || e.AtNS < at, "event %d at %d follows on %d at %d", e.Seq, e.AtNS, seq, at)
			if at = e.AtNS; e.Queue == q {
				mine++
			}
		}
	}},
	{Name: "what is no longer kept, or never was, is a gap, and what happens next is told", Needs: "events", Run: func(t *T, q string) {
		seq := t.lastSeq()
		from := t.Subscribe(Subscription{Queues: []string{q}, After: seq + 1<<40})
		gap := t.Told(from, "gap")[0]
		t.FailIf(gap.Seq < seq || gap.Seq >= seq+1<<40, "the gap goes on behind %d; the newest event was %d", gap.Seq, seq)
		e := t.Enqueue(Job{Queue: q})
		told := t.Told(from, "enqueued")[0]
		Equal(t, "job", told.Job, e.ID)
		t.FailIf(told.Seq <= gap.Seq, "event %d follows on a gap up to %d", told.Seq, gap.Seq)
	}},
	{Name: "a filter that is wrong is refused by name", Needs: "events", Run: func(t *T, _ string) {
		for _, w := range []struct {
			sub    Subscription
			fields []string
		}{
			{Subscription{Queues: []string{"a b"}}, []string{"queues"}},
			{Subscription{Jobs: []string{"nonsense"}}, []string{"job_ids"}},
			{Subscription{Types: []string{"vanished"}}, []string{"types"}},
			{Subscription{Queues: slices.Repeat([]string{"q"}, 101)}, []string{"queues"}},
			{Subscription{Queues: []string{"a b"}, Types: []string{"x"}, Jobs: []string{"y"}}, []string{"queues", "types", "job_ids"}},
		} {
			from, err := t.Client.Subscribe(t.Context, w.sub)
			if err == nil {
				_, err = from.Next()
			}
			t.Refused(err, invalid, w.fields...)
		}
	}},
	{Name: "the number may be a parameter, also 0, and the header wins", Needs: "events", Once: true, Run: func(t *T, q string) {
		seq := t.lastSeq()
		t.Enqueue(Job{Queue: q})
		told := t.Next(t.Subscribe(Subscription{Queues: []string{q}, After: seq}))
		read := func(after uint64, header http.Header) Event {
			from, err := t.admin.stream(t.Context, fmt.Sprintf("/api/v1/events?queues=%s&last_event_id=%d", q, after), header)
			t.must("subscribe", err)
			return t.Next(from)
		}
		Equal(t, "event behind the parameter", read(seq, http.Header{}), told)
		Equal(t, "event behind the header", read(told.Seq, http.Header{"Last-Event-Id": {fmt.Sprint(seq)}}), told)
		if first := read(0, http.Header{}); first != told && first.Type != "gap" { // A busy namespace has forgotten its first events.
			t.Fatalf("event behind 0 is %+v, want %+v", first, told)
		}
		for _, wrong := range []string{"last_event_id=x", "last_event_id=-1", "queue=q"} {
			from, err := t.admin.stream(t.Context, "/api/v1/events?"+wrong, http.Header{})
			t.must("subscribe", err)
			_, err = from.Next()
			t.Refused(err, invalid, strings.Split(wrong, "=")[0])
		}
	}},
	{Name: "pages of events are the same events", Needs: "events", Once: true, Run: func(t *T, q string) {
		seq := t.lastSeq()
		t.life(q)
		var paged []Event
		for after := seq; len(paged) < len(lifeTold); {
			page := Get[recentView](t, fmt.Sprintf("/api/v1/cluster/events?after_seq=%d&limit=3", after))
			for _, e := range page.Events {
				Equal(t, "number", e.Seq, after+1)
				if after = e.Seq; e.Queue == q {
					paged = append(paged, e)
				}
			}
		}
		told := t.Told(t.Subscribe(Subscription{Queues: []string{q}, After: seq}), lifeTold...)
		t.FailIf(!slices.Equal(paged, told), "pages %+v, stream %+v", paged, told)
		t.Refused(t.Try(http.MethodGet, "/api/v1/cluster/events?after_seq=x&limit=0&after=1", nil, nil), invalid, "after", "after_seq", "limit")
	}},
}
