package feed

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

var busy, quiet = job.Namespace{1}, job.Namespace{2}

// writer writes rows as package state does it.
type writer struct {
	g     *statedb.Group
	marks map[job.Namespace]*Mark
	index uint64
	now   int64
}

func newWriter(t *testing.T) *writer {
	return &writer{g: openStore(t), marks: map[job.Namespace]*Mark{}}
}

// entry writes an entry with so many events of each namespace.
func (w *writer) entry(t tb, of map[job.Namespace]int) {
	t.Helper()
	w.index++
	w.now++
	commit(t, w.g, func(txn *statedb.Txn, space keys.Space) {
		for ns, n := range of {
			m := w.marks[ns]
			if m == nil {
				m = new(Mark)
				w.marks[ns] = m
			}
			var row RowWriter
			for i := range n {
				row.Add(&Event{Type: Enqueued, Queue: "q", Attempt: uint32(m.Seq) + uint32(i) + 1})
			}
			first := m.Seq + 1
			txn.SetNew(space.Events(ns, first), row.Row(w.index, w.now, m))
			txn.Set(space.EventMark(ns), m.Encode())
		}
	})
}

func (w *writer) trim(t tb, ns job.Namespace, before uint64) {
	t.Helper()
	commit(t, w.g, func(txn *statedb.Txn, space keys.Space) { txn.DeleteRange(space.EventsBetween(ns, 0, before)) })
}

// after is the numbers that Walk hands over.
func (w *writer) after(t tb, ns job.Namespace, seq uint64) (numbers []uint64, lost bool) {
	t.Helper()
	lost, err := Walk(w.g, ns, seq, func(r *Row) bool {
		for _, e := range r.Events {
			if e.NS != ns || uint64(e.Attempt) != e.Seq || r.Now != int64(r.Index) {
				t.Fatalf("row %+v has %+v", r, e)
			}
			numbers = append(numbers, e.Seq)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers, lost
}

// What a reader gets starts right behind its cursor and has no gap, whatever the rows are
// and the neighbours do; if something is missing it is told (INV-13).
func TestWalk_IsGapFreeOrSaysThatEventsAreLost(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	n := byte(0)
	rapid.Check(t, func(t *rapid.T) {
		n++
		ns, other := job.Namespace{n, 1}, job.Namespace{n, 2}
		w := &writer{g: store, marks: map[job.Namespace]*Mark{}}
		first := []uint64{}
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			of := map[job.Namespace]int{}
			if k := rapid.IntRange(0, 4).Draw(t, "events"); k > 0 {
				of[ns] = k
				last := uint64(0)
				if m := w.marks[ns]; m != nil {
					last = m.Seq
				}
				first = append(first, last+1)
			}
			of[other] = 1
			w.entry(t, of)
		}
		if len(first) == 0 {
			return
		}
		last, kept := w.marks[ns].Seq, uint64(1)
		if i := rapid.IntRange(0, len(first)).Draw(t, "cut"); i > 0 {
			kept = last + 1
			if i < len(first) {
				kept = first[i]
			}
			w.trim(t, ns, kept)
		}
		seq := rapid.Uint64Range(0, last+2).Draw(t, "after")
		got, lost := w.after(t, ns, seq)
		if want := seq > last || seq < last && seq+1 < kept; lost != want {
			t.Fatalf("after %d of %d, of which %d is the first: lost %v", seq, last, kept, lost)
		}
		for want := max(seq+1, kept); want <= last; want++ {
			if len(got) == 0 || got[0] != want {
				t.Fatalf("after %d came %v; want %d", seq, got, want)
			}
			got = got[1:]
		}
		if len(got) > 0 {
			t.Fatalf("after %d came %v too", seq, got)
		}
	})
}

func TestCut_KeepsWhatFitsAndIsYoungEnough(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	for range 1000 {
		w.now += int64(time.Second) - 1
		w.entry(t, map[job.Namespace]int{busy: 3, quiet: 1})
	}
	each := w.marks[busy].Bytes / 1000
	for _, c := range []struct {
		keep Keep
		want uint64
	}{
		{Keep{Age: time.Hour, Bytes: 1 << 30}, 0},
		{Keep{Age: 100 * time.Second, Bytes: 1 << 30}, 3*899 + 1},
		{Keep{Age: time.Hour, Bytes: 10 * each}, 3*990 + 1},
		{Keep{Age: 100 * time.Second, Bytes: 10 * each}, 3*990 + 1},
		{Keep{Age: 999 * time.Second, Bytes: 1 << 30}, 0},       // It is not much yet.
		{Keep{Age: time.Hour, Bytes: 990 * each}, 0},            // Nor is this.
		{Keep{Age: time.Nanosecond, Bytes: 1 << 30}, 3*999 + 1}, // The last one is of now.
		{Keep{Age: time.Hour, Bytes: 10 * each, Read: 2951}, 0},
	} {
		if c.keep.Read == 0 {
			c.keep.Read = w.marks[busy].Seq
		} else {
			c.want = 2950 // The row of which the second event is not read.
		}
		got, err := Cut(w.g, busy, w.now, c.keep)
		if err != nil || got != c.want {
			t.Errorf("%+v: %d, %v; want %d", c.keep, got, err, c.want)
		}
	}
	// What nobody has read is bounded, too.
	if got, err := Cut(w.g, busy, w.now, Keep{Age: time.Hour, Bytes: 10 * each}); err != nil || got != 3*(1000-unreadFactor*10)+1 {
		t.Errorf("unread: %d, %v", got, err)
	}
	if got, err := Cut(w.g, job.Namespace{9}, w.now, Keep{Age: time.Hour, Bytes: 1}); err != nil || got != 0 {
		t.Errorf("no events: %d, %v", got, err)
	}
}

func TestWalk_BrokenRowsAreErrors(t *testing.T) {
	t.Parallel()
	for name, value := range map[string][]byte{"no row": {9}, "no event": new(RowWriter).Row(1, 1, new(Mark))} {
		w := newWriter(t)
		w.entry(t, map[job.Namespace]int{busy: 1})
		commit(t, w.g, func(txn *statedb.Txn, space keys.Space) { txn.Set(space.Events(busy, 1), value) })
		if _, err := Walk(w.g, busy, 0, func(*Row) bool { return true }); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWriter(t)
	commit(t, w.g, func(txn *statedb.Txn, space keys.Space) { txn.Set(space.EventMark(busy), []byte{7}) })
	if _, err := Walk(w.g, busy, 0, func(*Row) bool { return true }); !errors.Is(err, ErrMalformed) {
		t.Errorf("broken mark: %v", err)
	}
}

// BenchmarkWalk measures a page of one event and one of a thousand at the beginning and in the
// middle of a feed, by how long that is.
func BenchmarkWalk(b *testing.B) {
	for _, events := range []int{1_000, 100_000, 1_000_000} {
		w := &writer{g: openStore(b), marks: map[job.Namespace]*Mark{}}
		for range events / 100 {
			w.entry(b, map[job.Namespace]int{busy: 100})
		}
		from, to := keys.In(w.g.Prefix()).EventsFrom(busy, 0)
		if err := w.g.Compact(b.Context(), from, to); err != nil { // It would go on beside what is measured.
			b.Fatal(err)
		}
		for _, limit := range []int{1, 1000} {
			for _, after := range []uint64{0, uint64(events / 2)} {
				b.Run(fmt.Sprintf("%d of %d after %d", limit, events, after), func(b *testing.B) {
					for b.Loop() {
						n := 0
						if _, err := Walk(w.g, busy, after, func(r *Row) bool { n += len(r.Events); return n < limit }); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// A page costs what it hands over: of a long feed no more rows are read than of a short one.
func TestWalk_APageReadsNoMoreRowsThanItNeeds(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	for range 2000 {
		w.entry(t, map[job.Namespace]int{busy: 3})
	}
	for _, after := range []uint64{0, 1, 2999, 5990} {
		rows, last := 0, uint64(0)
		if _, err := Walk(w.g, busy, after, func(r *Row) bool {
			if rows == 0 && r.Events[0].Seq != after+1 {
				t.Errorf("after %d comes %d", after, r.Events[0].Seq)
			}
			rows++
			last = r.Events[len(r.Events)-1].Seq
			return last < after+4
		}); err != nil {
			t.Fatal(err)
		}
		if rows > 3 || last < after+4 {
			t.Errorf("four events after %d: %d rows, up to %d", after, rows, last)
		}
	}
}
