package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, fs vfs.FS, opts Options) *Store {
	t.Helper()
	opts.FS = fs
	opts.Logger = slog.New(slog.DiscardHandler)
	s, err := Open("log", opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// reopen closes s and opens the same files again.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return open(t, s.opts.FS, s.opts)
}

func entry(index, term uint64, data string) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: []byte(data), AppendedAt: time.Unix(0, int64(index)*1e9)}
}

func entries(from, to, term uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, entry(i, term, fmt.Sprintf("entry %d of term %d", i, term)))
	}
	return logs
}

func store(t testing.TB, g *Group, logs []*raft.Log) {
	t.Helper()
	if err := g.StoreLogs(logs); err != nil {
		t.Fatalf("store %d..%d: %v", logs[0].Index, logs[len(logs)-1].Index, err)
	}
}

// wantLog checks that exactly logs are stored, with nothing around them.
func wantLog(t testing.TB, g *Group, logs []*raft.Log) {
	t.Helper()
	var first, last uint64
	if len(logs) > 0 {
		first, last = logs[0].Index, logs[len(logs)-1].Index
	}
	if got, err := g.FirstIndex(); err != nil || got != first {
		t.Errorf("first index = %d, %v, want %d", got, err, first)
	}
	if got, err := g.LastIndex(); err != nil || got != last {
		t.Errorf("last index = %d, %v, want %d", got, err, last)
	}
	var bytes uint64
	for _, want := range logs {
		bytes += entryBytes(want)
		var got raft.Log
		if err := g.GetLog(want.Index, &got); err != nil {
			t.Fatalf("get %d: %v", want.Index, err)
		}
		if !sameLog(&got, want) {
			t.Errorf("entry %d = %+v, want %+v", want.Index, got, *want)
		}
	}
	if got := g.Bytes(); got != bytes {
		t.Errorf("bytes = %d, want %d", got, bytes)
	}
	for _, index := range []uint64{0, first - 1, last + 1} {
		if index >= first && index <= last && index != 0 {
			continue
		}
		if err := g.GetLog(index, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("get %d outside the log: %v, want ErrLogNotFound", index, err)
		}
	}
}

func sameLog(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type &&
		string(a.Data) == string(b.Data) && string(a.Extensions) == string(b.Extensions) &&
		a.AppendedAt.Equal(b.AppendedAt)
}

func TestStoreLogs_RoundTripsEveryField(t *testing.T) {
	t.Parallel()
	logs := []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte{0, 255}, Extensions: []byte("ext"), AppendedAt: time.Now()},
		{Index: 2, Term: 1, Type: raft.LogNoop},
		{Index: 3, Term: 1<<64 - 1, Type: raft.LogCommand, Data: []byte{}, Extensions: []byte{}},
		{Index: 4, Term: 7, Type: raft.LogBarrier, Extensions: make([]byte, 1<<16)},
		{Index: 5, Term: 7, Type: raft.LogCommand, Data: make([]byte, 1<<20)},
	}
	s := open(t, vfs.NewMem(), Options{})
	store(t, s.Group(9), logs)
	wantLog(t, s.Group(9), logs)

	// Without the tail every read comes from Pebble.
	s.opts.TailBytes = -1
	s = reopen(t, s)
	wantLog(t, s.Group(9), logs)
	if m := s.Metrics(); m.TailReads != 0 || m.PebbleReads == 0 {
		t.Errorf("metrics = %+v, want Pebble reads only", m)
	}
}

func TestGroups_DoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	for id := uint32(1); id <= 3; id++ {
		store(t, s.Group(id), entries(uint64(id), uint64(id)*10, uint64(id)))
		if err := s.Group(id).SetUint64([]byte("CurrentTerm"), uint64(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Group(2).DeleteRange(0, 1<<63); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	wantLog(t, s.Group(1), entries(1, 10, 1))
	wantLog(t, s.Group(2), nil)
	wantLog(t, s.Group(3), entries(3, 30, 3))
	for id := uint32(1); id <= 3; id++ {
		if term, err := s.Group(id).GetUint64([]byte("CurrentTerm")); err != nil || term != uint64(id) {
			t.Errorf("term of group %d = %d, %v", id, term, err)
		}
	}
}

func TestStable_MissingIsZeroAndEmptyIsNot(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	g := s.Group(1)
	if v, err := g.Get([]byte("LastVoteCand")); v != nil || err != nil {
		t.Errorf("missing = %v, %v, want nil", v, err)
	}
	if v, err := g.GetUint64([]byte("LastVoteTerm")); v != 0 || err != nil {
		t.Errorf("missing number = %d, %v, want 0", v, err)
	}
	if err := g.Set([]byte("LastVoteCand"), nil); err != nil {
		t.Fatal(err)
	}
	if v, err := g.Get([]byte("LastVoteCand")); v == nil || len(v) != 0 || err != nil {
		t.Errorf("empty = %v, %v, want empty and not nil", v, err)
	}
	if _, err := g.GetUint64([]byte("LastVoteCand")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("number of an empty value: %v, want ErrCorrupt", err)
	}
}

func TestDeleteRange_BothEndsSurviveAReopen(t *testing.T) {
	t.Parallel()
	for _, tail := range []int{-1, 0} {
		s := open(t, vfs.NewMem(), Options{TailBytes: tail})
		store(t, s.Group(1), entries(1, 100, 1))
		if err := s.Group(1).DeleteRange(1, 40); err != nil {
			t.Fatal(err)
		}
		wantLog(t, s.Group(1), entries(41, 100, 1))
		if err := s.Group(1).DeleteRange(81, 100); err != nil {
			t.Fatal(err)
		}
		wantLog(t, s.Group(1), entries(41, 80, 1))
		s = reopen(t, s)
		wantLog(t, s.Group(1), entries(41, 80, 1))

		// The truncated suffix takes other entries, also after a reopen.
		store(t, s.Group(1), entries(81, 90, 2))
		want := append(entries(41, 80, 1), entries(81, 90, 2)...)
		wantLog(t, s.Group(1), want)
		s = reopen(t, s)
		wantLog(t, s.Group(1), want)

		if err := s.Group(1).DeleteRange(41, 90); err != nil {
			t.Fatal(err)
		}
		wantLog(t, s.Group(1), nil)
		store(t, s.Group(1), entries(500, 510, 3))
		s = reopen(t, s)
		wantLog(t, s.Group(1), entries(500, 510, 3))
	}
}

func TestDeleteRange_RefusesAHole(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	store(t, s.Group(1), entries(1, 10, 1))
	if err := s.Group(1).DeleteRange(4, 6); err == nil {
		t.Error("deleting the middle was accepted")
	}
	wantLog(t, s.Group(1), entries(1, 10, 1))
	for _, r := range [][2]uint64{{11, 20}, {6, 5}} {
		if err := s.Group(1).DeleteRange(r[0], r[1]); err != nil {
			t.Errorf("delete nothing %v: %v", r, err)
		}
	}
	wantLog(t, s.Group(1), entries(1, 10, 1))
}

func TestDeleteRange_IsExactAtBothEnds(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	store(t, s.Group(1), entries(1, 100, 1))
	if err := s.Group(1).DeleteRange(1, 90); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s.Group(1), entries(91, 100, 1))
	s = reopen(t, s)
	wantLog(t, s.Group(1), entries(91, 100, 1))
	if err := s.Group(1).DeleteRange(95, 100); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s.Group(1), entries(91, 94, 1))
}

// Entries are of any size, so how many fit is looked up, in all of the log.
func TestNewestWithin_CountsBytesWhereverTheLargeEntriesAre(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	g := s.Group(1)
	if n, err := g.NewestWithin(1 << 40); n != 0 || err != nil {
		t.Fatalf("%d of no entries fit, %v", n, err)
	}
	var logs []*raft.Log
	for i := uint64(1); i <= 60; i++ { // Small ones, then large ones, then small ones.
		size := 10
		if i > 20 && i <= 40 {
			size = 100_000
		}
		logs = append(logs, entry(i, 1, strings.Repeat("x", size)))
	}
	small, large := entryBytes(logs[0]), entryBytes(logs[30])
	store(t, g, logs)
	if err := g.DeleteRange(1, 5); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bytes, want uint64 }{
		{0, 0},
		{small, 1},
		{20*small + large - 1, 20},
		{20*small + large, 21},
		{20*small + 20*large, 40},
		{1 << 40, 55},
	} {
		if n, err := g.NewestWithin(c.bytes); n != c.want || err != nil {
			t.Errorf("%d entries within %d bytes, want %d (%v)", n, c.bytes, c.want, err)
		}
	}
}

func TestStoreLogs_GapAfterASnapshotReplacesTheLog(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	store(t, s.Group(1), entries(1, 50, 1))
	store(t, s.Group(1), entries(1001, 1010, 2))
	wantLog(t, s.Group(1), entries(1001, 1010, 2))
	if err := s.Group(1).GetLog(50, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry before the gap: %v, want ErrLogNotFound", err)
	}
	s = reopen(t, s)
	wantLog(t, s.Group(1), entries(1001, 1010, 2))
}

func TestStoreLogs_RefusesOverwriteAndDisorder(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	g := s.Group(1)
	store(t, g, entries(1, 10, 1))
	for name, logs := range map[string][]*raft.Log{
		"overwrite": entries(10, 11, 2),
		"hole":      {entry(11, 1, "a"), entry(13, 1, "b")},
		"backwards": {entry(11, 1, "a"), entry(10, 1, "b")},
		"index 0":   {entry(0, 1, "a")},
	} {
		if err := g.StoreLogs(logs); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	wantLog(t, g, entries(1, 10, 1))
}

func TestTail_StaysWithinItsBudgetAndServesTheNewest(t *testing.T) {
	t.Parallel()
	one := int(entryBytes(entry(1, 1, "0123456789")))
	s := open(t, vfs.NewMem(), Options{TailBytes: 10 * one})
	g := s.Group(1)
	for i := uint64(1); i <= 1000; i++ {
		store(t, g, []*raft.Log{entry(i, 1, "0123456789")})
		if g.tail.bytes > 10*one || len(g.tail.entries) > 32 {
			t.Fatalf("tail holds %d bytes in %d slots", g.tail.bytes, len(g.tail.entries))
		}
	}
	for i := uint64(1); i <= 1000; i++ {
		if err := g.GetLog(i, new(raft.Log)); err != nil {
			t.Fatal(err)
		}
	}
	if m := s.Metrics(); m.TailReads != 10 || m.PebbleReads != 990 {
		t.Errorf("tail reads %d, Pebble reads %d, want 10 and 990", m.TailReads, m.PebbleReads)
	}
}

func TestGetLog_CorruptEntryNamesGroupAndIndex(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{TailBytes: -1})
	g := s.Group(77)
	store(t, g, entries(1, 5, 1))
	key := entryKey(77, 3)
	value, closer, err := s.db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	good := append([]byte(nil), value...)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	for bit := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := s.db.Set(key, bad, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		err := g.GetLog(3, new(raft.Log))
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("flipped bit %d: %v, want ErrCorrupt", bit, err)
		}
		if want := "group 77 index 3: "; len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Fatalf("error %q does not name group and index", err)
		}
	}
	// A good value under another key is corrupt too.
	if err := s.db.Set(entryKey(77, 4), good, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := g.GetLog(4, new(raft.Log)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("entry 3 under key 4: %v, want ErrCorrupt", err)
	}
	// A group whose end is corrupt serves nothing at all.
	if err := s.db.Set(entryKey(77, 5), good, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	if _, err := s.Group(77).LastIndex(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("last index over a corrupt end: %v, want ErrCorrupt", err)
	}
	if err := s.Group(77).StoreLogs(entries(6, 6, 1)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("append behind a corrupt end: %v, want ErrCorrupt", err)
	}
}

func TestOpen_RefusesAnotherLayout(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	if err := s.commitStable(stableKey(ownGroup, []byte("layout")), []byte{0, 0, 0, 0, 0, 0, 0, 2}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("log", Options{FS: fs}); err == nil {
		t.Error("a store of another layout was opened")
	}
}

func TestClose_RefusesLaterCalls(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{TailBytes: -1})
	g := s.Group(1)
	store(t, g, entries(1, 3, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"StoreLogs":   g.StoreLogs(entries(4, 4, 1)),
		"GetLog":      g.GetLog(1, new(raft.Log)),
		"DeleteRange": g.DeleteRange(1, 2),
		"Set":         g.Set([]byte("k"), nil),
		"SyncProbe":   s.SyncProbe(),
		"Close again": errors.Join(s.Close(), ErrClosed),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}

func TestWatch_SpansTheBlockedWrite(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	begun, ended := map[string]int{}, map[string]int{}
	s := open(t, vfs.NewMem(), Options{Watch: func(op string) func() {
		mu.Lock()
		defer mu.Unlock()
		begun[op]++
		return func() {
			mu.Lock()
			defer mu.Unlock()
			ended[op]++
		}
	}})
	g := s.Group(1)
	store(t, g, entries(1, 3, 1))
	if err := errors.Join(g.DeleteRange(1, 1), g.SetUint64([]byte("k"), 1), s.SyncProbe()); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{OpStoreLogs, OpDeleteRange, OpSet, OpProbe} {
		if begun[op] != 1 || ended[op] != 1 {
			t.Errorf("%s began %d and ended %d times, want once", op, begun[op], ended[op])
		}
	}
}

// failingFS fails every file sync once broken is set.
type failingFS struct {
	vfs.FS
	broken atomic.Bool
}

var errDisk = errors.New("input/output error")

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return failingFile{file, f}, err
}

func (f *failingFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return failingFile{file, f}, err
}

type failingFile struct {
	vfs.File
	fs *failingFS
}

func (f failingFile) Sync() error {
	if f.fs.broken.Load() {
		return errDisk
	}
	return f.File.Sync()
}

func (f failingFile) SyncData() error {
	if f.fs.broken.Load() {
		return errDisk
	}
	return f.File.SyncData()
}
