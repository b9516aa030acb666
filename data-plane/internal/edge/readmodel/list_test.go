package readmodel

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// fits is Filter as one would explain it.
func (f *Filter) fits(r Row) bool {
	in := func(s Span, at int64) bool {
		return (s.After == 0 || at > s.After) && (s.Before == 0 || at != 0 && at < s.Before)
	}
	for _, t := range f.Tags {
		if !slices.Contains(r.Tags, t) {
			return false
		}
	}
	completed := f.Completed == (Span{}) || r.State == job.Completed && in(f.Completed, r.FinishedAt)
	return (f.Queue == "" || r.Queue == f.Queue) && (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		in(f.Created, r.CreatedAt) && in(f.Scheduled, r.ScheduledAt) && in(f.Started, r.StartedAt) && completed &&
		(f.Priority == nil || *f.Priority == r.Priority) && (f.AttemptMin == nil || r.Attempt >= *f.AttemptMin) &&
		(f.AttemptMax == nil || r.Attempt <= *f.AttemptMax) && (f.Worker == "" || r.Worker == f.Worker) &&
		(f.HasErrors == nil || *f.HasErrors == (r.FailedAt != 0)) && (f.Cause == 0 || r.State == job.Dead && f.Cause == r.cause())
}

// expected is what a list has to show.
func (r *rig) expected(ns job.Namespace, f *Filter) []job.ID {
	var rows []Row
	for _, row := range r.truth(ns) {
		if f.fits(row) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		c := cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
		if !f.Ascending {
			return -c
		}
		return c
	})
	out := []job.ID{}
	for _, row := range rows {
		out = append(out, row.ID)
	}
	return out
}

func drawFilter(t *rapid.T, from, to int64) Filter {
	maybe := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	var f Filter
	if maybe("by queue") {
		f.Queue = rapid.SampledFrom([]string{"mail", "print", "nobody's"}).Draw(t, "queue")
	}
	for range rapid.IntRange(0, 3).Draw(t, "states") {
		if s := rapid.SampledFrom(job.States()).Draw(t, "state"); !slices.Contains(f.States, s) {
			f.States = append(f.States, s)
		}
	}
	slices.Sort(f.States)
	for range rapid.IntRange(0, 2).Draw(t, "tags") {
		f.Tags = append(f.Tags, command.Tag{Key: "team", Value: rapid.SampledFrom([]string{"red", "blue", "' OR 1=1 --"}).Draw(t, "tag")})
	}
	span := func(name string) (s Span) {
		if maybe(name + " after") {
			s.After = rapid.Int64Range(from, to).Draw(t, name+" after at")
		}
		if maybe(name + " before") {
			s.Before = rapid.Int64Range(from, to).Draw(t, name+" before at")
		}
		return s
	}
	f.Created, f.Scheduled, f.Started, f.Completed = span("created"), span("scheduled"), span("started"), span("completed")
	if maybe("by attempt") {
		n := uint32(rapid.IntRange(0, 2).Draw(t, "attempt"))
		f.AttemptMin = &n
	}
	if maybe("by errors") {
		b := rapid.Bool().Draw(t, "errors")
		f.HasErrors = &b
	}
	if maybe("by worker") {
		f.Worker = rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	}
	if maybe("by priority") {
		p := rapid.SampledFrom([]job.Priority{job.High, job.Normal}).Draw(t, "priority")
		f.Priority = &p
	}
	if maybe("by cause") {
		f.Cause = rapid.SampledFrom([]Cause{causeOf("mail", "no stamps", records.DeadRetries), causeOf("print", "no ink", records.DeadRetries)}).Draw(t, "cause")
	}
	f.Ascending = rapid.Bool().Draw(t, "ascending")
	f.Limit = rapid.IntRange(1, 40).Draw(t, "limit")
	return f
}

// Every filter, page by page, gives the jobs that fit, once each and in order. Some
// tags are made common, so that both ways to a tag are walked.
func TestList_EveryFilterFindsWhatFits(t *testing.T) {
	t.Parallel()
	for _, common := range []bool{false, true} {
		t.Run(fmt.Sprint(common), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.run()
			n := 12
			if common {
				n = 500
			}
			for range n {
				r.some(nsA)
				r.enqueue(nsA, "print", command.Tag{Key: "team", Value: "blue"})
				c := r.newJob(nsA, "mail", command.Tag{Key: "team", Value: "red"})
				c.Priority = job.High
				r.apply(c)
				r.finish(nsA, c.ID)
				r.die(nsA, "mail", "no stamps", command.Tag{Key: "team", Value: "red"})
				r.die(nsA, "print", "no ink", command.Tag{Key: "team", Value: "blue"})
			}
			r.settled(nsA)
			rapid.Check(t, func(rt *rapid.T) {
				f := drawFilter(rt, epoch, r.now)
				want := r.expected(nsA, &f)
				f.Limit = max(f.Limit, len(want)/10+1)
				var got []job.ID
				for _, row := range r.all(nsA, f) {
					got = append(got, row.ID)
				}
				if !slices.Equal(got, want) && len(got)+len(want) > 0 {
					rt.Fatalf("filter %+v: %d jobs %v, want %d %v", f, len(got), got, len(want), want)
				}
			})
		})
	}
}

// However little time a query has, whoever turns the pages sees everything once, in order,
// and no page looks at more than one step's entries.
func TestList_WithoutTimeAPagerStillArrives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	for range 700 {
		r.finish(nsA, r.enqueue(nsA, "print", command.Tag{Key: "team", Value: "blue"}))
		r.enqueue(nsA, "mail", command.Tag{Key: "team", Value: "red"})
		r.die(nsA, "print", "no ink", command.Tag{Key: "team", Value: "blue"})
	}
	r.settled(nsA)
	r.models.ordinary = 0
	const jobs = 2100
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFilter(rt, epoch, r.now)
		f.Limit = 100
		want := r.expected(nsA, &f)
		var got []job.ID
		pages := 0
		for ; pages == 0 || f.Cursor != ""; pages++ {
			p := r.page(nsA, f)
			for _, row := range p.Rows {
				got = append(got, row.ID)
			}
			f.Cursor = p.Cursor
		}
		if most := len(want)/f.Limit + jobs/stepMin + 2; !slices.Equal(got, want) && len(got)+len(want) > 0 || pages > most {
			rt.Fatalf("filter %+v: %d jobs on %d pages, want %d on %d", f, len(got), pages, len(want), most)
		}
	})
	// A count ends too, with what it has seen.
	none := uint32(40)
	p := r.page(nsA, Filter{AttemptMin: &none, CountTo: 1_000_000})
	if len(p.Rows) != 0 || p.Cursor == "" || p.Total.Exact {
		t.Errorf("nothing found: %d rows, cursor %q, total %+v", len(p.Rows), p.Cursor, p.Total)
	}
	r.models.operator = time.Minute
	f := Filter{AttemptMin: &none, Limit: 10, CountTo: 1_000_000}
	if p, err := r.List(r.ctx(), nsA, Reader{Operator: true}, &f); err != nil || p.Cursor != "" || p.Total != (Count{Exact: true}) {
		t.Errorf("an operator has time for the whole walk: cursor %q, total %+v, %v", p.Cursor, p.Total, err)
	}
}

// Each step of a walk is bounded in what it reads: both of its ends are looked up in the
// index.
func TestStep_BothItsEndsAreLookedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(nsA, "mail")
	file, err := r.models.take(t.Context(), nsA)
	if err != nil {
		t.Fatal(err)
	}
	defer r.models.giveBack(file)
	at, one := &Position{CreatedAt: 5}, uint32(1)
	for _, asc := range []bool{false, true} {
		for name, f := range map[string]Filter{
			"state": {States: []job.State{job.Pending}}, "queue": {Queue: "mail"}, "all": {}, "cause": {Cause: 7}, "tag": {Tags: []command.Tag{{Key: "a", Value: "b"}}},
			"time": {Created: Span{After: 1, Before: 10}},
		} {
			f.AttemptMin, f.Ascending = &one, asc
			s := &statement{}
			s.add(`EXPLAIN QUERY PLAN `)
			if byTag := len(f.Tags) - 1; f.hasLead(byTag) {
				f.byLead(s, byTag, at, at, 50)
			} else {
				f.byState(s, at, at, 50)
			}
			var plan []string
			err := s.each(t.Context(), file.read, "explain", func(rows *sql.Rows) (bool, error) {
				var a, b, c int
				var text string
				err := rows.Scan(&a, &b, &c, &text)
				plan = append(plan, text)
				return true, err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range plan {
				if strings.Contains(line, "SEARCH l ") || strings.Contains(line, "SEARCH j USING INDEX") {
					if !strings.Contains(line, ">") || !strings.Contains(line, "<") {
						t.Errorf("%s, ascending %v: %s", name, asc, line)
					}
				}
			}
			if asc {
				t.Logf("%s: %v", name, plan[:min(4, len(plan))])
			}
		}
	}
}

// A total that claims to be exact is; another one is at most the real one, and
// costs no more than its bound.
func TestTotal_IsExactOrSaysThatThereMayBeMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	for range 60 {
		r.some(nsA)
		r.enqueue(nsA, "print", command.Tag{Key: "team", Value: "blue"})
		r.finish(nsA, r.enqueue(nsA, "mail", command.Tag{Key: "team", Value: "red"}))
		r.die(nsA, "mail", "no stamps", command.Tag{Key: "team", Value: "red"})
	}
	r.settled(nsA)
	all := len(r.expected(nsA, &Filter{}))
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFilter(rt, epoch, r.now)
		f.Limit = min(f.Limit, 10)
		f.CountTo = rapid.IntRange(1, all+10).Draw(rt, "count to")
		want := len(r.expected(nsA, &f))
		p := r.page(nsA, f)
		switch got := p.Total; {
		case got.Exact && got.Jobs != want, got.Jobs > want, got.Jobs < len(p.Rows):
			rt.Fatalf("filter %+v: %+v, want %d", f, got, want)
		case !got.Exact && f.CountTo >= all:
			rt.Fatalf("filter %+v: %+v is not exact, though everything may be looked at", f, got)
		}
		if f.Cursor = p.Cursor; f.Cursor != "" {
			if again := r.page(nsA, f).Total; p.Total.Exact && again != p.Total {
				rt.Fatalf("filter %+v: %+v on the first page, %+v on the second", f, p.Total, again)
			}
		}
	})
	if got := r.page(nsA, Filter{Limit: 1}).Total; got != (Count{}) {
		t.Fatalf("counted without being asked: %+v", got)
	}
	if got := r.page(nsA, Filter{Limit: 1, CountTo: 20}).Total; got != (Count{Jobs: 20}) {
		t.Fatalf("%+v, want 20 and more", got)
	}
}

// Jobs that are there from the first page to the last are listed exactly once, in
// both directions, whatever happens to them and to others meanwhile.
func TestPaging_UnderConcurrentWritesHasNoGapAndNoDuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	steady := map[job.ID]string{} // To its queue.
	var doomed []job.ID
	for i := range 300 {
		name := fmt.Sprintf("queue-%d", i%3)
		id := r.enqueue(nsA, name)
		if i%5 == 0 {
			doomed = append(doomed, id)
		} else {
			steady[id] = name
		}
	}
	r.settled(nsA)
	// write changes jobs of the queue while a page is read.
	write := func() (done chan struct{}) {
		done = make(chan struct{})
		go func() {
			defer close(done)
			r.finish(nsA, r.enqueue(nsA, "queue-0"))
			r.enqueue(nsA, "queue-1")
			if len(doomed) > 0 {
				r.apply(&command.Delete{NS: nsA, ID: doomed[0]})
				doomed = doomed[1:]
			}
		}()
		return done
	}
	for _, f := range []Filter{{Limit: 7}, {Limit: 7, Ascending: true, Created: Span{Before: epoch + int64(301*time.Millisecond)}}, {Limit: 11, Queue: "queue-1"}} {
		seen := map[job.ID]int{}
		for f := f; ; {
			written := write()
			p, err := r.List(r.ctx(), nsA, Reader{}, &f)
			<-written
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range p.Rows {
				seen[row.ID]++
			}
			if f.Cursor = p.Cursor; f.Cursor == "" {
				break
			}
		}
		for id, name := range steady {
			if n := seen[id]; n != 1 && (f.Queue == "" || f.Queue == name) {
				t.Errorf("%+v: job %s is listed %d times", f, id, n)
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%+v: job %s is listed %d times", f, id, n)
			}
		}
	}
}

func TestCursor_OfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	for range 5 {
		r.enqueue(nsA, "mail")
	}
	f := Filter{Queue: "mail", Limit: 2}
	cursor := r.page(nsA, f).Cursor
	if cursor == "" {
		t.Fatal("no cursor after two of five jobs")
	}
	for name, c := range map[string]struct {
		f    Filter
		want error
	}{
		"same, other size": {Filter{Queue: "mail", Limit: 50, Cursor: cursor}, nil},
		"other queue":      {Filter{Queue: "print", Limit: 2, Cursor: cursor}, ErrOtherFilter},
		"other order":      {Filter{Queue: "mail", Limit: 2, Ascending: true, Cursor: cursor}, ErrOtherFilter},
		"more states":      {Filter{Queue: "mail", States: []job.State{job.Dead}, Limit: 2, Cursor: cursor}, ErrOtherFilter},
		"cut":              {Filter{Queue: "mail", Limit: 2, Cursor: cursor[1:]}, ErrCursor},
		"line breaks":      {Filter{Queue: "mail", Limit: 2, Cursor: cursor[:len(cursor)-2] + "\r\n"}, ErrCursor},
		"text":             {Filter{Queue: "mail", Limit: 2, Cursor: "next please"}, ErrCursor},
	} {
		if _, err := r.List(r.ctx(), nsA, Reader{}, &c.f); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzCursor(f *testing.F) {
	filter := Filter{Queue: "mail"}
	f.Add(Position{CreatedAt: epoch, ID: job.ID{1}}.encode(&filter))
	f.Add(Position{}.encode(&Filter{}))
	f.Add("")
	f.Add("AcykjI6uFJa6GOoK_RL0jp4Bof3NxYHipTNs7B2z0Eb4")
	f.Add("ARXURHgsSMnGAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\rA")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodeCursor(text, &filter)
		if err != nil {
			if p != (Position{}) || !errors.Is(err, ErrCursor) && !errors.Is(err, ErrOtherFilter) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		if again := p.encode(&filter); again != text {
			t.Fatalf("%q came back as %q", text, again)
		}
	})
}

// Whoever acts on a list checks the job again, for everything that may have changed.
func TestStillFits_SaysWhatTheListWouldSay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 5 {
		r.some(nsA)
		c := r.newJob(nsA, "mail")
		c.Priority = job.High
		r.apply(c)
		r.finish(nsA, c.ID)
		r.start(nsA, r.enqueue(nsA, "print"))
	}
	rows := r.truth(nsA)
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFilter(rt, epoch, r.now)
		f.Tags, f.Created, f.Cause = nil, Span{}, 0 // They never change, and CauseNow tells the cause.
		for id, row := range rows {
			h, err := stateread.ReadHead(r.store, nsA, id)
			if err != nil {
				rt.Fatal(err)
			}
			now := f
			if row.State != job.Scheduled && row.State != job.Retrying {
				now.Scheduled = Span{} // The filter does not, either.
			}
			if got, want := now.StillFits(&h), now.fits(row); got != want {
				rt.Fatalf("%+v: %v, a list says %v of %+v", now, got, want, row)
			}
		}
	})
}
