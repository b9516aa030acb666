package node_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// The log may be on another disk than the data. Without it the data is refused, and not taken for a
// new folder.
func TestLogDir_BelongsToTheDataForLife(t *testing.T) {
	t.Parallel()
	dir, logDir := t.TempDir(), filepath.Join(t.TempDir(), "log")
	start := func(logDir string) (*node.Node, error) {
		p := nodetest.NewPlace(t, "n1")
		n, err := node.Start(t.Context(), node.Config{
			ID: p.ID, Dir: dir, LogDir: logDir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: nodetest.Logger(),
		})
		if err != nil {
			return nil, err
		}
		if _, err := n.SettleAlone(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n, n.Ready(t.Context())
	}
	n, err := start(logDir)
	if err != nil {
		t.Fatal(err)
	}
	status, job := call(t, "POST", n.URL()+"/api/v1/enqueue", map[string]any{"queue": "mail"})
	if status != http.StatusCreated {
		t.Fatalf("enqueue: %d %v", status, job)
	}
	nodetest.Stop(t, n)
	for path, there := range map[string]bool{
		filepath.Join(logDir, "raftlog"): true, filepath.Join(logDir, "ballast"): true, filepath.Join(dir, "state"): true, filepath.Join(dir, "ballast"): true,
		filepath.Join(dir, "raftlog"): false, filepath.Join(logDir, "state"): false,
	} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, other := range []string{"", filepath.Join(t.TempDir(), "other")} {
		if _, err := start(other); !errors.Is(err, node.ErrFolder) || !strings.Contains(err.Error(), logDir) {
			t.Errorf("with its log in %q: %v", other, err)
		}
	}
	if checked, err := node.CheckFolder(dir); err != nil || checked.Files < 4 {
		t.Errorf("a check finds the log by itself: %+v, %v", checked, err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := errors.Join(os.MkdirAll(moved, 0o700), os.Rename(filepath.Join(logDir, "raftlog"), filepath.Join(moved, "raftlog"))); err != nil {
		t.Fatal(err)
	}
	logDir = moved
	if n, err = start(logDir); err != nil {
		t.Fatal(err)
	}
	defer nodetest.Stop(t, n)
	if status, got := call(t, "GET", n.URL()+"/api/v1/jobs/"+job["job_id"].(string), nil); status != http.StatusOK {
		t.Errorf("the job: %d %v", status, got)
	}
}
