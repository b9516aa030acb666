package upgrade

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	startLimit  = 30 * time.Second
	leaderLimit = 20 * time.Second
	goneLimit   = 40 * time.Second
	settleLimit = 60 * time.Second
	// exitVersion is the code of a program that is too old (docs/operations.md).
	exitVersion = 78
	// enqueuesEach are acknowledged under each leader, at least.
	enqueuesEach = 50
)

// long says whether to go back and forth more than once.
func long() bool { return os.Getenv("CORVO_TEST_LONG") != "" }

// Two builds take turns as leader under load. Nodes are upgraded one by one, go back, and are
// upgraded again; then the version is raised, and the older build is refused. Replicas
// stay equal all the time, and nothing acknowledged is lost.
func TestUpgrade_NodeByNodeBackAndForthAndThenForGood(t *testing.T) {
	cell := rig.StartCell(t, rig.CellOptions{Binary: older})
	u := &upgrade{t: t, cell: cell, history: rig.NewHistory(), digests: map[at]map[string]uint64{}}
	load := u.load()
	u.wantVersion(1)

	rounds := 1
	if long() {
		rounds = 5
	}
	for range rounds {
		u.replace(newer, 0, 1)
		u.leadEach() // Of both builds.
		u.refusesToRaise()
		u.replace(newer, 2)
		u.leadEach()
		u.wantVersion(1) // Nobody said that it shall change.
		u.replace(older, 1, 2)
		u.leadEach()
		u.replace(older, 0)
		u.leadEach()
		load.Stop()
		u.equal()
		load = u.load()
	}

	u.replace(newer, 0, 1, 2)
	u.raise()
	u.leadEach()
	u.wantVersion(nextVersion)
	u.refusesOlder(1)
	u.restart(2) // Killed, it applies again what it had not kept.
	u.leadEach()

	load.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	u.history.Audit(ctx, t, cell.Tenant(0))
	u.equal()
	enqueued, acked := u.history.Counts()
	t.Logf("%d enqueues and %d ends acknowledged", enqueued, acked)
}

type upgrade struct {
	t       *testing.T
	cell    *rig.Cell
	history *rig.History
	digests map[at]map[string]uint64 // What each node reported.
}

// at is a position in a group's log.
type at struct {
	group uint32
	index uint64
}

func (u *upgrade) load() *rig.Load {
	return rig.StartLoad(u.history, rig.LoadOptions{Pace: 20 * time.Millisecond}, u.cell.Tenant(0))
}

// replace starts other programs in the folders of some nodes, one node after the other.
func (u *upgrade) replace(binary string, nodes ...int) {
	u.t.Helper()
	for _, i := range nodes {
		n := u.cell.Nodes[i]
		n.Signal(syscall.SIGTERM)
		if code := n.WaitExit(goneLimit); code != 0 {
			u.t.Fatalf("%s ended with code %d:\n%s", n.ID, code, n.Stderr())
		}
		n.Binary = binary
		n.Start()
		n.WaitReady(startLimit)
		u.look()
	}
}

// restart kills a node and starts it again.
func (u *upgrade) restart(i int) {
	u.t.Helper()
	n := u.cell.Nodes[i]
	n.Kill()
	n.Start()
	n.WaitReady(startLimit)
}

// leadEach lets every node lead the shard for a while.
func (u *upgrade) leadEach() {
	u.t.Helper()
	for _, n := range u.cell.Nodes {
		eventually.True(u.t, leaderLimit, "lead of "+n.ID, func() bool {
			_, _, exit := u.cell.Command("transfer", "--group", fmt.Sprint(u.cell.Shard), "--to", n.ID)
			return exit == 0
		})
		before, _ := u.history.Counts()
		eventually.True(u.t, leaderLimit, "enqueues under "+n.ID, func() bool {
			now, _ := u.history.Counts()
			return now >= before+enqueuesEach
		})
		u.look()
	}
}

func (u *upgrade) refusesToRaise() {
	u.t.Helper()
	_, stderr, exit := u.cell.Command("raise-version", "--to", fmt.Sprint(nextVersion))
	if exit == 0 || !strings.Contains(stderr, "n3 speaks version 1 only") {
		u.t.Fatalf("raised while a node runs the older program: exit %d, %s", exit, stderr)
	}
}

func (u *upgrade) raise() {
	u.t.Helper()
	if stdout, stderr, exit := u.cell.Command("raise-version"); exit != 0 || !strings.Contains(stdout, fmt.Sprint("version ", nextVersion)) {
		u.t.Fatalf("raise: exit %d, %s%s", exit, stdout, stderr)
	}
}

// refusesOlder starts the older program in the folder of a node once it is too late.
func (u *upgrade) refusesOlder(i int) {
	u.t.Helper()
	n := u.cell.Nodes[i]
	n.Signal(syscall.SIGTERM)
	n.WaitExit(goneLimit)
	n.Binary = older
	n.Start()
	if code := n.WaitExit(goneLimit); code != exitVersion {
		u.t.Errorf("the older program ended with code %d, want %d", code, exitVersion)
	}
	if said := n.Stderr(); !strings.Contains(said, fmt.Sprint("the cell is at version ", nextVersion)) {
		u.t.Errorf("the older program does not say what is wrong:\n%s", said)
	}
	n.Binary = newer
	n.Start()
	n.WaitReady(startLimit)
}

// wantVersion waits until the shard has applied an entry at the cell's version, on all nodes.
func (u *upgrade) wantVersion(want uint32) {
	u.t.Helper()
	eventually.True(u.t, leaderLimit, fmt.Sprintf("version %d everywhere", want), func() bool {
		status, err := u.cell.Status()
		if err != nil {
			return false
		}
		for _, s := range status {
			found := false
			for _, g := range s.GetGroups() {
				if g.GetGroup() != u.cell.Shard {
					continue
				}
				if g.GetVersion() > want {
					u.t.Fatalf("%s is at version %d of the cell, want %d", s.GetNode().GetId(), g.GetVersion(), want)
				}
				found = g.GetVersion() == want
			}
			if !found {
				return false
			}
		}
		return len(status) == len(u.cell.Nodes)
	})
}

// look compares what replicas report with what others reported at the same index.
func (u *upgrade) look() (complete bool) {
	u.t.Helper()
	status, err := u.cell.Status()
	if err != nil {
		return false
	}
	whole, groups := map[uint32]bool{}, map[uint32]bool{}
	for _, s := range status {
		for _, g := range s.GetGroups() {
			groups[g.GetGroup()] = true
			place := at{g.GetGroup(), g.GetDigestIndex()}
			if u.digests[place] == nil {
				u.digests[place] = map[string]uint64{}
			}
			for other, digest := range u.digests[place] {
				if digest != g.GetDigest() {
					u.t.Fatalf("group %d at index %d: %s has the digest %x, %s %x", place.group, place.index, other, digest, s.GetNode().GetId(), g.GetDigest())
				}
			}
			u.digests[place][s.GetNode().GetId()] = g.GetDigest()
			whole[g.GetGroup()] = whole[g.GetGroup()] || len(u.digests[place]) == len(u.cell.Nodes)
		}
	}
	for g := range groups {
		if !whole[g] {
			return false
		}
	}
	return len(groups) > 0
}

// equal waits until all replicas of every group have been seen at one index.
func (u *upgrade) equal() {
	u.t.Helper()
	eventually.True(u.t, settleLimit, "equal replicas", u.look)
}
