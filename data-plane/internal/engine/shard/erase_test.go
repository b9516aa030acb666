package shard

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// filesWith lists the files under a folder that have some bytes.
func filesWith(t *testing.T, fs vfs.FS, dir string, what []byte) (out []string) {
	t.Helper()
	list, err := fs.List(dir)
	if err != nil {
		return nil // A file.
	}
	for _, name := range list {
		path := filepath.Join(dir, name)
		if info, err := fs.Stat(path); err != nil || info.IsDir() {
			out = append(out, filesWith(t, fs, path, what)...)
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			continue // Removed since.
		}
		raw, err := io.ReadAll(f)
		if cerr := f.Close(); err != nil || cerr != nil {
			continue
		}
		if bytes.Contains(raw, what) {
			out = append(out, path)
		}
	}
	return out
}

// What a tenant put into a namespace that is deleted is in no file of a replica any more:
// neither in the tables of the store nor in the log.
func TestErase_NoFileHasWhatWasInADeletedNamespace(t *testing.T) {
	t.Parallel()
	cell := newDesired()
	disks := memDisks()
	r := startWith(t, disks, "data", raftlog.Options{}, Options{Namespaces: cell})
	defer func() { r.stop(t) }()
	gone, stays := job.Namespace([]byte("the deleted one.")), job.Namespace([]byte("the other, alive"))
	secret := []byte("what only the customer may know")
	for i, ns := range []job.Namespace{gone, stays} {
		for n := range byte(20) {
			c := &command.Enqueue{
				NS: ns, ID: job.ID{byte(i + 1), n}, Queue: "q", Retry: command.DefaultRetry(),
				Payload: []byte(`"` + strings.ToUpper(string(secret)) + `"`), Checkpoint: []byte(`"` + string(secret) + `"`),
			}
			if ns == stays {
				c.Payload, c.Checkpoint = []byte(`"a neighbour's"`), nil
			}
			r.must(t, Request{After: []command.Command{c}})
		}
		got := r.must(t, Request{Fetch: &Fetch{NS: ns, Queues: []string{"q"}, Count: 10, Worker: "w", Lease: time.Minute}})
		for _, g := range got.Grants {
			ack := &command.Ack{NS: ns, ID: g.ID}
			if ns == gone {
				ack.Result = []byte(`"` + string(secret) + `"`)
			}
			r.must(t, Request{Settle: []command.Command{ack}})
		}
	}
	if len(filesWith(t, disks.State, "", secret))+len(filesWith(t, disks.Log, "", secret)) == 0 {
		t.Fatal("nothing had it before")
	}
	cell.set(gone)
	<-cell.swept
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("it is in %v", left)
		}
	}()
	look := func() []string {
		left = append(filesWith(t, disks.State, "", secret), filesWith(t, disks.Log, "", secret)...)
		return left
	}
	r.must(t, Request{Fetch: &Fetch{NS: stays, Queues: []string{"q"}, Count: 10, Worker: "w", Lease: time.Minute}})
	if got := r.rows(t, stays); got == 0 {
		t.Fatal("the neighbour's rows are gone")
	}
	// A file of the write-ahead log that Pebble keeps for reuse goes with the process.
	r.stop(t)
	r = startWith(t, disks, "data", raftlog.Options{}, Options{Namespaces: cell, EraseEvery: 10 * time.Millisecond})
	erasing, enough := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Erase(erasing) }()
	eventually.True(t, patience, "no file has it any more", func() bool { return len(look()) == 0 })
	enough()
	<-done
}
