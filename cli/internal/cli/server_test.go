package cli

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

// What a namespace can keep, a node alone can keep.
func TestServer_EveryRetentionHasAFlag(t *testing.T) {
	t.Parallel()
	var f serverFlags
	c := &cobra.Command{}
	f.register(c)
	if err := c.ParseFlags([]string{
		"--retention-completed=1h", "--retention-dead=2h", "--retention-cancelled=3h", "--retention-finished-max=4",
		"--retention-events=5h", "--retention-events-bytes-max=6", "--retention-usage=7d",
	}); err != nil {
		t.Fatal(err)
	}
	want := retention.Policy{
		Finished: retention.Finished{Completed: time.Hour, Dead: 2 * time.Hour, Cancelled: 3 * time.Hour, Max: 4},
		Events:   5 * time.Hour, EventsBytes: 6, Usage: 7 * 24 * time.Hour,
	}
	if f.keep != want {
		t.Errorf("got %+v, want %+v", f.keep, want)
	}
	if err := c.ParseFlags([]string{"--retention-usage=30s"}); err == nil {
		t.Error("usage can be kept for half a minute")
	}
}

// A wrong data folder is not initialized again, and a supervisor does not loop.
func TestServer_AFolderThatIsNotItsOwnIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, cloud := filepath.Join(dir, "file"), filepath.Join(dir, "up")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(cloud, 0o700),
		os.WriteFile(filepath.Join(cloud, "VERSION"), []byte("corvo-cloud up 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{file, filepath.Join(file, "below"), cloud} {
		f := serverFlags{bind: "127.0.0.1:0", dataDir: data, nodeID: "node-1", raftShards: 1, maxPayloadSize: 1 << 10}
		err := runServer(t.Context(), f, slog.New(slog.DiscardHandler), serverEvents{})
		if err == nil {
			t.Fatalf("%s: it ran", data)
		}
		var failure *Failure
		if !errors.As(err, &failure) {
			failure = nodeFailure(err)
		}
		if failure.Exit != ExitConflict {
			t.Errorf("%s: exit code %d: %v", data, failure.Exit, failure)
		}
	}
	if left, err := os.ReadDir(cloud); err != nil || len(left) != 1 {
		t.Errorf("the folder has %d files now, %v", len(left), err)
	}
}

// Not parallel: the limit is the process's.
func TestServer_LimitsItsMemoryUnlessTheEnvironmentDoes(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	for _, env := range []string{"", "1GiB"} {
		debug.SetMemoryLimit(math.MaxInt64)
		exit := Main(t.Context(), []string{"server", "--raft-shards", "0"}, Process{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Env: func(name string) string {
			if name == "GOMEMLIMIT" {
				return env
			}
			return ""
		}})
		if exit != ExitUsage {
			t.Fatalf("exit %d, want a refusal", exit)
		}
		if limited := debug.SetMemoryLimit(-1) < math.MaxInt64; limited != (env == "") {
			t.Errorf("with GOMEMLIMIT=%q: limited: %v", env, limited)
		}
	}
}
