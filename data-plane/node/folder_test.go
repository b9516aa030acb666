package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// A node that took another's folder, or one whose votes are gone with its log, for its own
// would break promises that it doesn't know of (R11).
func TestFolder_OfAnotherNodeOrWithoutItsLogIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.Stop(t, alone(t, dir))
	start := func(id string, others ...string) error {
		p := nodetest.NewPlace(t, id)
		cfg := node.Config{ID: id, Dir: dir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: nodetest.Logger()}
		for _, other := range others {
			cfg.Peers = append(cfg.Peers, nodetest.NewPlace(t, other).Peer)
			cfg.Access, cfg.Secrets = node.Signed, cellsecret.Must([]byte("the secret of a cell"))
		}
		n, err := node.Start(t.Context(), cfg)
		if err == nil {
			nodetest.Stop(t, n)
		}
		return err
	}
	if err := start("other"); !errors.Is(err, node.ErrFolder) || !strings.Contains(err.Error(), "not to node other") {
		t.Errorf("another node's folder: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "raftlog")); err != nil {
		t.Fatal(err)
	}
	if err := start("n1"); !errors.Is(err, group.ErrLogLost) {
		t.Errorf("alone, without its log: %v", err)
	}
	if err := start("n1", "n2", "n3"); !errors.Is(err, node.ErrWiped) {
		t.Errorf("one of three, without its log: %v", err)
	}
}
