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

func TestRoundTrip_EventsComeBackNumberedByTheirKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ns := job.Namespace{5}
		m := Mark{Seq: rapid.Uint64Range(0, 1<<40).Draw(t, "seq"), Bytes: rapid.Uint64Range(0, 1<<50).Draw(t, "bytes")}
		want := Row{Index: rapid.Uint64().Draw(t, "index"), Now: rapid.Int64Range(0, math.MaxInt64).Draw(t, "now"), Events: []Event{}}
		was, first := m.Bytes, m.Seq+1
		var w RowWriter
		for range rapid.IntRange(0, 5).Draw(t, "count") {
			e := Event{
				Type: Type(rapid.Byte().Draw(t, "type")), NS: ns, Queue: string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "queue")),
				ID: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), State: job.State(rapid.Byte().Draw(t, "state")),
				From: job.State(rapid.Byte().Draw(t, "from")), Attempt: rapid.Uint32().Draw(t, "attempt"), Seq: first + uint64(len(want.Events)),
			}
			w.Add(&e)
			want.Events = append(want.Events, e)
		}
		b := w.Row(want.Index, want.Now, &m)
		want.Bytes = m.Bytes
		got, err := Decode(ns, first, b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		if m.Seq != first+uint64(len(want.Events))-1 || m.At != want.Now || m.Bytes < was+uint64(len(b)) {
			t.Fatalf("the mark is %+v after a row of %d bytes", m, len(b))
		}
	})
}

// Stored rows of today must be readable for ever.
func TestEncode_GoldenBytes(t *testing.T) {
	t.Parallel()
	m := Mark{Seq: 299, Bytes: 1000}
	var w RowWriter
	w.Add(&Event{Type: Completed, Queue: "mail", ID: job.ID{0xb}, State: job.Completed, From: job.Active, Attempt: 2})
	got := w.Row(9, 5, &m)
	want := "01090a" + "c108" + "01" + "06046d61696c" + "0b000000000000000000000000000000" + "070302"
	if hex.EncodeToString(got) != want {
		t.Errorf("row %x", got)
	}
	if got := m.Encode(); hex.EncodeToString(got) != "01ac02c1080a" {
		t.Errorf("mark %x", got)
	}
}

func FuzzDecode(f *testing.F) {
	row := func(events ...Event) []byte {
		var w RowWriter
		for i := range events {
			w.Add(&events[i])
		}
		return w.Row(7, 1_700_000_000_000_000_000, new(Mark))
	}
	f.Add(row())
	f.Add(row(Event{Type: Started, Queue: "q", ID: job.ID{2}, State: job.Active, Attempt: 3}))
	f.Add([]byte{3, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := Decode(job.Namespace{1}, 1, b)
		if err != nil && (!errors.Is(err, ErrMalformed) || row.Events != nil) {
			t.Fatalf("%d events, %v", len(row.Events), err)
		}
	})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(Mark{}.Encode())
	f.Add(Mark{Seq: math.MaxUint64, Bytes: 1 << 40}.Encode())
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

// tb is what tests and rapid have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openStore(t testing.TB) *statedb.Group {
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
func commit(t tb, g *statedb.Group, change func(txn *statedb.Txn, space keys.Space)) {
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
