package node_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// A start that the disk's own errors end says that it is the disk, so that no supervisor
// starts it again and again: whatever was asked of the disk, in a new folder and in an old one.
func TestStart_ABadDiskIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	used := tempFolder(t)
	n, err := nodetest.Open(t, used, node.Open)
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Stop(t, n)
	kinds := map[string]errorfs.OpKind{
		"make a folder": errorfs.OpMkdirAll, "create": errorfs.OpCreate, "write": errorfs.OpFileWrite, "read": errorfs.OpFileRead, "read at": errorfs.OpFileReadAt,
		"open": errorfs.OpOpen, "list": errorfs.OpList, "rename": errorfs.OpRename, "sync": errorfs.OpFileSync,
	}
	for what, kind := range kinds {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/fresh=%v", what, fresh), func(t *testing.T) {
				t.Parallel()
				dir := tempFolder(t)
				if !fresh {
					copyFolder(t, used, dir)
				}
				switch err := startOn(t, dir, kind); {
				case err == nil:
					t.Log("it starts without")
				case errors.Is(err, syscall.EIO) && !errors.Is(err, node.ErrStorage):
					t.Errorf("not said to be the disk: %v", err)
				default:
					t.Log(err)
				}
			})
		}
	}
}

// startOn is how a start ends on a disk that refuses a kind of operation; nil if it goes well.
// What would end the process is the disk's, and comes as one.
func startOn(t *testing.T, dir string, kind errorfs.OpKind) error {
	t.Helper()
	p := nodetest.NewPlace(t, "n1")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 16)
	go func() {
		n, err := node.Start(ctx, node.Config{
			ID: p.ID, Dir: dir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: nodetest.Logger(),
			FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind {
					return syscall.EIO
				}
				return nil
			})),
			Fatal: func(err error) { ended <- fmt.Errorf("%w: %w", node.ErrStorage, err); select {} }, // The process would end with the code for it.
		})
		if err == nil {
			_, err = n.SettleAlone(ctx)
			nodetest.Stop(t, n)
		}
		ended <- err
	}()
	return <-ended
}
