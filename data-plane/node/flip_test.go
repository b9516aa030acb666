package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// flipsOfAFile is how many places of each file are tried.
const flipsOfAFile = 6

// One bit of any file of a node's folder is flipped while the node is stopped: either the start, a
// read or a scrub names the file, or nothing that a client sees is different.
func TestFlip_InAnyFileOfAFolderIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := fillFolder(t, dir)
	kinds := map[string]int{}
	var files []string
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if info, ierr := e.Info(); err == nil && ierr == nil && info.Mode().IsRegular() && info.Size() > 0 && e.Name() != "ballast" {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name, _ := filepath.Rel(dir, path)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kinds[kindOf(name)]++
		for i := range flipsOfAFile {
			bit := (len(content)*8 - 1) * i / (flipsOfAFile - 1)
			t.Run(fmt.Sprintf("%s/%d", name, bit), func(t *testing.T) {
				t.Parallel()
				copied := tempFolder(t)
				copyFolder(t, dir, copied)
				flipped := append([]byte(nil), content...)
				flipped[bit/8] ^= 1 << (bit % 8)
				if err := os.WriteFile(filepath.Join(copied, name), flipped, 0o600); err != nil {
					t.Fatal(err)
				}
				switch got, noticed := openFolder(t, copied); {
				case noticed != nil && !strings.Contains(noticed.Error(), filepath.Base(name)):
					t.Errorf("the file isn't named: %v", noticed)
				case noticed != nil:
					t.Log(noticed)
				case got != want:
					t.Errorf("not noticed, and clients see %s", difference(got, want))
				}
			})
		}
	}
	for _, kind := range []string{"raftlog *.log", "raftlog *.sst", "raftlog MANIFEST", "raftlog OPTIONS", "state *.log", "state *.sst", "state MANIFEST", "state OPTIONS", "readmodel *.db"} {
		if kinds[kind] == 0 {
			t.Errorf("the folder has no %s; it has %v", kind, kinds)
		}
	}
}

// difference shows where two texts begin to differ.
func difference(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	part := func(text string) string { return text[max(0, at-80):min(len(text), at+80)] }
	return fmt.Sprintf("%q, which was %q", part(got+"  "), part(want+"  "))
}

func kindOf(name string) string {
	dir, file := filepath.Split(name)
	if at := strings.IndexByte(file, '-'); at > 0 {
		return filepath.Clean(dir) + " " + file[:at]
	}
	return filepath.Clean(dir) + " *" + filepath.Ext(file)
}

// fillFolder makes a folder with every kind of file and returns what clients see of it.
func fillFolder(t *testing.T, dir string) string {
	t.Helper()
	for round := range 4 { // A start flushes what it replays into tables.
		n := alone(t, dir)
		for i := range 20 {
			job := map[string]any{"queue": fmt.Sprintf("q%d", i%3), "payload": map[string]any{"text": strings.Repeat("x", 50), "n": i}, "tags": map[string]string{"round": fmt.Sprint(round)}}
			if status, body := call(t, "POST", n.URL()+"/api/v1/enqueue", job); status != http.StatusCreated {
				t.Fatalf("enqueue: %d %v", status, body)
			}
		}
		if round == 3 {
			awaitLists(t, n)
			seen := clientsSee(t, n)
			nodetest.Stop(t, n)
			return seen
		}
		nodetest.Stop(t, n)
	}
	return ""
}

func awaitLists(t *testing.T, n *node.Node) {
	t.Helper()
	eventually.True(t, 20*time.Second, "the lists", func() bool {
		_, text := get(t, n.URL()+"/api/v1/jobs?limit=100")
		return strings.Count(text, `"id":"job_`) == 80 && !strings.Contains(text, "rebuilding\":true")
	})
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return callWithKey(t, "GET", url, "")
}

// clientsSee is what a client reads: lists, queues, and each job.
func clientsSee(t *testing.T, n *node.Node) string {
	t.Helper()
	var out strings.Builder
	_, list := get(t, n.URL()+"/api/v1/jobs?limit=100")
	_, queues := get(t, n.URL()+"/api/v1/queues")
	fmt.Fprintln(&out, list, queues)
	for _, part := range strings.Split(list, `"id":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		_, one := get(t, n.URL()+"/api/v1/jobs/"+id)
		fmt.Fprintln(&out, one)
	}
	return moving.ReplaceAllString(out.String(), "")
}

// moving is what differs from call to call.
var moving = regexp.MustCompile(`"(as_of|duration_ms|lag_ms)":[^,}]*`)

// tempFolder is removed when the node that would have ended writes no more into it.
func tempFolder(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "flip")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually.True(t, 20*time.Second, "the folder to be removed", func() bool { return os.RemoveAll(parent) == nil })
	})
	return filepath.Join(parent, "n1")
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || e.IsDir() || e.Name() == "ballast" {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, filepath.Dir(rel)), 0o700))
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.MkdirAll(filepath.Join(to, filepath.Dir(rel)), 0o700), os.WriteFile(filepath.Join(to, rel), b, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openFolder starts a node and returns what clients see, or what was noticed.
func openFolder(t *testing.T, dir string) (seen string, noticed error) {
	t.Helper()
	p := nodetest.NewPlace(t, "n1")
	fatal := make(chan error, 16)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var talk syncBuffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Where the process would have ended, Pebble goes on, and may find itself inconsistent.
		defer func() {
			if r := recover(); r != nil {
				noticed = fmt.Errorf("panic: %v", r)
				select {
				case noticed = <-fatal:
				default:
				}
			}
		}()
		n, err := node.Start(ctx, node.Config{
			ID: p.ID, Dir: dir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: slog.New(slog.NewTextHandler(&talk, nil)),
			Fatal: func(err error) { fatal <- err; select {} }, // The process would end.
		})
		if err != nil {
			noticed = err
			return
		}
		defer nodetest.Stop(t, n)
		if _, err := n.SettleAlone(ctx); err != nil {
			noticed = err
			return
		}
		if err := errors.Join(n.Ready(ctx), n.Scrub(ctx, -1)); err != nil {
			noticed = err
			return
		}
		if text := talk.String(); strings.Contains(text, "is damaged") {
			noticed = errors.New(text)
			return
		}
		awaitLists(t, n)
		seen = clientsSee(t, n)
	}()
	select {
	case <-done:
		return seen, noticed
	case err := <-fatal:
		return "", err
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex // Guards b.
	b  strings.Builder
}

// Write implements io.Writer.
func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// While a node runs, a scrub finds a flipped bit in what nobody reads, and names the file: in
// the log, in status, and as a reason not to lead, until the file is whole again.
func TestScrub_FindsAFlippedBitWhileTheNodeRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fillFolder(t, dir)
	var talk syncBuffer
	p := nodetest.NewPlace(t, "n1")
	n, err := node.Start(t.Context(), node.Config{
		ID: p.ID, Dir: dir, API: p.API, Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: slog.New(slog.NewTextHandler(&talk, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nodetest.Stop(t, n)
	if _, err := n.SettleAlone(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLists(t, n)
	if s := scrubShown(t, n); s != nil {
		t.Errorf("before the first, cluster/status shows %+v", s)
	}
	scrub := func() {
		t.Helper()
		if err := n.Scrub(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
	}
	scrub()
	if causes := n.Causes(); causes != "" || n.LastScrub().GetFiles() < 8 {
		t.Fatalf("whole: %q, %v", causes, n.LastScrub())
	}
	if s := scrubShown(t, n); s == nil || s.Files < 8 || s.Bytes < 10_000 || time.Since(s.EndedAt) > time.Minute || len(s.DamagedFiles)+len(s.RebuiltFiles) > 0 {
		t.Errorf("cluster/status shows %+v", s)
	}
	for _, pattern := range []string{"raftlog/*.sst", "raftlog/MANIFEST-*", "raftlog/*.log", "state/*.sst", "state/MANIFEST-*"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(paths) == 0 {
			t.Errorf("no %s", pattern)
			continue
		}
		path := paths[len(paths)-1] // Of manifests, the one in use.
		flip(t, path, 100)
		scrub()
		if causes := n.Causes(); !strings.Contains(causes, "damaged_file ("+path+")") || !strings.Contains(talk.String(), path) {
			t.Errorf("%s: causes %q, log %s", pattern, causes, talk.String())
		}
		if got := n.LastScrub().GetDamagedFiles(); len(got) != 1 || got[0] != path {
			t.Errorf("%s: status names %q", pattern, got)
		}
		if s := scrubShown(t, n); len(s.DamagedFiles) != 1 || s.DamagedFiles[0] != path {
			t.Errorf("%s: cluster/status shows %+v", pattern, s)
		}
		flip(t, path, 100)
		scrub()
		if causes := n.Causes(); causes != "" {
			t.Errorf("%s, whole again: %q", pattern, causes)
		}
	}
	models, _ := filepath.Glob(filepath.Join(dir, "readmodel/*.db"))
	if len(models) != 1 {
		t.Fatalf("the read models are %q", models)
	}
	flip(t, models[0], 4096) // The kind of its second page, which connections of queries have in memory.
	scrub()
	if s := scrubShown(t, n); len(s.RebuiltFiles) != 1 || s.RebuiltFiles[0] != models[0] || len(s.DamagedFiles) > 0 || n.Causes() != "" || !strings.Contains(talk.String(), models[0]) {
		t.Errorf("a damaged read model: %+v, causes %q, log %s", s, n.Causes(), talk.String())
	}
	awaitLists(t, n)
	scrub()
	if s := scrubShown(t, n); len(s.RebuiltFiles) > 0 {
		t.Errorf("made again, it is damaged: %+v", s)
	}
}

// scrubShown is what GET cluster/status says of the last scrub; nil if there was none.
func scrubShown(t *testing.T, n *node.Node) *wire.ScrubStatus {
	t.Helper()
	return statusShown(t, n).Scrub
}

func statusShown(t *testing.T, n *node.Node) wire.ClusterStatus {
	t.Helper()
	res, err := http.Get(n.URL() + "/api/v1/cluster/status")
	if err != nil {
		t.Fatal(err)
	}
	var st wire.ClusterStatus
	if err := errors.Join(json.NewDecoder(res.Body).Decode(&st), res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return st
}

// flip flips the lowest bit of a byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 1
	_, werr := f.WriteAt(b[:], at)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}
