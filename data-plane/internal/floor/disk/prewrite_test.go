package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// aLog is a log on the system's disk, and what is appended to it.
type aLog struct {
	tb   testing.TB
	name string
	file vfs.File
	data []byte
}

func newLog(tb testing.TB) *aLog {
	tb.Helper()
	l := &aLog{tb: tb, name: filepath.Join(tb.TempDir(), "000002.log")}
	var err error
	if l.file, err = Prewriting(vfs.Default).Create(l.name, vfs.WriteCategoryUnspecified); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.file.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

func (l *aLog) append(n int) {
	l.tb.Helper()
	p := bytes.Repeat([]byte{byte(1 + len(l.data)%255)}, n)
	l.data = append(l.data, p...)
	if _, err := l.file.Write(p); err != nil {
		l.tb.Fatal(err)
	}
}

func (l *aLog) sync() {
	l.tb.Helper()
	if err := l.file.SyncData(); err != nil {
		l.tb.Fatal(err)
	}
}

// check finds everything appended, and nothing but zeros behind it. It is how many they are.
func (l *aLog) check() int {
	l.tb.Helper()
	have, err := os.ReadFile(l.name)
	if err != nil {
		l.tb.Fatal(err)
	}
	if !bytes.HasPrefix(have, l.data) {
		l.tb.Fatalf("of %d bytes appended, not all are in the file of %d", len(l.data), len(have))
	}
	rest := have[len(l.data):]
	if len(bytes.Trim(rest, "\x00")) > 0 {
		l.tb.Fatal("there is more than zeros behind what was appended")
	}
	return len(rest)
}

// What is appended stays, however small and large appends and syncs come after each other.
func TestPrewriting_NothingAppendedIsWrittenOver(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r, l := rand.New(rand.NewPCG(seed, 0)), newLog(t)
		for range 60 {
			size := 1 + r.IntN(600)
			if r.IntN(4) == 0 {
				size = 1 + r.IntN(3*prewriteMost)
			}
			if r.IntN(20) == 0 {
				size = 1 + r.IntN(2*prewriteBytes)
			}
			if l.append(size); r.IntN(2) == 0 {
				l.sync()
			}
			l.check()
		}
	}
}

func TestPrewriting_SmallSyncsDoNotMakeTheFileGrow(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	sizes := map[int]bool{}
	for range prewriteBytes / 512 {
		l.append(512)
		l.sync()
		sizes[len(l.data)+l.check()] = true
	}
	if len(sizes) != 1 {
		t.Errorf("the file had %d sizes: %v", len(sizes), sizes)
	}
}

func TestPrewriting_WhatIsSyncedInLargePiecesIsWrittenOnce(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	for range 20 {
		for range 3 { // Pebble writes what it has in blocks, and the rest of the last one.
			l.append(32 << 10)
		}
		l.append(100)
		l.sync()
	}
	if n := l.check(); n > 0 {
		t.Errorf("%d zeros were written ahead", n)
	}
}

// A log that Pebble recycles has its blocks.
func TestPrewriting_ReusedLogsArePrewrittenWhereTheyEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, name := filepath.Join(dir, "000002.log"), filepath.Join(dir, "000004.log")
	if err := os.WriteFile(old, bytes.Repeat([]byte{0xee}, 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Prewriting(vfs.Default).ReuseForWrite(old, name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	p := make([]byte, 5000)
	for _, want := range []int64{10000, 10000, 15000 + prewriteBytes} {
		if _, err := f.Write(p); err != nil {
			t.Fatal(err)
		}
		if size() != want {
			t.Errorf("the file has %d bytes, want %d", size(), want)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPrewriting_OnlyWhatIsAppendedTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	var zeros atomic.Int32
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			zeros.Add(1)
			return syscall.ENOSPC
		}
		return nil
	})
	f, err := Prewriting(errorfs.Wrap(vfs.NewMem(), full)).Create("000002.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(make([]byte, 100)); n != 100 || err != nil || zeros.Load() == 0 {
		t.Errorf("%d bytes were appended: %v", n, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Error(err)
	}
}

// Pebble opens a log that ends in zeros, wherever they begin.
func TestPrewriting_PebbleReadsWhatWasSyncedBeforeAPowerLoss(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	open := func(fs *vfs.MemFS) *pebble.DB {
		db, err := pebble.Open("log", &pebble.Options{FS: Prewriting(fs), Logger: noLogs{}, FormatMajorVersion: pebble.FormatWALSyncChunks})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(mem)
	key := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		size := r.IntN(700)
		if i%10 == 0 {
			size = r.IntN(70 << 10)
		}
		if err := db.Set(key(i), make([]byte, size), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		again := open(mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(100), RNG: r}))
		for k := range i + 1 {
			_, closer, err := again.Get(key(k))
			if err != nil {
				t.Fatalf("of %d records, the one of %d is missing: %v", i+1, k, err)
			}
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

type noLogs struct{}

func (noLogs) Infof(string, ...any)      {}
func (noLogs) Errorf(string, ...any)     {}
func (noLogs) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }

// BenchmarkPrewriting syncs 400 bytes at a time.
func BenchmarkPrewriting(b *testing.B) {
	for name, fs := range map[string]vfs.FS{"appended": vfs.Default, "prewritten": Prewriting(vfs.Default)} {
		b.Run(name, func(b *testing.B) {
			f, err := fs.Create(filepath.Join(b.TempDir(), "000002.log"), vfs.WriteCategoryUnspecified)
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 400)
			for b.Loop() {
				if _, err := f.Write(p); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
