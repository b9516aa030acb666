package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
)

// views gives the rig its views; the read model runs until the test ends.
func (r *rig) views() *Views {
	r.t.Helper()
	v, _ := r.viewsUntil()
	return v
}

// viewsUntil is views whose read model may be stopped: it is late from then on.
func (r *rig) viewsUntil() (v *Views, stop func()) {
	r.t.Helper()
	models, err := readmodel.OpenDir(r.t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	model := readmodel.NewProjector(models, r.shard.Store(), r.hub, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); model.Run(ctx) }()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(func() {
		stop()
		if err := models.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return NewViews(r.Service, model, r.hub), stop
}

// next reads events until there are n.
func next(t *testing.T, e *EventReader, n int) []wire.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []wire.Event
	for len(all) < n {
		some, err := e.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(all), n, err)
		}
		all = append(all, some...)
	}
	return all
}

func (r *rig) reader(v *Views, in EventFilter) *EventReader {
	r.t.Helper()
	e, err := v.Events(r.caller, in)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(e.Close)
	return e
}

func words(events []wire.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.Type))
	}
	return out
}

func after(n uint64) *uint64 { return &n }

func TestEvents_AreNumberedPerNamespaceWhateverTheNeighboursDo(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	e := r.reader(v, EventFilter{})
	other := r.caller
	other.Namespace = job.Namespace{6}
	for range 5 {
		if _, err := r.Enqueue(r.ctx(), other, EnqueueInput{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		r.enqueue(EnqueueInput{})
	}
	for i, got := range next(t, e, 5) {
		if got.Seq != uint64(i+1) || got.Type != "enqueued" || got.Data.State != "pending" {
			t.Fatalf("event %d is %+v", i, got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if more, err := e.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an event of the neighbour: %+v, %v", more, err)
	}
}

func TestEvents_TellTheWholeLifeOfAJob(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	one, short := 2, time.Millisecond
	id := r.enqueue(EnqueueInput{MaxRetries: &one, RetryBaseDelay: &short, RetryMaxDelay: &short})
	for i := range 2 {
		g := r.fetch(FetchInput{Wait: patience, WorkerID: fmt.Sprint("w", i+1)})
		if _, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: idOf(g[0].JobID), Token: g[0].LeaseToken, Error: "boom"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.PauseQueue(r.ctx(), r.caller, "q"); err != nil {
		t.Fatal(err)
	}
	got := next(t, r.reader(v, EventFilter{After: after(0)}), 9)
	want := []string{
		"enqueued", "started", "failed", "retrying", "promoted", "started", "failed", "dead", "queue.paused",
	}
	if !slices.Equal(words(got), want) {
		t.Fatalf("events %v, want %v", words(got), want)
	}
	// Counting by what the events tell gives the counts.
	counts := map[wire.State]int{}
	for _, e := range got {
		if e.Data == nil {
			continue // Of the queue.
		}
		if made := e.Type == "enqueued"; e.Data.From != "" || made {
			counts[e.Data.State]++
			if !made {
				counts[e.Data.From]--
			}
		}
	}
	for state, n := range counts {
		if want := map[wire.State]int{"dead": 1}[state]; n != want {
			t.Errorf("%d jobs are %s by the events, want %d", n, state, want)
		}
	}
	line, err := v.Timeline(r.ctx(), r.caller, id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i, l := range line.Events {
		lines = append(lines, string(l.Type)+map[bool]string{true: " " + l.WorkerID}[l.WorkerID != ""])
		if l.Seq != i+1 || l.At.IsZero() || l.Type == "failed" && l.Error != "boom" || l.Type == "dead" && l.Data.Reason != "max_retries" {
			t.Errorf("line %+v", l)
		}
	}
	if got := strings.Join(lines, " "); got != "enqueued started w1 failed w1 promoted started w2 failed w2 dead" {
		t.Errorf("timeline %s", got)
	}
	if _, err := v.Timeline(r.ctx(), r.caller, job.ID{1}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("timeline of no job: %v", err)
	}
}

func TestEvents_FiltersLeaveNumbersAsTheyAre(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	a := r.enqueue(EnqueueInput{Queue: "a"})
	r.enqueue(EnqueueInput{Queue: "b"})
	r.fetch(FetchInput{Queues: []string{"a"}})
	for name, c := range map[string]struct {
		in   EventFilter
		want []uint64
	}{
		"queue":     {EventFilter{Queues: []string{"a"}}, []uint64{1, 3}},
		"job":       {EventFilter{JobIDs: []string{a.String()}}, []uint64{1, 3}},
		"type":      {EventFilter{Types: []string{"started"}}, []uint64{3}},
		"two types": {EventFilter{Types: []string{"enqueued", "started"}}, []uint64{1, 2, 3}},
		"all of it": {EventFilter{Types: []string{"enqueued"}, Queues: []string{"b"}}, []uint64{2}},
	} {
		c.in.After = after(0)
		var got []uint64
		for _, e := range next(t, r.reader(v, c.in), len(c.want)) {
			got = append(got, e.Seq)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for name, in := range map[string]EventFilter{
		"queues":  {Queues: []string{"a/b"}},
		"job_ids": {JobIDs: []string{"job_1"}},
		"types":   {Types: []string{"exploded"}},
	} {
		_, err := v.Events(r.caller, in)
		if f := fault.As(err); f == nil || f.Code != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Path != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.Events(r.caller, EventFilter{Queues: make([]string, EventFilterMax+1)}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("too many queues: %v", err)
	}
}

// A reader whose place is no longer kept, or never was, is told, and goes on.
func TestEvents_LostOnesAreTold(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	for range 3 {
		r.enqueue(EnqueueInput{})
	}
	if _, err := r.shard.Do(r.ctx(), trim(r.caller.Namespace, 3)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{0, 1, 99} {
		e := r.reader(v, EventFilter{After: after(from)})
		if _, err := e.Next(r.ctx()); !errors.Is(err, ErrEventsLost) {
			t.Fatalf("after %d: %v", from, err)
		}
		if err := e.GoOnFromNow(); err != nil {
			t.Fatal(err)
		}
		seq := e.Seq()
		r.enqueue(EnqueueInput{})
		if got := next(t, e, 1); got[0].Seq != seq+1 {
			t.Fatalf("went on with %+v after %d", got[0], seq)
		}
	}
}

func trim(ns job.Namespace, before uint64) shard.Request {
	return shard.Request{Settle: []command.Command{&command.TrimEvents{NS: ns, Before: before}}}
}

// Many readers at different places, while much happens: each reads every number
// once, in order.
func TestEvents_EveryReaderGetsEachOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	const jobs = 400
	done := make(chan error, 4)
	for i := range 4 {
		e := r.reader(v, EventFilter{After: after(0)})
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for seq := uint64(0); seq < jobs; {
				some, err := e.Next(ctx)
				if err != nil {
					done <- err
					return
				}
				for _, got := range some {
					if seq++; got.Seq != seq {
						done <- errors.New("a gap or a duplicate")
						return
					}
				}
				if i == 0 && seq%50 == 0 { // One connects anew again and again.
					e.Close()
					if e, err = v.Events(r.caller, EventFilter{After: after(seq)}); err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range jobs {
		r.enqueue(EnqueueInput{})
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestEvents_EndWithTheLead(t *testing.T) {
	t.Parallel()
	r := open(t, grouptest.InMemory())
	t.Cleanup(func() {
		if err := r.stores.Close(); err != nil {
			t.Error(err)
		}
	})
	v := r.views()
	e := r.reader(v, EventFilter{})
	ended := make(chan error, 1)
	go func() {
		_, err := e.Next(context.Background())
		ended <- err
	}()
	if err := r.shard.Group().Shutdown(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if fault.CodeOf(err) != fault.NotLeader {
			t.Errorf("told %v", err)
		}
	case <-time.After(patience):
		t.Error("the reader waits for ever")
	}
	if _, err := v.list(r.ctx(), r.caller, permission.JobList, JobFilter{}); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("list: %v", err)
	}
}

func TestListJobs_NamesEveryWrongField(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	bad := -1
	_, err := v.list(r.ctx(), r.caller, permission.JobList, JobFilter{
		Queue: "a/b", States: []string{"pending", "sleeping"}, Tags: []JobTag{{"", "x"}}, Priority: "urgent", Sort: "attempt",
		Order: "up", Limit: 1001, AttemptMin: &bad,
	})
	f := fault.As(err)
	if f == nil || f.Code != fault.Invalid {
		t.Fatalf("refusal: %v", err)
	}
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Path)
	}
	slices.Sort(got)
	if want := "attempt_min limit order priority queue sort state tags"; strings.Join(got, " ") != want {
		t.Fatalf("fields %v, want %s", got, want)
	}
	for _, cursor := range []string{"x", "AcykjI6uFJa6GOoK_RL0jp4Bof3NxYHipTNs7B2z0Eb4"} { // The second is that of a list of everything.
		_, err := v.list(r.ctx(), r.caller, permission.JobList, JobFilter{Cursor: cursor, Queue: "mail"})
		if f := fault.As(err); f == nil || f.Code != fault.Invalid || f.Fields[0].Path != "cursor" {
			t.Errorf("cursor %s: %v", cursor, err)
		}
	}
}

func TestEventTypes_AreEveryTypeOfTheFeed(t *testing.T) {
	t.Parallel()
	if got, want := len(EventTypes()), len(feed.Types()); got != want {
		t.Fatalf("%d words for %d types", got, want)
	}
	for _, w := range EventTypes() {
		if e, ok := typeOf(w); !ok || eventType(e) != w {
			t.Errorf("%s is %v", w, e)
		}
	}
}
