package shard

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
)

// overlapping is a pace at which entries follow each other at once.
var overlapping = pace{overlaps: true, callers: 2, back: time.Minute, commit: time.Millisecond}

// followers is a term whose callers take turns.
type followers struct {
	*stepper
	during func() // Called once, while an entry is applied.
}

func newFollowers(t *testing.T) *followers {
	f := &followers{}
	f.stepper = stepOver(t, Options{}, grouptest.Setup{Ring: func(job.Namespace) {
		if during := f.during; during != nil {
			f.during = nil
			during()
		}
	}})
	f.enqueue() // The first entry of a term is followed by none: nobody knows the pace.
	f.pace = overlapping
	return f
}

// full is a request that fills an entry.
func (f *followers) full() *request {
	c := f.newJob()
	c.Payload = []byte(`"` + strings.Repeat("x", entryBytesMax) + `"`)
	return f.submit(Request{After: []command.Command{c}})
}

func (f *followers) stored() uint64 {
	last, err := f.stores.Log.Group(testShardID).LastIndex()
	if err != nil {
		f.tb.Error(err)
	}
	return last
}

// While an entry is applied, the next one is in the log already.
func TestFollow_TheNextEntryIsStoredWhileOneIsApplied(t *testing.T) {
	t.Parallel()
	f := newFollowers(t)
	first, second := f.full(), f.full()
	before, release, stepped := f.stored(), make(chan struct{}), make(chan struct{})
	f.during = func() { <-release }
	go func() {
		defer close(stepped)
		f.step()
	}()
	func() {
		defer func() { close(release); <-stepped }()
		eventually.True(t, patience, "the second entry is stored before the first is applied", func() bool { return f.stored() == before+2 })
	}()
	if a, b := f.answered(first), f.answered(second); b.Index != a.Index+1 {
		t.Errorf("the entries are %d and %d", a.Index, b.Index)
	}
	for range 3 {
		f.fetch(time.Minute)
	}
}

// Who asks the memory waits until it knows what the entry before did, even if there is
// something to write as well.
func TestFollow_WhoAsksTheMemoryWaitsForTheEntryUnderWay(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*followers) *request{
		"fetch": func(f *followers) *request {
			q := fetchReq(1, time.Minute, false)
			q.After = []command.Command{f.newJob()}
			return f.submit(q)
		},
		"renewal": func(f *followers) *request {
			renewal := Renewal{NS: stepNS, ID: job.ID{1}, By: command.Holder{}}
			return f.submit(Request{Renew: []Renewal{renewal}, After: []command.Command{f.newJob()}})
		},
		"job that somebody waits for": func(f *followers) *request {
			c := f.newJob()
			c.Queue = "awaited"
			return f.submit(Request{After: []command.Command{c}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowers(t)
			f.submit(Request{Fetch: &Fetch{NS: stepNS, Queues: []string{"awaited"}, Count: 1, Worker: "w", Lease: time.Minute, Wait: true}})
			f.step()
			f.pace = overlapping
			first := f.full()
			asks := ask(f)
			f.step()
			f.answered(first)
			f.waiting(asks)
			f.step()
			f.answered(asks)
		})
	}
}

// Nothing is written for a request without commands, whenever it comes (law 7).
func TestFollow_NothingIsWrittenForARequestWithoutCommands(t *testing.T) {
	t.Parallel()
	f := newFollowers(t)
	f.full()
	empty, before := f.submit(Request{}), f.stored()
	f.step()
	f.step()
	f.answered(empty)
	if n := f.stored() - before; n != 1 {
		t.Errorf("%d entries were written, not 1", n)
	}
}

// However many entries could follow each other, a round looks at everything again now and then.
func TestFollow_TimersGetTheirTurn(t *testing.T) {
	t.Parallel()
	f := newFollowers(t)
	var all []*request
	for range followMax + 3 {
		all = append(all, f.full())
	}
	f.step()
	answered := 0
	for _, q := range all {
		if isAnswered(q) {
			answered++
		}
	}
	if answered < 2 || answered > followMax+1 { // Fewer if a timer came due meanwhile.
		t.Errorf("%d entries were made in one round", answered)
	}
}

// An entry that follows is bounded while others are there, and shows that they are.
func TestFollow_EntriesThatFollowAreBoundedAsWell(t *testing.T) {
	t.Parallel()
	f := newFollowers(t)
	f.company.perCost = time.Hour // Room for the least that every entry has.
	first := f.full()
	quiet := f.submit(f.frameOf(quietNS, 1))
	var flood []*request
	for range 3 {
		flood = append(flood, f.submit(f.frameOf(floodNS, entryLeast)))
	}
	f.step()
	indexes := map[uint64]bool{}
	for _, q := range append(flood, first, quiet) {
		indexes[f.answered(q).Index] = true
	}
	if len(indexes) < 4 {
		t.Errorf("the requests share %d entries", len(indexes))
	}
}
