package conformance_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/cli/conformance"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// Every rule holds over every protocol on a node alone.
func TestConformance_OneNode(t *testing.T) {
	t.Parallel()
	conformance.Run(t, startNode(t), "", conformance.Options{Whole: true})
}

func startNode(t *testing.T) string {
	t.Helper()
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	api, raft := listen(), listen()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		ID: "n1", Dir: t.TempDir(), API: api, Raft: raft, Shards: 1, Access: node.Open, Logger: slog.New(slog.DiscardHandler),
		Peers: []node.Peer{{ID: "n1", RaftAddress: raft.Addr().String(), APIURL: "http://" + api.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx, true); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	if _, err := n.SettleAlone(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n.URL()
}
