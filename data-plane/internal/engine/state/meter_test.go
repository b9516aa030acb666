package state

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Below the version that brought metering nothing of it is stored. Once the version is
// raised, jobs from before are never subtracted from what they were not added to.
func TestMetering_BeginsWithItsVersionAndNeverCountsBelowNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newReplica(t)
		defer r.close(t)
		r.version = cellversion.First
		g := newGenerator(t, r)
		step := func() *auditor {
			cmds := slices.DeleteFunc(g.commands(), func(c command.Command) bool { return Since(c) > r.version })
			r.apply(t, logEntry{now: g.when(append(cmds, &command.Audit{})), cmds: cmds})
			return r.look(t)
		}
		for range rapid.IntRange(1, 40).Draw(t, "before") {
			a := step()
			for id, h := range a.heads {
				if h.Metered {
					t.Fatalf("job %s is metered", id)
				}
			}
			if len(a.meters.open)+len(a.meters.over) > 0 {
				t.Fatalf("counted at version 1: %+v", a.meters)
			}
		}
		r.version = cellversion.Metering
		for range rapid.IntRange(1, 40).Draw(t, "after") {
			step() // What is counted equals the sets of metered jobs, which are never below none.
		}
	})
}

func TestMetering_AJobOfBeforeIsExecutedAndNotStored(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	r.version = cellversion.First
	ns, old, young := job.Namespace{1}, job.ID{1}, job.ID{2}
	enqueue := func(id job.ID) {
		r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Payload: []byte("12345"), Retry: command.DefaultRetry()})
	}
	enqueue(old)
	r.version = cellversion.Metering
	enqueue(young)
	r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{old}, Worker: "w", Lease: time.Minute})
	r.do(t, r.now, &command.Ack{NS: ns, ID: old, Result: []byte("123")})
	want := records.Reading{Jobs: 1, Executions: 1, PayloadBytes: 5, OpenJobs: 1, StoredBytes: 5}
	if got := r.counted(t, ns); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r.do(t, r.now, &command.Delete{NS: ns, ID: old})
	if got := r.counted(t, ns); got != want {
		t.Errorf("after its end %+v, want %+v", got, want)
	}
	r.audit(t)
}

// counted are the numbers of a namespace's open reading, without those that tell when.
func (r *replica) counted(t tb, ns job.Namespace) records.Reading {
	t.Helper()
	got, there, err := stateread.ReadOpenReading(r.store, ns)
	if err != nil || !there {
		t.Fatalf("reading of %s: there %v, %v", ns, there, err)
	}
	got.Hour, got.Seq, got.Kept, got.Until, got.Quiet = 0, 0, 0, 0, records.Quiet{}
	return got
}

// An entry of many commands counts each of them, and writes one record.
func TestMetering_ManyCommandsOfAnEntryAreCountedOneByOne(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	const n = 10
	var enqueues, acks []command.Command
	fetch := &command.Fetch{NS: ns, Worker: "w", Lease: time.Minute}
	for i := range byte(n) {
		id := job.ID{i + 1}
		enqueues = append(enqueues, &command.Enqueue{NS: ns, ID: id, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()})
		fetch.Jobs = append(fetch.Jobs, id)
		ack := &command.Ack{NS: ns, ID: id}
		acks = append(acks, ack, ack) // Said twice.
	}
	r.apply(t, logEntry{cmds: append([]command.Command{&command.Atomic{Count: n}}, enqueues...)})
	r.apply(t, logEntry{cmds: append([]command.Command{fetch}, acks...)})
	if got, want := r.counted(t, ns), (records.Reading{Jobs: n, Executions: n, PayloadBytes: 2 * n, StoredBytes: 2 * n}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r.audit(t)
}

// The end of a namespace ends what it stores, and keeps what is to be billed.
func TestMetering_ADeletedNamespaceIsBilledUntilItsEnd(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	begin := (epoch/int64(time.Hour) + 1) * int64(time.Hour)
	r.do(t, begin, &command.Enqueue{NS: ns, ID: job.ID{1}, Queue: "q", Payload: []byte("12345678"), Retry: command.DefaultRetry()})
	r.do(t, begin+int64(30*time.Minute), &command.EndNamespace{NS: ns})
	r.do(t, r.now, &command.EndNamespace{NS: job.Namespace{2}}) // It never had anything.
	r.audit(t)
	list := r.readings(t, stateread.ReadingsFrom{}, r.now+int64(5*time.Hour))
	want := []stateread.Reading{{NS: ns, Hour: records.HourOf(begin), Seq: 2, Jobs: 1, PayloadBytes: 8, StoredByteHours: 4}}
	if !slices.Equal(list, want) {
		t.Errorf("billed %+v, want %+v", list, want)
	}
}

// Who reads again reads what changed since, and every hour that ended since.
func TestReadings_SecondTimeAreThoseThatChanged(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	begin := (epoch/int64(time.Hour) + 1) * int64(time.Hour)
	at := func(d time.Duration) int64 { return begin + int64(d) }
	busy, idle := job.Namespace{1}, job.Namespace{2}
	for i, ns := range []job.Namespace{busy, idle} {
		r.do(t, at(0), &command.Enqueue{NS: ns, ID: job.ID{byte(i)}, Queue: "q", Payload: []byte("1234"), Retry: command.DefaultRetry()})
	}
	first := records.HourOf(begin)
	hours := func(from stateread.ReadingsFrom, now int64) map[job.Namespace][]uint64 {
		out := map[job.Namespace][]uint64{}
		for _, v := range r.readings(t, from, now) {
			out[v.NS] = append(out[v.NS], v.Hour-first)
		}
		for _, list := range out {
			slices.Sort(list)
		}
		return out
	}
	same := func(what string, got map[job.Namespace][]uint64, ofBusy, ofIdle []uint64) {
		t.Helper()
		if !slices.Equal(got[busy], ofBusy) || !slices.Equal(got[idle], ofIdle) {
			t.Errorf("%s: hours %v of the busy one, %v of the idle one, want %v and %v", what, got[busy], got[idle], ofBusy, ofIdle)
		}
	}
	same("at first", hours(stateread.ReadingsFrom{}, at(10*time.Minute)), []uint64{0}, []uint64{0})
	seen := stateread.ReadingsFrom{Seq: r.index, Complete: at(10 * time.Minute)}
	r.do(t, at(3*time.Hour), &command.Enqueue{NS: busy, ID: job.ID{9}, Queue: "q", Retry: command.DefaultRetry()})
	same("three hours later", hours(seen, at(3*time.Hour)), []uint64{0, 1, 2, 3}, []uint64{0, 1, 2, 3})
	seen = stateread.ReadingsFrom{Seq: r.index, Complete: at(3 * time.Hour)}
	same("nothing changed", hours(seen, at(3*time.Hour+time.Minute)), []uint64{3}, []uint64{3})
	r.do(t, at(3*time.Hour+2*time.Minute), &command.Delete{NS: busy, ID: job.ID{9}})
	same("the hour goes on", hours(seen, at(3*time.Hour+2*time.Minute)), []uint64{3}, []uint64{3})
	same("from an hour on", hours(stateread.ReadingsFrom{Hour: first + 2}, at(3*time.Hour+2*time.Minute)), []uint64{2, 3}, []uint64{2, 3})
}

// Pages are read while the shard goes on: whatever was there at the first page is in one of
// them, also if its hour ends in between.
func TestReadings_PagesLackNothingWhileHoursEnd(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	const namespaces = 2500
	ns := func(i int) job.Namespace { return job.Namespace{byte(i >> 8), byte(i), 1} }
	work := func(at int64, id byte) {
		var cmds []command.Command
		for i := range namespaces {
			cmds = append(cmds, &command.Enqueue{NS: ns(i), ID: job.ID{id}, Queue: "q", Retry: command.DefaultRetry()})
		}
		r.apply(t, logEntry{now: at, cmds: cmds})
	}
	work(epoch, 1)
	now := r.now
	from, pages, found := stateread.ReadingsFrom{}, 0, map[job.Namespace]uint64{}
	for {
		p, err := stateread.ReadReadings(r.store, from, now)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, v := range p.List {
			if v.Hour == records.HourOf(epoch) {
				found[v.NS] = max(found[v.NS], v.Jobs)
			}
		}
		if from.Next = p.Next; p.Next == nil {
			break
		}
		if pages == 1 {
			work(epoch+int64(time.Hour), 2)
		}
	}
	for i := range namespaces {
		if found[ns(i)] != 1 {
			t.Fatalf("namespace %d has %d jobs in the hour that ended", i, found[ns(i)])
		}
	}
	if pages < 3 {
		t.Errorf("%d pages", pages)
	}
	if _, err := stateread.ReadReadings(r.store, stateread.ReadingsFrom{Next: []byte("x")}, now); err == nil {
		t.Error("a page begins nowhere")
	}
}

// A leader finds what is old, once, and nothing that is not.
func TestReadings_OldOnesAreFoundAndTrimmed(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	idle, stores, busy := job.Namespace{1}, job.Namespace{2}, job.Namespace{3}
	for i, ns := range []job.Namespace{idle, stores, busy} {
		r.do(t, epoch, &command.Enqueue{NS: ns, ID: job.ID{byte(i)}, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()})
	}
	r.do(t, epoch, &command.Delete{NS: idle, ID: job.ID{0}})
	r.do(t, epoch+int64(2*time.Hour), &command.Enqueue{NS: busy, ID: job.ID{9}, Queue: "q", Retry: command.DefaultRetry()})
	old := func(now int64) *command.TrimReadings {
		t.Helper()
		c, _, err := stateread.OldReadings(r.store, now, job.Namespace{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	kept := int64(records.ReadingHoursKept) * int64(time.Hour)
	if c := old(epoch + kept); c != nil {
		t.Fatalf("to be trimmed: %+v", c)
	}
	later := epoch + kept + int64(time.Hour)
	c := old(later)
	if c == nil || !slices.Equal(c.Idle, []job.Namespace{idle}) {
		t.Fatalf("to be trimmed: %+v", c)
	}
	// The idle one comes back in the entry that would have trimmed it.
	r.apply(t, logEntry{now: later, cmds: []command.Command{
		&command.Enqueue{NS: idle, ID: job.ID{10}, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()}, c,
		&command.Enqueue{NS: idle, ID: job.ID{11}, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()},
	}})
	a := r.look(t)
	if got := r.counted(t, idle); got.Jobs != 2 || got.OpenJobs != 2 {
		t.Errorf("the one that came back counts %+v", got)
	}
	if len(a.meters.over) != 0 {
		t.Errorf("left: %+v", a.meters.over)
	}
	if c := old(later); c != nil {
		t.Errorf("again to be trimmed: %+v", c)
	}
}
