package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// exitStopped is the documented exit code of a node that needs attention.
const exitStopped = 70

// TestExit_DamagedDataEndsWithTheDocumentedCode damages the files of a node that was
// shut down. A supervisor that leaves a node alone after 70 must see 70 whichever
// store it is.
func TestExit_DamagedDataEndsWithTheDocumentedCode(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"raftlog", "state"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := rig.StartCell(t, rig.CellOptions{Nodes: 1})
			ctx := ctxFor(t, time.Minute)
			var jobs []string
			for range 200 {
				id, err := c.Tenant(0).Enqueue(ctx, "q", strings.Repeat("x", 500))
				if err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, id)
			}
			n := c.Nodes[0]
			for range 2 { // Started again, it has tables and not only logs.
				n.Signal(syscall.SIGTERM)
				if code := n.WaitExit(time.Minute); code != 0 {
					t.Fatalf("shut down with exit code %d", code)
				}
				n.Start()
				n.WaitReady(time.Minute)
			}
			n.Kill()
			damage(t, filepath.Join(n.Dir, store))
			if store == "raftlog" { // A state that is behind reads its log.
				if err := os.RemoveAll(filepath.Join(n.Dir, "state")); err != nil {
					t.Fatal(err)
				}
			}
			n.Start()
			// Damage is found when it is read; not everything is read at start.
			for next := 0; !n.Exited() && ctx.Err() == nil; next++ {
				_, _ = c.Tenant(0).Job(ctx, jobs[next%len(jobs)]) // Its answer does not matter.
			}
			if code := n.WaitExit(time.Minute); code != exitStopped {
				t.Errorf("a node with a damaged %s ended with exit code %d, want %d", store, code, exitStopped)
			}
		})
	}
}

// damage changes bytes in the middle of every file with data.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tables in %s: %v, %v", dir, files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(b) / 8; i < len(b)*6/8; i += 7 {
			b[i] ^= 0x5a
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exitConflict is the documented exit code of a start that no restart helps.
const exitConflict = 5

// A supervisor that restarts a node after every other code must not loop because of a
// wrong data folder.
func TestExit_AFolderThatIsNotTheNodesEndsWithTheDocumentedCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, file, taken := filepath.Join(dir, "secret"), filepath.Join(dir, "file"), filepath.Join(dir, "n1")
	for _, name := range []string{secret, file} {
		if err := os.WriteFile(name, []byte("a secret of the test's cell\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := func(id, data string) []string {
		at := rig.Addresses(t, 2)
		return []string{"node", "--id", id, "--data", data, "--raft", at[0], "--api", at[1], "--cell-secret-file", secret}
	}
	n1 := rig.Start(t, "n1", args("n1", taken)...)
	n1.WaitLog("cell form --nodes", time.Minute)
	n1.Kill()
	for what, cmd := range map[string][]string{
		"another node's folder": args("n2", taken),
		"a file":                args("n2", file),
		"a path through a file": args("n2", filepath.Join(file, "n2")),
		"a node's folder":       {"up", "--data", taken, "--listen", "127.0.0.1:0"},
	} {
		if _, talk, exit := rig.Run(t, time.Minute, cmd...); exit != exitConflict {
			t.Errorf("%s: exit code %d, want %d: %s", what, exit, exitConflict, talk)
		}
	}
}
