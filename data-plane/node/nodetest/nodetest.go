// Package nodetest owns the nodes and cells that tests of any module start in their own process.
//
// It must not know what is asked of them. Surprising: a place's listeners are open before
// its node is, so that the nodes of a cell know each other's addresses from the start.
package nodetest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/loopback"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// Listen opens a free port of this machine.
func Listen(tb testing.TB) net.Listener {
	tb.Helper()
	return listenAt(tb, "127.0.0.1:0")
}

// Logger tells errors, and with CORVO_TEST_LOG everything.
func Logger() *slog.Logger {
	level := slog.LevelError
	if os.Getenv("CORVO_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// Place is where a node will be.
type Place struct {
	node.Peer
	Dir       string
	API, Raft net.Listener
}

// NewPlace makes a node's folder and opens its listeners.
func NewPlace(tb testing.TB, id string) Place {
	tb.Helper()
	host := loopback.Host() + ":0"
	api, raft := listenAt(tb, host), listenAt(tb, host)
	return Place{node.Peer{ID: id, RaftAddress: raft.Addr().String(), APIURL: "http://" + api.Addr().String()}, tb.TempDir(), api, raft}
}

// Leave closes the listeners: nobody is there. A node that starts later opens them again.
func (p *Place) Leave(tb testing.TB) {
	tb.Helper()
	if err := errors.Join(p.API.Close(), p.Raft.Close()); err != nil {
		tb.Fatal(err)
	}
	p.API, p.Raft = nil, nil
}

// Alone starts a node of one shard that asks for no key, ready, and stops it with the test.
func Alone(tb testing.TB) *node.Node {
	tb.Helper()
	n, err := Open(tb, tb.TempDir(), node.Open)
	if n != nil {
		tb.Cleanup(func() { Stop(tb, n) })
	}
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Open starts a node of one shard alone in dir, ready. Whoever opened it stops it.
func Open(tb testing.TB, dir string, access node.Access) (*node.Node, error) {
	tb.Helper()
	p := NewPlace(tb, "n1")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		ID: p.ID, Dir: dir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: access, Logger: Logger(),
	})
	if err != nil {
		return nil, errors.Join(err, p.API.Close(), p.Raft.Close())
	}
	if _, err := n.SettleAlone(ctx); err != nil {
		return n, err
	}
	return n, n.Ready(ctx)
}

// Stop ends a node as a signal does.
func Stop(tb testing.TB, n *node.Node) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx, true); err != nil {
		tb.Errorf("shutdown: %v", err)
	}
}
