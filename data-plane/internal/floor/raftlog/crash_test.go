package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
)

// afterCrash opens what a power loss at this moment leaves of fs. percent is the
// chance of each unsynced block to have reached the disk anyway.
func afterCrash(t testing.TB, fs *vfs.MemFS, percent int) *Store {
	t.Helper()
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(percent)))}
	return open(t, fs.CrashClone(cfg), Options{})
}

func TestCrash_EveryStoreThatReturnedIsThere(t *testing.T) {
	t.Parallel()
	const groups, rounds = 8, 12
	fs := vfs.NewCrashableMem()
	// Small memtables put flushes and compactions among the crashes.
	s := open(t, fs, Options{MemTableBytes: 64 << 10})
	var acknowledged [groups]atomic.Uint64
	var progress atomic.Uint64
	tokens := make(chan struct{}, 1024) // One per batch; closed at the end.
	var writers sync.WaitGroup
	for i := range groups {
		writers.Go(func() {
			g := s.Group(uint32(i + 1))
			next := uint64(1)
			for range tokens {
				if err := errors.Join(g.StoreLogs(entries(next, next+4, next)), g.SetUint64([]byte("CurrentTerm"), next)); err != nil {
					t.Errorf("group %d: %v", i+1, err)
					return
				}
				acknowledged[i].Store(next + 4)
				progress.Add(1)
				next += 5
			}
		})
	}
	defer writers.Wait()
	defer close(tokens)
	for round := range rounds {
		for range 60 {
			tokens <- struct{}{}
		}
		// The crash comes while the last batches of the round are being written.
		for target := uint64(round*60 + 40); progress.Load() < target && !t.Failed(); {
			runtime.Gosched()
		}
		var want [groups]uint64
		for i := range want {
			want[i] = acknowledged[i].Load()
		}
		crashed := afterCrash(t, fs, []int{0, 50}[round%2])
		for i, last := range want {
			checkSurvivor(t, crashed.Group(uint32(i+1)), last)
		}
	}
}

// checkSurvivor checks that the log goes at least to acknowledged and is whole.
func checkSurvivor(t *testing.T, g *Group, acknowledged uint64) {
	t.Helper()
	last, err := g.LastIndex()
	if err != nil || last < acknowledged {
		t.Fatalf("group %d ends at %d (%v) after the crash, %d was acknowledged", g.id, last, err, acknowledged)
	}
	if last%5 != 0 {
		t.Errorf("group %d ends at %d: half a batch survived", g.id, last)
	}
	for i := uint64(1); i <= last; i++ {
		var got raft.Log
		if err := g.GetLog(i, &got); err != nil {
			t.Fatalf("group %d entry %d of %d: %v", g.id, i, last, err)
		}
		if want := entry(i, (i-1)/5*5+1, string(got.Data)); !sameLog(&got, want) {
			t.Fatalf("group %d entry %d = %+v", g.id, i, got)
		}
	}
	term, err := g.GetUint64([]byte("CurrentTerm"))
	if err != nil || term+4 < acknowledged {
		t.Errorf("group %d term %d (%v) after the crash, %d was acknowledged", g.id, term, err, acknowledged-4)
	}
}

// The same crash must lose data without syncs. If it does not, the test above
// would pass on a disk that never forgets.
func TestCrash_RelaxedLosesWhatReturned(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs, Options{Relaxed: true})
	g := s.Group(1)
	store(t, g, entries(1, 100, 1))
	if err := g.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	crashed := afterCrash(t, fs, 0)
	if last, err := crashed.Group(1).LastIndex(); err != nil || last >= 100 {
		t.Errorf("last index %d (%v) after a crash without syncs: nothing was lost", last, err)
	}
	if term, err := crashed.Group(1).GetUint64([]byte("CurrentTerm")); err != nil || term == 7 {
		t.Errorf("term %d (%v) after a crash without syncs: nothing was lost", term, err)
	}
	// A clean shutdown still loses nothing.
	s = reopen(t, s)
	wantLog(t, s.Group(1), entries(1, 100, 1))
}

func TestCrash_DeletionsAreDurableToo(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	g := open(t, fs, Options{}).Group(1)
	store(t, g, entries(1, 100, 1))

	if err := g.DeleteRange(61, 100); err != nil {
		t.Fatal(err)
	}
	// A truncated entry that came back would be an entry of a deposed leader.
	wantLog(t, afterCrash(t, fs, 0).Group(1), entries(1, 60, 1))

	store(t, g, entries(61, 70, 2))
	if err := g.DeleteRange(1, 50); err != nil {
		t.Fatal(err)
	}
	want := append(entries(51, 60, 1), entries(61, 70, 2)...)
	wantLog(t, afterCrash(t, fs, 0).Group(1), want)

	store(t, g, entries(900, 905, 3))
	wantLog(t, afterCrash(t, fs, 0).Group(1), entries(900, 905, 3))
}

func TestSyncProbe_IsSyncedEvenWhenRelaxed(t *testing.T) {
	t.Parallel()
	fs := disk.Counting(vfs.NewMem())
	s := open(t, fs, Options{Relaxed: true})
	before := fs.FileSyncs()
	for range 5 {
		if err := s.SyncProbe(); err != nil {
			t.Fatal(err)
		}
	}
	if n := fs.FileSyncs() - before; n < 5 {
		t.Errorf("5 probes made %d syncs", n)
	}
}

func TestGroups_CommittingTogetherShareSyncs(t *testing.T) {
	t.Parallel()
	const groups, each = 32, 15
	// Slow enough that every group is back before a sync ends, also on a busy machine.
	fs := disk.Counting(disk.DelayedSync(vfs.NewMem(), 20*time.Millisecond))
	s := open(t, fs, Options{})
	before := fs.FileSyncs()
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() {
			g := s.Group(uint32(i + 1))
			for n := uint64(1); n <= each; n++ {
				if err := g.StoreLogs(entries(n, n, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	shared := fs.FileSyncs() - before
	if commits := s.Metrics().Commits - 1; commits != groups*each { // One more wrote the layout.
		t.Errorf("%d commits, want %d", commits, groups*each)
	}
	if shared > groups*each/4 {
		t.Errorf("%d commits of %d groups took %d syncs", groups*each, groups, shared)
	}
	// A group that commits alone pays one sync for each.
	before = fs.FileSyncs()
	for n := uint64(1); n <= each; n++ {
		store(t, s.Group(99), entries(n, n, 1))
	}
	if alone := fs.FileSyncs() - before; alone < each || alone > each+1 {
		t.Errorf("%d commits of one group took %d syncs", each, alone)
	}
	if m := s.Metrics(); m.Syncs != uint64(fs.FileSyncs()) {
		t.Errorf("metrics count %d syncs, the disk %d", m.Syncs, fs.FileSyncs())
	}
}

func TestFailedSync_IsTerminal(t *testing.T) {
	t.Parallel()
	fs := &failingFS{FS: vfs.NewMem()}
	fatal := make(chan error, 16)
	var first atomic.Pointer[error]
	s, err := Open("log", Options{FS: fs, OnFatal: func(err error) {
		if first.CompareAndSwap(nil, &err) {
			return // To Pebble, which has to let go of its locks.
		}
		fatal <- err
		runtime.Goexit() // Stands in for the end of the process.
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Group(1)
	store(t, g, entries(1, 10, 1))

	fs.broken.Store(true)
	returns := func(f func() error) bool {
		returned := make(chan bool, 1)
		go func() {
			ok := false
			defer func() { returned <- ok }()
			_ = f()
			ok = true
		}()
		return <-returned
	}
	if returns(func() error { return g.StoreLogs(entries(11, 11, 1)) }) {
		t.Error("StoreLogs returned after a failed sync")
	}
	<-fatal
	if err := *first.Load(); !errors.Is(err, s.Err()) {
		t.Errorf("OnFatal got %v, Err is %v", err, s.Err())
	}

	// The disk works again, and still nothing may be written: the failed sync
	// may have dropped what it was to write.
	fs.broken.Store(false)
	for name, err := range map[string]error{
		"StoreLogs":   g.StoreLogs(entries(11, 11, 1)),
		"DeleteRange": g.DeleteRange(1, 5),
		"SyncProbe":   s.SyncProbe(),
	} {
		if err == nil || !errors.Is(err, s.Err()) {
			t.Errorf("%s after a failed sync: %v, want %v", name, err, s.Err())
		}
	}
	if returns(func() error { return g.Set([]byte("k"), nil) }) {
		t.Error("Set returned after a failed sync: raft panics then")
	}
	if last, err := g.LastIndex(); err != nil || last != 10 {
		t.Errorf("last index = %d, %v: the failed entry counts", last, err)
	}
	// Only for the leak check; a real process has ended.
	func() {
		defer func() { _ = recover() }()
		_ = s.Close()
	}()
}

// failVariable tells this test's binary to be a process whose disk fails at that sync.
const failVariable = "CORVO_RAFTLOG_FAIL"

// Whichever sync fails, also when Pebble begins another write-ahead log under two locks, and whether
// a new one can be made: the process ends with the status that says so, and not by Go's own hand.
func TestFailedDisk_EndsTheProcessWithItsStatus(t *testing.T) {
	if at := os.Getenv(failVariable); at != "" {
		failAt(t, at)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"sync", "create"} {
		for at := 1; ; at++ {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", failVariable, what, at))
			out, err := cmd.CombinedOutput()
			if err == nil { // It is past the last one.
				if at < 3 {
					t.Errorf("only %d times %s", at-1, what)
				}
				break
			}
			if code := cmd.ProcessState.ExitCode(); code != exitStorageFailed {
				t.Errorf("%s %d: exit code %d, want %d\n%.2000s", what, at, code, exitStorageFailed, out)
			}
		}
	}
}

// failAt fills four memtables on a disk of which one operation on a log fails.
func failAt(t *testing.T, at string) {
	var what string
	var left atomic.Int64
	var number int64
	if _, err := fmt.Sscan(at, &what, &number); err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]errorfs.OpKind{"sync": {errorfs.OpFileSync, errorfs.OpFileSyncData}, "create": {errorfs.OpCreate, errorfs.OpReuseForWrite}}[what]
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && slices.Contains(kinds, op.Kind) && left.Add(-1) == 0 {
			return syscall.EIO
		}
		return nil
	}))
	s, err := Open("log", Options{FS: fs, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	left.Store(number)
	big := entries(1, 16, 1)
	for i := range big {
		big[i].Data = make([]byte, 64<<10)
		if err := s.Group(1).StoreLogs(big[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A flipped bit in the synced part of the write-ahead log must not end the
// replay there as if the rest had never been written.
func TestCrash_AnyFlippedBitInTheWriteAheadLogIsRefused(t *testing.T) {
	t.Parallel()
	for name, synced := range map[string]uint64{"within one block": 6, "over several blocks": 30} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewCrashableMem()
			g := open(t, fs, Options{}).Group(1)
			for i := uint64(1); i <= synced; i++ {
				log := entry(i, 1, fmt.Sprintf("entry %d", i))
				if synced > 6 {
					log.Data = append(log.Data, make([]byte, 4000)...)
				}
				store(t, g, []*raft.Log{log})
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			wal := "log/" + writeAheadLog(t, crashed, "log")
			content := readFile(t, crashed, wal)
			end := len(bytes.TrimRight(content, "\x00"))
			step := max(1, end*8/600) // Every bit of a small log, a sample of a large one.
			if synced <= 6 {
				step = 1
			}
			for bit := 0; bit < end*8; bit += step {
				content[bit/8] ^= 1 << (bit % 8)
				damaged := crashed.CrashClone(vfs.CrashCloneCfg{})
				writeFile(t, damaged, wal, content)
				content[bit/8] ^= 1 << (bit % 8)
				refuseOrKeep(t, damaged, bit, synced)
			}
			// Whole again, it opens.
			if err := checkFiles(crashed, "log"); err != nil {
				t.Errorf("undamaged: %v", err)
			}
		})
	}
}

// refuseOrKeep checks that nothing was lost silently.
func refuseOrKeep(t *testing.T, fs vfs.FS, bit int, synced uint64) {
	t.Helper()
	err := checkFiles(fs, "log")
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d: %v", bit, err)
		}
		return
	}
	// Pebble itself has to notice, or lose nothing.
	quiet := slog.New(slog.DiscardHandler)
	s, err := Open("log", Options{FS: fs, Logger: quiet, OnFatal: func(err error) { panic(err) }})
	if err != nil {
		return
	}
	if last, err := s.Group(1).LastIndex(); err == nil && last != synced {
		t.Errorf("bit %d flipped: opened, log ends at %d of %d", bit, last, synced)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// crashedAfter20 is a disk after the power was lost behind entry 20, and the write-ahead log.
func crashedAfter20(t *testing.T) (disk *vfs.MemFS, name string, content []byte) {
	t.Helper()
	return crashedAfter(t, entries(1, 20, 1))
}

// crashedAfter is a disk after the power was lost behind these entries, and the write-ahead log.
func crashedAfter(t *testing.T, stored []*raft.Log) (disk *vfs.MemFS, name string, content []byte) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	g := open(t, fs, Options{}).Group(1)
	for i := range stored {
		store(t, g, stored[i:i+1])
	}
	disk = fs.CrashClone(vfs.CrashCloneCfg{})
	name = "log/" + writeAheadLog(t, disk, "log")
	return disk, name, readFile(t, disk, name)
}

// A write that the power loss tore is normal and must not be taken for damage.
func TestCrash_TornTailOpens(t *testing.T) {
	t.Parallel()
	crashed, name, content := crashedAfter20(t)
	at := bytes.Index(content, []byte("entry 20 of term 1"))
	if at < 0 {
		t.Fatal("entry 20 is not in the write-ahead log")
	}
	for cut := at - 60; cut < at+20; cut++ {
		for _, filler := range []byte{0, 0xff} {
			torn := bytes.Clone(content)
			for i := cut; i < len(torn); i++ {
				torn[i] = filler
			}
			damaged := crashed.CrashClone(vfs.CrashCloneCfg{})
			writeFile(t, damaged, name, torn)
			s, err := Open("log", Options{FS: damaged, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatalf("torn at %d with %#x: %v", cut, filler, err)
			}
			if last, err := s.Group(1).LastIndex(); err != nil || last < 19 {
				t.Errorf("torn at %d with %#x: log ends at %d, %v", cut, filler, last, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The power fails before any sync or change of a directory of a start, which writes a new manifest, and
// of a flush, which adds to it. What isn't synced may be lost page by page: the store opens all
// the same, because nothing confirmed is missing. Pebble writes the keys at both ends of each table
// into its manifest, so that long ones stand for many tables.
func TestCrash_AManifestThatIsBeingWrittenIsNotDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("opens some hundred stores")
	}
	t.Parallel()
	for name, keyBytes := range map[string]int{"some pages": 3000, "some blocks of 32 KiB": 20_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			fs, crashes := crashing(mem)
			s := open(t, mem, Options{})
			flushLongKey(t, s, 'a', keyBytes)
			flushLongKey(t, s, 'b', keyBytes)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, fs, Options{})
			flushLongKey(t, s, 'c', keyBytes)
			for _, crashed := range crashes() {
				s, err := Open("log", Options{FS: crashed.fs, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Errorf("before %s: %v", crashed.before, err)
					continue
				}
				if got, err := s.Group(1).Get(bytes.Repeat([]byte("b"), keyBytes)); err != nil || string(got) != "value" {
					t.Errorf("before %s: %q, %v", crashed.before, got, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Damage in the middle of a manifest makes Pebble forget the tables behind it, and delete them.
func TestCrash_DamagedStretchInTheManifestIsRefused(t *testing.T) {
	t.Parallel()
	for name, keyBytes := range map[string]int{"within one block": 10, "over several blocks": 20_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			s := open(t, fs, Options{})
			for i := range byte(3) {
				flushLongKey(t, s, 'a'+i, keyBytes)
			}
			s = reopen(t, s) // A new manifest, which begins with the three tables.
			flushLongKey(t, s, 'd', keyBytes)
			flushLongKey(t, s, 'e', 10)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			current, err := atomicfs.ReadMarker(fs, "log", "manifest")
			if err != nil {
				t.Fatal(err)
			}
			path := "log/" + current
			content := readFile(t, fs, path)
			last := bytes.LastIndex(content, bytes.Repeat([]byte("e"), 10)) - 100 // About where the last record begins.
			for at := 0; at < last; at += 1 + last/40 {
				damaged := bytes.Clone(content)
				for i := range 16 {
					damaged[at+i] ^= byte(i*37 + 1)
				}
				writeFile(t, fs, path, damaged)
				if err := checkFiles(fs, "log"); !errors.Is(err, ErrCorrupt) {
					t.Errorf("damaged at %d: %v, want ErrCorrupt", at, err)
				}
			}
			writeFile(t, fs, path, content)
			if err := checkFiles(fs, "log"); err != nil {
				t.Errorf("undamaged: %v", err)
			}
		})
	}
}

// flushLongKey makes a table of one value, whose key is so many times a letter.
func flushLongKey(t *testing.T, s *Store, letter byte, keyBytes int) {
	t.Helper()
	if err := s.Group(1).Set(bytes.Repeat([]byte{letter}, keyBytes), []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
}

// crash is what a power loss left.
type crash struct {
	before string
	fs     *vfs.MemFS
}

// crashing is mem for a store, and what power losses at each of its steps would have left so far.
func crashing(mem *vfs.MemFS) (fs vfs.FS, crashes func() []crash) {
	var mu sync.Mutex // Guards all.
	var all []crash
	steps := []errorfs.OpKind{errorfs.OpCreate, errorfs.OpRename, errorfs.OpRemove, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if slices.Contains(steps, op.Kind) {
			mu.Lock()
			defer mu.Unlock()
			seeds := uint64(1)
			if op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, "MANIFEST") {
				seeds = 16
			}
			for seed := range seeds {
				all = append(all, crash{fmt.Sprintf("step %d, of %s", len(all), op.Path), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, uint64(len(all))))})})
			}
		}
		return nil
	}))
	return fs, func() []crash {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// More than one flipped bit shows by the valid records after it.
func TestCrash_DamagedStretchInTheWriteAheadLogIsRefused(t *testing.T) {
	t.Parallel()
	crashed, name, content := crashedAfter20(t)
	last := bytes.Index(content, []byte("entry 19 of term 1"))
	for at := 0; at < last; at += 7 {
		damaged := bytes.Clone(content)
		for i := range 16 {
			damaged[at+i] = byte(i * 37)
		}
		writeFile(t, crashed, name, damaged)
		if _, err := Open("log", Options{FS: crashed, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("damaged at %d: %v, want ErrCorrupt", at, err)
		}
	}
}

func TestCrash_DamageOpensOnlyWithTheLossAccepted(t *testing.T) {
	t.Parallel()
	for name, bytesOfEach := range map[string]int{"in the last block": 0, "blocks before the last": 5000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := entries(1, 20, 1)
			for _, l := range stored {
				l.Data = append(l.Data, make([]byte, bytesOfEach)...)
			}
			crashed, name, content := crashedAfter(t, stored)
			content[bytes.Index(content, []byte("entry 10 of term 1"))] ^= 1
			writeFile(t, crashed, name, content)
			if _, err := Open("log", Options{FS: crashed, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrCorrupt) || !AcceptLossHelps(err) {
				t.Fatalf("open: %v, want ErrCorrupt, which the flag helps against", err)
			}
			wantLog(t, open(t, crashed, Options{AcceptLoss: true}).Group(1), stored[:9])
			if kept := readFile(t, crashed, name+".damaged"); !bytes.Equal(kept, content) {
				t.Errorf("of a log of %d bytes %d are kept", len(content), len(kept))
			}
		})
	}
}

// Without its manifest a store is nothing: there is no loss to accept.
func TestCrash_DamageOfTheManifestIsNoLossToAccept(t *testing.T) {
	t.Parallel()
	crashed, _, _ := crashedAfter20(t)
	manifest, err := atomicfs.ReadMarker(crashed, "log", "manifest")
	if err != nil {
		t.Fatal(err)
	}
	content := readFile(t, crashed, "log/"+manifest)
	content[10] ^= 1
	writeFile(t, crashed, "log/"+manifest, content)
	for _, accept := range []bool{false, true} {
		if _, err := Open("log", Options{FS: crashed, AcceptLoss: accept, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrCorrupt) || AcceptLossHelps(err) {
			t.Errorf("open, loss accepted %v: %v; it is said that accepting helps: %v", accept, err, AcceptLossHelps(err))
		}
	}
}

// What another process is writing may look damaged, and is not cut under it.
func TestCrash_ALogInUseIsNotCut(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	g := open(t, mem, Options{}).Group(1)
	for i := uint64(1); i <= 20; i++ {
		store(t, g, entries(i, i, 1))
	}
	name := "log/" + writeAheadLog(t, mem, "log")
	content := readFile(t, mem, name)
	content[bytes.Index(content, []byte("entry 10 of term 1"))] ^= 1
	writeFile(t, mem, name, content)
	if _, err := Open("log", Options{FS: mem, AcceptLoss: true, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrInUse) {
		t.Errorf("%v, want ErrInUse", err)
	}
	if now := readFile(t, mem, name); !bytes.Equal(now, content) {
		t.Error("the log was changed")
	}
}

// writeAheadLog is the name of the newest WAL in dir.
func writeAheadLog(t *testing.T, fs vfs.FS, dir string) (newest string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			newest = max(newest, name)
		}
	}
	return newest
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

func writeFile(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Clone(content)) // Write may change what it is given.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
