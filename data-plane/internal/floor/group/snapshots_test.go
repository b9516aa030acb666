package group

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// countedExports is a disk that counts the files of transfers.
type countedExports struct {
	vfs.FS
	made *atomic.Int64
}

func (d countedExports) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.Contains(name, "export-") {
		d.made.Add(1)
	}
	return d.FS.Create(name, c)
}

// sendingWire gives the test what raft sends to a follower.
type sendingWire struct {
	wire
	send func(install func() error, data io.Reader) error
}

func (w sendingWire) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return w.send(func() error { return w.wire.InstallSnapshot(id, target, args, resp, data) }, data)
}

// farBehind is a group of five of which two followers need the state; they are not
// running.
type farBehind struct {
	leader *replica
	others []*replica // The followers that are up.
	start  []setup    // The two that are not.
	made   atomic.Int64
}

func newFarBehind(t *testing.T, send func(install func() error, data io.Reader) error) *farBehind {
	t.Helper()
	f := &farBehind{}
	ids := []string{"n1", "n2", "n3", "n4", "n5"}
	var all []*replica
	setups := map[*replica]setup{}
	for _, id := range ids {
		d := memDisks()
		d.state = countedExports{d.state, &f.made}
		// With a lease of 75 ms, five replicas on a busy machine would lose their leader.
		s := setup{id: id, disks: d, bootstrap: ids, peers: all, heartbeat: time.Second, wrap: func(w wire) Transport { return sendingWire{w, send} }}
		r := mustOpen(t, s)
		setups[r] = s
		all = append(all, r)
	}
	f.leader = leaderOf(t, all...)
	f.leader.put(t, 5)
	for _, r := range all {
		switch {
		case r == f.leader:
		case len(f.start) < 2:
			r.stop(t)
			f.start = append(f.start, setups[r])
		default:
			f.others = append(f.others, r)
		}
	}
	f.leader.put(t, 50)
	f.leader.cutEverything(t)
	return f
}

// open starts the followers that are behind.
func (f *farBehind) open(t *testing.T) []*replica {
	t.Helper()
	up := append([]*replica{f.leader}, f.others...)
	var out []*replica
	for _, s := range f.start {
		s.peers = append(append([]*replica{}, up...), out...)
		out = append(out, mustOpen(t, s))
	}
	return out
}

// Two followers of a group that need the state at the same time are sent one file.
func TestSnapshot_FollowersOfAGroupShareOneTransfer(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup // Until both are being sent to, neither gets anything.
	both.Add(2)
	var calls, shared atomic.Int64 // shared: files written when both are being sent to.
	var f *farBehind
	f = newFarBehind(t, func(install func() error, _ io.Reader) error {
		n := calls.Add(1)
		if n == 2 {
			shared.Store(f.made.Load())
		}
		if n <= 2 {
			both.Done()
			both.Wait()
		}
		return install()
	})
	behind := f.open(t)
	for _, r := range behind {
		eventually.True(t, patience, "both catch up", func() bool { return r.AppliedIndex() >= f.leader.AppliedIndex() })
		if got, want := r.contents(t), f.leader.contents(t); got != want {
			t.Errorf("%s:\n%s\nleader:\n%s", r.id, got, want)
		}
	}
	// Raft may send again later to one whose answer it missed.
	if made := shared.Load(); made != 1 {
		t.Errorf("%d files were written for two transfers at a time, want one", made)
	}
	for _, r := range append(append(behind, f.others...), f.leader) {
		r.stop(t)
	}
}

// A transfer ends with the term or the replica of its sender, however slowly its
// receiver reads: raft would wait for it, also when it shuts down.
func TestSnapshot_ATransferEndsWithItsSender(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *farBehind){
		"the replica stops": func(t *testing.T, f *farBehind) { f.leader.stop(t) },
		"the term ends": func(t *testing.T, f *farBehind) {
			f.leader.wire.DisconnectAll()
			for _, r := range f.others {
				r.wire.Disconnect(raft.ServerAddress(f.leader.id))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			ended := make(chan error, 16)
			f := newFarBehind(t, func(_ func() error, data io.Reader) error {
				begin()
				for {
					if _, err := data.Read(make([]byte, 1)); err != nil {
						select {
						case ended <- err:
						default:
						}
						return err
					}
					time.Sleep(20 * time.Millisecond) // The slow receiver.
				}
			})
			f.start = f.start[:1]
			behind := f.open(t)
			<-begun
			end(t, f)
			select {
			case err := <-ended:
				if !errors.Is(err, statedb.ErrExportEnded) {
					t.Errorf("the transfer ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("the transfer goes on")
			}
			if name == "the term ends" {
				f.leader.stop(t)
			}
			for _, r := range append(behind, f.others...) {
				r.stop(t)
			}
		})
	}
}

// Raft waits for its goroutines when it shuts down; one that waits for the node's turn to
// send must not hold it up.
func TestSnapshot_WaitingForATurnEndsWithTheReplica(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	r.put(t, 3)
	for id := range uint32(2) {
		other := r.db.Group(100 + id)
		x, err := other.Export(context.Background(), appliedKey(other), func([]byte) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	waits := make(chan struct{})
	s := &snapshots{fsm: r.fsm, firstIndex: r.Group.log.FirstIndex, sending: func() (context.Context, context.CancelFunc) {
		defer close(waits)
		return r.sending()
	}}
	opened := make(chan error, 1)
	go func() {
		_, _, err := s.Open(liveID)
		opened <- err
	}()
	<-waits
	if err := r.Shutdown(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-opened:
		if !errors.Is(err, statedb.ErrExportEnded) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("it still waits")
	}
	r.closeStores(t)
}

// A follower for whom the log goes on where a transfer ends may share it; if entries are
// missing between them it would only have to be sent the state again.
func TestSnapshot_ATransferIsSharedWhileTheLogGoesOnFromIt(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	s := &snapshots{fsm: r.fsm, firstIndex: r.Group.log.FirstIndex, sending: r.sending}
	open := func() (uint64, io.Closer) {
		t.Helper()
		meta, rc, err := s.Open(liveID)
		if err != nil {
			t.Fatal(err)
		}
		return meta.Index, rc
	}
	at := r.put(t, 3)
	first, a := open()
	r.put(t, 3)
	second, b := open()
	if first != at || second != at {
		t.Errorf("transfers at %d and %d, want both at %d", first, second, at)
	}
	r.cutEverything(t)
	at = r.put(t, 3)
	third, c := open()
	if third != at {
		t.Errorf("after the log was cut the transfer stands at %d, want %d", third, at)
	}
	for _, x := range []io.Closer{a, b, c} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	r.stop(t)
}
