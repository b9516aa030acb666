package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/node"
)

// cellOf starts nodes that form a cell, or start again, in the given directories.
type cellRig struct {
	t     *testing.T
	dirs  []string
	peers []node.Peer
	lns   [][2]net.Listener
	nodes []*node.Node
	// change, if set, adjusts a node's configuration before it starts.
	change func(i int, c *node.Config)
}

func newCellRig(t *testing.T, n int) *cellRig {
	t.Helper()
	r := &cellRig{t: t, nodes: make([]*node.Node, n)}
	root := t.TempDir()
	for i := range n {
		api, raft := listen(t), listen(t)
		r.lns = append(r.lns, [2]net.Listener{api, raft})
		r.dirs = append(r.dirs, filepath.Join(root, fmt.Sprint(i)))
		r.peers = append(r.peers, node.Peer{ID: fmt.Sprintf("n%d", i+1), RaftAddress: raft.Addr().String(), APIURL: "http://" + api.Addr().String()})
	}
	return r
}

func (r *cellRig) start(i int) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	if r.nodes[i] != nil || r.lns[i][0] == nil {
		r.t.Fatal("node is running or has no listeners")
	}
	cfg := node.Config{
		ID: r.peers[i].ID, Dir: r.dirs[i], API: r.lns[i][0], Raft: r.lns[i][1],
		Peers: r.peers, Secret: []byte("a secret of at least sixteen bytes"), Logger: quiet(),
	}
	if r.change != nil {
		r.change(i, &cfg)
	}
	n, err := node.Start(ctx, cfg)
	r.lns[i] = [2]net.Listener{}
	if err == nil {
		r.nodes[i] = n
	}
	return err
}

// relisten takes new listeners at the node's old addresses.
func (r *cellRig) relisten(i int) {
	r.t.Helper()
	for j, addr := range []string{r.peers[i].APIURL[len("http://"):], r.peers[i].RaftAddress} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			r.t.Fatal(err)
		}
		r.lns[i][j] = ln
	}
}

func (r *cellRig) stop(i int) {
	r.t.Helper()
	if r.nodes[i] != nil {
		stop(r.t, r.nodes[i])
		r.nodes[i] = nil
	}
}

func TestNode_WithAWipedDirectoryIsRefusedUnderItsOldID(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	for i := range 3 {
		if err := r.start(i); err != nil {
			t.Fatal(err)
		}
		defer r.stop(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, n := range r.nodes {
		if err := n.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.nodes[2].WaitAnnounced(ctx); err != nil {
		t.Fatal(err)
	}
	r.stop(2)
	// With its directory it comes back.
	r.relisten(2)
	if err := r.start(2); err != nil {
		t.Fatalf("restart: %v", err)
	}
	r.stop(2)
	if err := os.RemoveAll(r.dirs[2]); err != nil {
		t.Fatal(err)
	}
	r.relisten(2)
	if err := r.start(2); !errors.Is(err, node.ErrWiped) {
		t.Fatalf("start with an empty directory: %v, want ErrWiped", err)
	}
}
