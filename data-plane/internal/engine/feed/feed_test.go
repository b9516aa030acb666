package feed

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// drawEntry makes the links and events of one entry as package state does: every
// namespace has a link, and its events are numbered from there.
func drawEntry(t *rapid.T) ([]Link, []Event) {
	id := func(name string) [16]byte { return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name)) }
	links := []Link{}
	next := map[job.Namespace]uint64{}
	for range rapid.IntRange(0, 3).Draw(t, "links") {
		l := Link{NS: id("ns"), First: rapid.Uint64Range(1, 1<<40).Draw(t, "first"), Prev: rapid.Uint64().Draw(t, "prev"), N: rapid.Uint64().Draw(t, "n")}
		if _, twice := next[l.NS]; !twice {
			links, next[l.NS] = append(links, l), l.First
		}
	}
	events := []Event{}
	for range rapid.IntRange(0, 5*len(links)).Draw(t, "count") {
		ns := rapid.SampledFrom(links).Draw(t, "of").NS
		events = append(events, Event{
			Type: Type(rapid.Byte().Draw(t, "type")), NS: ns, Queue: string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "queue")),
			ID: id("id"), State: job.State(rapid.Byte().Draw(t, "state")), From: job.State(rapid.Byte().Draw(t, "from")),
			Attempt: rapid.Uint32().Draw(t, "attempt"), Seq: next[ns],
		})
		next[ns]++
	}
	return links, events
}

func TestRoundTrip_EventsComeBackNumberedByTheirLinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(0, math.MaxInt64).Draw(t, "now")
		links, want := drawEntry(t)
		at, got, err := Decode(Encode(now, links, want))
		if err != nil || at != now || !reflect.DeepEqual(got, want) {
			t.Fatalf("at %d %+v, %v; want at %d %+v", at, got, err, now, want)
		}
	})
}

// Stored rows of today must be readable for ever.
func TestEncode_GoldenBytes(t *testing.T) {
	t.Parallel()
	ns := job.Namespace{0xa}
	got := Encode(5, []Link{{NS: ns, First: 300, Prev: 9, N: 64, Far: [2]uint64{3, 0}}}, []Event{
		{Type: Completed, NS: ns, Queue: "mail", ID: job.ID{0xb}, State: job.Completed, From: job.Active, Attempt: 2},
	})
	want := "010a01" + "0a000000000000000000000000000000" + "ac0209" + "4003" + "01" +
		"0006046d61696c" + "0b000000000000000000000000000000" + "070302"
	if hex.EncodeToString(got) != want {
		t.Errorf("entry %x", got)
	}
	if got := (Mark{Seq: 300, Index: 9, N: 5, Far: [2]uint64{4, 2}}).Encode(); hex.EncodeToString(got) != "01ac0209050402" {
		t.Errorf("mark %x", got)
	}
}

func FuzzDecode(f *testing.F) {
	ns := job.Namespace{1}
	f.Add(Encode(1, nil, nil))
	f.Add(Encode(1_700_000_000_000_000_000, []Link{{NS: ns, First: 1}}, []Event{{Type: Started, NS: ns, Queue: "q", ID: job.ID{2}, State: job.Active, Attempt: 3}}))
	f.Add([]byte{3, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, events, err := Decode(b)
		if err != nil && (!errors.Is(err, ErrMalformed) || events != nil) {
			t.Fatalf("%d events, %v", len(events), err)
		}
	})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(Mark{}.Encode())
	f.Add(Mark{Seq: math.MaxUint64, Index: 1 << 40}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMark(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || m != (Mark{}) {
				t.Fatalf("%+v, %v", m, err)
			}
			return
		}
		if again, err := DecodeMark(m.Encode()); err != nil || again != m {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func TestType_EveryOneHasAWord(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for e := Enqueued; e < typesEnd; e++ {
		if w := e.String(); w == "" || seen[w] {
			t.Errorf("event %d is %q", e, w)
		}
		seen[e.String()] = true
	}
	if Type(0).String() != "event(0)" || typesEnd.String() != fmt.Sprintf("event(%d)", uint8(typesEnd)) {
		t.Errorf("strangers are %s and %s", Type(0), typesEnd)
	}
}

func openStore(t *testing.T) *statedb.Group {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db.Group(2)
}

// commit makes one change to the store.
func commit(t *testing.T, g *statedb.Group, change func(txn *statedb.Txn, space keys.Space)) {
	t.Helper()
	txn := g.NewTxn()
	change(txn, keys.In(g.Prefix()))
	if _, err := txn.EndEntry(0, 1); err != nil {
		t.Fatalf("end entry: %v", err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func write(t *testing.T, g *statedb.Group, indexes ...uint64) {
	t.Helper()
	commit(t, g, func(txn *statedb.Txn, space keys.Space) {
		for _, i := range indexes {
			txn.SetNew(space.Feed(i), Encode(int64(i), []Link{{First: i}}, []Event{{Type: Enqueued, Attempt: uint32(i)}}))
		}
	})
}

func trim(t *testing.T, g *statedb.Group, before uint64) {
	t.Helper()
	commit(t, g, func(txn *statedb.Txn, space keys.Space) {
		txn.DeleteRange(space.Feed(1), space.Feed(before))
		txn.Set(space.Feed(0), TrimRecord(before))
	})
}

func indexes(batches []Batch) []uint64 {
	out := []uint64{}
	for _, b := range batches {
		out = append(out, b.Index)
	}
	return out
}

func TestRead_ResumesWhereTheCursorStands(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	write(t, g, 1, 2, 5, 6, 300)
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
	}{
		{0, 10, []uint64{1, 2, 5, 6, 300}},
		{0, 2, []uint64{1, 2}},
		{2, 2, []uint64{5, 6}},
		{3, 10, []uint64{5, 6, 300}},
		{6, 1, []uint64{300}},
		{300, 10, []uint64{}},
		{math.MaxUint64 - 1, 10, []uint64{}},
		{math.MaxUint64, 10, []uint64{}},
	} {
		got, err := Read(g, c.after, c.limit)
		if err != nil || !reflect.DeepEqual(indexes(got), c.want) {
			t.Errorf("after %d, limit %d: %v, %v, want %v", c.after, c.limit, indexes(got), err, c.want)
		}
		for _, b := range got {
			if b.Now != int64(b.Index) || len(b.Events) != 1 || b.Events[0].Attempt != uint32(b.Index) {
				t.Errorf("entry %d has %+v", b.Index, b)
			}
		}
	}
}

func TestRead_TrimmedCursorIsToldInsteadOfAGap(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	write(t, g, 1, 2, 3, 4, 5)
	trim(t, g, 4)
	for after, want := range map[uint64]error{0: ErrTrimmed, 1: ErrTrimmed, 2: ErrTrimmed, 3: nil, 4: nil, 9: nil, math.MaxUint64: nil} {
		if _, err := Read(g, after, 10); !errors.Is(err, want) {
			t.Errorf("after %d: %v, want %v", after, err, want)
		}
	}
	if got, err := Read(g, 3, 10); err != nil || !reflect.DeepEqual(indexes(got), []uint64{4, 5}) {
		t.Errorf("after 3: %v, %v", indexes(got), err)
	}
}

func TestRead_BrokenRowsAreErrors(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	commit(t, g, func(txn *statedb.Txn, space keys.Space) { txn.Set(space.Feed(3), []byte{9}) })
	if _, err := Read(g, 0, 10); !errors.Is(err, ErrMalformed) {
		t.Errorf("broken entry: %v", err)
	}
	commit(t, g, func(txn *statedb.Txn, space keys.Space) { txn.Set(space.Feed(0), []byte{9}) })
	if _, err := Read(g, 0, 10); !errors.Is(err, ErrMalformed) {
		t.Errorf("broken mark: %v", err)
	}
}

// While the feed grows and is trimmed, what a reader gets starts right after its
// cursor and has no gap (INV-13); else it is told.
func TestRead_IsGapFreeWhileTheFeedIsTrimmed(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	const entries = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(1); i <= entries; i++ {
			write(t, g, i)
			if i > 2 {
				trim(t, g, i-1)
			}
		}
	}()
	defer func() { <-done }() // The store closes only then.
	reads := 0
	for after := uint64(0); after < entries; {
		got, err := Read(g, after, 100)
		if errors.Is(err, ErrTrimmed) {
			after++ // The reader rebuilds; here it only goes on.
			continue
		}
		if err != nil {
			t.Fatalf("read after %d: %v", after, err)
		}
		for k, b := range got {
			if b.Index != after+1+uint64(k) {
				t.Fatalf("after %d came %v", after, indexes(got))
			}
		}
		after += uint64(len(got))
		reads++
	}
	if reads == 0 {
		t.Fatal("nothing was ever read")
	}
}
