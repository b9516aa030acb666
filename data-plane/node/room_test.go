package node

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// New jobs are refused before a quorum depends on a nearly full disk, and leases before it
// depends on a full one.
func TestShortage_IsThatOfTheQuorum(t *testing.T) {
	t.Parallel()
	for disks, want := range map[string]string{ // ok, tight, full, away: one letter for each voter.
		"ooo": "[] []", "oot": "[] []", "oof": "[] []", "ooa": "[] []",
		"ott": "[2 3] []", "otf": "[2 3] []", "off": "[2 3] [2 3]",
		"ota": "[2] []", "ofa": "[2] [2]", "oaa": "[] []", "taa": "[1] []",
		"ttt": "[1 2 3] []", "fff": "[1 2 3] [1 2 3]",
		"ooott": "[] []", "oottt": "[3 4 5] []", "o": "[] []", "t": "[1] []", "f": "[1] [1]",
	} {
		var nodes []*cellv1.NodeStatus
		var voters []string
		for i, d := range disks {
			n := &cellv1.NodeStatus{Node: &cellv1.Node{Id: fmt.Sprint(i + 1)}, Reachable: d != 'a'}
			switch d {
			case 't':
				n.Causes = []*cellv1.HealthCause{{Reason: string(health.DiskTight)}}
			case 'f':
				n.Causes = []*cellv1.HealthCause{{Reason: string(health.DiskFull)}}
			}
			nodes, voters = append(nodes, n), append(voters, n.GetNode().GetId())
		}
		learner := &cellv1.NodeStatus{Node: &cellv1.Node{Id: "9"}, Reachable: true, Causes: []*cellv1.HealthCause{{Reason: string(health.DiskFull)}}}
		s := shortageOf(voters, append(nodes, learner))
		if got := fmt.Sprint(s.jobs, s.leases); got != want {
			t.Errorf("%s: %s, want %s", disks, got, want)
		}
	}
}

// Voters are asked again at every look, unless all of them said that they have ample room: then
// for the same shards only later.
func TestRoom_AmpleVotersAreAskedLess(t *testing.T) {
	t.Parallel()
	say := func(id string, reachable, ample bool) *cellv1.NodeStatus {
		return &cellv1.NodeStatus{Node: &cellv1.Node{Id: id}, Reachable: reachable, AmpleDisks: ample}
	}
	voters := []string{"1", "2"}
	for name, c := range map[string]struct {
		nodes []*cellv1.NodeStatus
		ample bool
	}{
		"both have":         {[]*cellv1.NodeStatus{say("1", true, true), say("2", true, true), say("3", true, false)}, true},
		"one has less":      {[]*cellv1.NodeStatus{say("1", true, true), say("2", true, false)}, false},
		"one is away":       {[]*cellv1.NodeStatus{say("1", true, true), say("2", false, true)}, false},
		"one has no record": {[]*cellv1.NodeStatus{say("1", true, true)}, false},
	} {
		if got := allAmple(voters, c.nodes); got != c.ample {
			t.Errorf("%s: ample %v, want %v", name, got, c.ample)
		}
	}

	var r room
	now, led := time.Now(), map[uint32][]string{2: voters}
	is := func(what string, led map[uint32][]string, after time.Duration, want bool) {
		t.Helper()
		if got := r.enough(led, now.Add(after)); got != want {
			t.Errorf("%s: enough is known: %v, want %v", what, got, want)
		}
	}
	is("nobody was asked", led, 0, false)
	r.learn(led, map[uint32]shortage{2: {}}, true, now)
	is("all have ample room", led, ampleFor-1, true)
	is("a while ago", led, ampleFor, false)
	is("another shard is led", map[uint32][]string{2: voters, 3: voters}, 0, false)
	is("another voter", map[uint32][]string{2: {"1", "3"}}, 0, false)
	is("one more voter", map[uint32][]string{2: {"1", "2", "3"}}, 0, false)
	is("another shard instead", map[uint32][]string{3: voters}, 0, false)
	r.learn(led, map[uint32]shortage{2: {}}, false, now)
	is("one has less", led, 0, false)
}

// As long as a disk that refused a write has no room for the ballast, the next write that is refused
// would end the process: the node must not lead again.
func TestDiskFull_LastsUntilTheBallastIsBack(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && refuse.Load() && (op.Path == "ballast" || op.Path == "first") {
			return syscall.ENOSPC
		}
		return nil
	}))
	quiet := slog.New(slog.DiscardHandler)
	n := &Node{cfg: Config{FS: fs}, fitness: health.New(quiet), logger: quiet}
	if err := n.layBallasts(); err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	if _, err := n.ballast.Create("first", vfs.WriteCategoryUnspecified); err == nil {
		t.Fatal("a file was made on a disk that makes none")
	}
	for range 2 {
		n.retryFullOnce()
		n.onSpace("", disk.SpaceOK, 40)
		if !n.fitness.Has(health.DiskFull) || n.ballast.Laid() {
			t.Errorf("without room for the ballast: causes %q, ballast %v", n.fitness, n.ballast.Laid())
		}
	}
	refuse.Store(false)
	n.retryFullOnce()
	if n.fitness.Has(health.DiskFull) || !n.ballast.Laid() {
		t.Errorf("with room: causes %q, ballast %v", n.fitness, n.ballast.Laid())
	}

	// At the levels above, the ballast waits.
	refuse.Store(true)
	n.onFull()
	n.onSpace("", disk.SpaceExhaust, 98)
	n.retryFullOnce()
	if !n.fitness.Has(health.DiskFull) {
		t.Errorf("full: causes %q", n.fitness)
	}
	n.onSpace("", disk.SpaceTight, 94)
	if n.fitness.Has(health.DiskFull) || !n.fitness.Has(health.DiskTight) {
		t.Errorf("nearly full: causes %q", n.fitness)
	}
}

func TestConfig_LogAndDataAreApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for logDir, ok := range map[string]bool{
		"": true, dir + "-log": true, filepath.Join(dir, "..", "elsewhere"): true, dir: false, filepath.Join(dir, "log"): false, filepath.Dir(dir): false,
	} {
		c := Config{Dir: dir, LogDir: logDir}
		if got := !strings.Contains(fmt.Sprint(c.check()), "the log's folder"); got != ok {
			t.Errorf("log in %q: allowed %v, want %v", logDir, got, ok)
		}
	}
}
