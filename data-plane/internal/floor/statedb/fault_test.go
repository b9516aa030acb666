package statedb

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// pour commits until more than one memtable is full, or done.
func pour(t *testing.T, g *Group, done <-chan struct{}) {
	t.Helper()
	prefix := g.Prefix()
	value := make([]byte, 4<<10)
	for i := range uint32(4096) {
		select {
		case <-done:
			return
		default:
		}
		txn := g.NewTxn()
		txn.Set(binary.BigEndian.AppendUint32(append(prefix[:], 0x40), i), value)
		if _, err := txn.EndEntry(0, uint64(i+1)); err != nil {
			t.Error(err)
		}
		if err := txn.Commit(); err != nil {
			t.Error(err)
		}
	}
}

func small(fs vfs.FS) Options {
	return Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 256 << 10}
}

// A failed flush was tried again for ever, while raft led on and the log grew.
func TestFlush_ThatFailsEndsTheNode(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk refuses")
	var failing atomic.Bool
	o := small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return broken
		}
		return nil
	})))
	ended := make(chan error, 1)
	done := make(chan struct{})
	o.OnFatal = func(err error) {
		failing.Store(false) // The store has to be closed.
		select {
		case ended <- err:
			close(done)
		default:
		}
	}
	db, err := Open("state", o)
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	pour(t, db.Group(1), done)
	select {
	case err := <-ended:
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v, want %v", err, broken)
		}
	case <-time.After(20 * time.Second):
		t.Error("a flush that fails ends nothing")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWatch_SpansACommitThatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var blocking atomic.Bool
	o := small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if blocking.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-gate
		}
		return nil
	})))
	var begun, ended atomic.Int64
	o.Watch = func(op string) func() {
		if op != OpCommit {
			t.Errorf("operation %q", op)
		}
		begun.Add(1)
		return func() { ended.Add(1) }
	}
	db, err := Open("state", o)
	if err != nil {
		t.Fatal(err)
	}
	blocking.Store(true)
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		pour(t, db.Group(1), nil)
	}()
	// Every memtable is full and none can be flushed: the commit under way stays.
	deadline := time.Now().Add(20 * time.Second)
	for seen := int64(-1); begun.Load() != ended.Load()+1 || begun.Load() != seen; {
		if time.Now().After(deadline) {
			t.Fatal("no commit waits")
		}
		seen = begun.Load()
		time.Sleep(20 * time.Millisecond) // Twice the same picture: it waits.
	}
	blocking.Store(false)
	close(gate)
	<-filled
	if begun.Load() != ended.Load() {
		t.Errorf("%d commits began, %d ended", begun.Load(), ended.Load())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A full disk ended the node with a panic of Pebble, which has the exit code of a wrong command line.
func TestWrite_OfTheLogThatFailsEndsTheNode(t *testing.T) {
	t.Parallel()
	broken := errors.New("no space left")
	var failing atomic.Bool
	o := small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			return broken
		}
		return nil
	})))
	ended := make(chan error, 1)
	o.OnFatal = func(err error) {
		select {
		case ended <- err:
		default:
		}
		select {} // The process would be gone.
	}
	db, err := Open("state", o)
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	go pour(t, db.Group(1), nil)
	select {
	case err := <-ended:
		if !strings.Contains(err.Error(), broken.Error()) {
			t.Errorf("ended with %v, want %v", err, broken)
		}
	case <-time.After(20 * time.Second):
		t.Error("a write that fails ends nothing")
	}
}
