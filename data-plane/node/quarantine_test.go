package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// rolesOf is what each node says it is in a group, without those that do not answer.
func (r *cellRig) rolesOf(group uint32) map[string]string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := r.Admin().Nodes(ctx)
	if err != nil {
		return nil
	}
	out := make(map[string]string)
	for _, n := range nodes {
		for _, g := range n.GetGroups() {
			if g.GetGroup() == group {
				out[n.GetNode().GetId()] = g.GetRole()
			}
		}
	}
	return out
}

func (r *cellRig) waitRole(group uint32, role string, ids ...string) {
	r.t.Helper()
	var last map[string]string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		last = r.rolesOf(group)
		all := len(last) > 0
		for _, id := range ids {
			all = all && last[id] == role
		}
		if all {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	r.t.Fatalf("group %d: %v aren't all %s: %v", group, ids, role, last)
}

// shardOf is the group that holds the customer's jobs.
func (r *cellRig) shardOf(c customer) uint32 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state, err := r.Admin().State(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range state.GetNamespaces() {
		if n.GetId() == c.who.NamespaceID {
			return n.GetShard()
		}
	}
	r.t.Fatal("the namespace is on no shard")
	return 0
}

func (r *cellRig) diverge(i int, group uint32) {
	r.t.Helper()
	if err := node.Diverge(r.Places[i].Dir, group); err != nil {
		r.t.Fatal(err)
	}
}

func (r *cellRig) status(i int, path string) (int, string) {
	r.t.Helper()
	res, err := http.Get(r.Places[i].APIURL + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	return res.StatusCode, readAll(res)
}

func (r *cellRig) repair(node string, group uint32, from string) *cellv1.RepairGroupResponse {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := r.Admin().Repair(ctx, node, group, from, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func TestDivergence_AFollowerThatDiffersIsLeftOutUntilItIsRepaired(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	shard := r.shardOf(c)
	c.enqueue(r.Places[0].APIURL, 5)
	r.caughtUp("n3")
	r.Stop(2)
	r.diverge(2, shard)
	r.MustStart(2)
	r.waitRole(shard, "quarantined", "n3")
	c.enqueue(r.Places[2].APIURL, 5) // The node sends the call on.

	// It stays left out after a restart, is as ready as any, and says so.
	r.Stop(2)
	r.MustStart(2)
	r.waitRole(shard, "quarantined", "n3")
	r.Ready(2)
	if code, body := r.status(2, "/readyz"); code != http.StatusOK || !strings.Contains(body, fmt.Sprintf("group %d is quarantined", shard)) {
		t.Errorf("readyz: %d %s", code, body)
	}
	if res := r.repair("n3", shard, ""); res.GetIndex() == 0 || res.GetBytes() == 0 {
		t.Errorf("repaired: %v", res)
	}
	r.waitRole(shard, "follower", "n3")
	c.enqueue(r.Places[1].APIURL, 5)
	r.caughtUp("n3")

	// It counts as a voter again.
	r.Stop(0)
	c.enqueue(r.Places[2].APIURL, 5)
	c.losesNothing(r.Places[2].APIURL)
}

func TestDivergence_ALeaderThatDiffersGivesUpItsGroup(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	shard := r.shardOf(c)
	c.enqueue(r.Places[0].APIURL, 5)
	const unique = `{"queue":"mail","unique_key":"u"}`
	c.enqueueOne(r.Places[0].APIURL, map[string]any{"unique_key": "u"})
	// Whoever leads: a cell that has just started still spreads its leaders.
	var wrong int
	var lists string
	eventually.True(t, patience, "the leader has lists", func() bool {
		roles := r.rolesOf(shard)
		wrong = slices.IndexFunc(r.Places, func(p nodetest.Place) bool { return roles[p.ID] == "leader" })
		if wrong < 0 {
			return false
		}
		lists = filepath.Join(r.Places[wrong].Dir, "readmodel", c.who.NamespaceID+".db")
		_, err := os.Stat(lists)
		return err == nil
	})
	url, id := r.Places[wrong].APIURL, r.Places[wrong].ID
	if err := r.Nodes[wrong].Damage(shard, c.who.NamespaceID, "u"); err != nil {
		t.Fatal(err)
	}
	c.call(url, "/api/v1/enqueue", unique) // A second one by its state, and by no other.
	for deadline := time.Now().Add(patience); r.rolesOf(shard)[id] != "quarantined"; {
		if time.Now().After(deadline) {
			t.Fatalf("the leader %s goes on: %v", id, r.rolesOf(shard))
		}
		c.enqueue(url, 1)
	}
	for other, role := range r.rolesOf(shard) {
		if other != id && role == "quarantined" {
			t.Errorf("%s, which is right, is left out", other)
		}
	}
	c.enqueue(url, 5)
	r.repair(id, shard, "")
	if _, err := os.Stat(lists); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lists made of the wrong state are still there: %v", err)
	}
	r.waitRole(shard, "follower", id)
	r.Stop((wrong + 1) % 3)
	c.enqueue(url, 5)
	c.losesNothing(url)
}

// One against one is a dispute; the third one settles it, whoever leads.
func TestDivergence_AThirdReplicaSettlesADispute(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	shard := r.shardOf(c)
	c.enqueue(r.Places[0].APIURL, 5)
	r.caughtUp("n1")
	for i := range r.Nodes {
		r.Stop(i)
	}
	r.diverge(0, shard)
	r.MustStart(0)
	r.MustStart(1)
	r.waitRole(shard, "disputed", "n1", "n2")
	r.MustStart(2)
	r.waitRole(shard, "quarantined", "n1")
	c.enqueue(r.Places[1].APIURL, 5)
}

// With two voters nobody knows who is right: neither serves, and a person decides.
func TestDivergence_TwoThatDifferServeNothingUntilAPersonDecides(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	shard := r.shardOf(c)
	c.enqueue(r.Places[0].APIURL, 5)
	r.caughtUp("n3")
	r.Stop(0)
	r.Stop(2)
	r.diverge(2, shard)
	r.MustStart(2)
	r.waitRole(shard, "disputed", "n2", "n3")
	if status := c.call(r.Places[1].APIURL, "/api/v1/enqueue", `{"queue":"mail"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a disputed group answers %d", status)
	}
	r.Stop(1)
	r.Stop(2)
	r.MustStart(1)
	r.MustStart(2)
	r.waitRole(shard, "disputed", "n2", "n3") // Also after a restart.
	r.repair("n3", shard, "n2")
	c.enqueue(r.Places[1].APIURL, 5)
	c.losesNothing(r.Places[1].APIURL)
}

func TestDivergence_OfTheCellsOwnRecordsEndsTheNodeUntilTheyAreRepaired(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	r.caughtUp("n3")
	r.Stop(2)
	r.diverge(2, 1)
	r.MustStart(2)
	select {
	case err := <-r.Nodes[2].Ended():
		if err == nil || !strings.Contains(err.Error(), "quarantined") {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the node goes on")
	}
	r.Stop(2)
	c.enqueue(r.Places[0].APIURL, 5)
	r.MustStart(2)
	if code, body := r.status(2, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "cell repair") {
		t.Errorf("readyz: %d %s", code, body)
	}
	r.repair("n3", 1, "")
	r.Ready(2)
}

func readAll(res *http.Response) string {
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestCrash_AGroupThatEndedItsProcessTwiceIsLeftOutUntilAnOperatorLetsItIn(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	shard := r.shardOf(c)
	c.enqueue(r.Places[0].APIURL, 5)
	r.caughtUp("n3")
	r.Nodes[2].Crash(shard, 7)
	r.Nodes[2].Crash(shard, 9) // Elsewhere: not the same fault.
	r.Stop(2)
	r.MustStart(2)
	r.Ready(2)
	if role := r.rolesOf(shard)["n3"]; role == "quarantined" {
		t.Fatal("left out after one crash")
	}
	r.Nodes[2].Crash(shard, 9)
	r.Stop(2)
	r.MustStart(2)
	r.waitRole(shard, "quarantined", "n3")
	r.Ready(2)
	if _, body := r.status(2, "/readyz"); !strings.Contains(body, "ended the process 2 times at entry 9") {
		t.Errorf("readyz: %s", body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.Admin().Repair(ctx, "n3", shard, "", true); err != nil {
		t.Fatal(err)
	}
	r.waitRole(shard, "follower", "n3")
	if _, err := r.Admin().Repair(ctx, "n3", shard, "", true); err == nil {
		t.Error("what isn't quarantined was repaired")
	}
}

// openings counts the replicas of shards that a node opens, by what raft logs of each, and
// holds the first until it is released.
type openings struct {
	slog.Handler
	group uint32 // Of this logger.
	seen  *opened
}

type opened struct {
	held, release chan struct{}
	mu            sync.Mutex // Guards counts.
	counts        map[uint32]int
}

func newOpenings() openings {
	return openings{Handler: slog.DiscardHandler, seen: &opened{held: make(chan struct{}), release: make(chan struct{}), counts: make(map[uint32]int)}}
}

func (o openings) Enabled(context.Context, slog.Level) bool { return true }

func (o openings) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if id, ok := a.Value.Any().(uint64); ok && a.Key == "group" {
			o.group = uint32(id)
		}
	}
	return o
}

func (o openings) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "initial configuration" || o.group <= 1 {
		return nil
	}
	o.seen.mu.Lock()
	first := len(o.seen.counts) == 0
	o.seen.counts[o.group]++
	o.seen.mu.Unlock()
	if first {
		close(o.seen.held)
		<-o.seen.release
	}
	return nil
}

func (o openings) of(group uint32) int {
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	return o.seen.counts[group]
}

// The API serves before the shards are open: a repair then must not open one that the start
// then opens too, because two replicas would share one log and one vote.
func TestRepair_DuringAStartOpensAShardOnce(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	const shard = 3 // The node opens shard 2 before.
	r.caughtUp("n3")
	for range 2 {
		r.Nodes[2].Crash(shard, 7)
	}
	r.Stop(2)
	opens := newOpenings()
	r.Change = func(_ int, c *node.Config) { c.Logger = slog.New(opens) }
	started := make(chan error, 1)
	go func() { started <- r.Start(2) }()
	<-opens.seen.held

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := r.Admin()
	repaired := make(chan error, 1)
	go func() {
		_, err := admin.Repair(ctx, "n3", shard, "", true)
		repaired <- err
	}()
	select { // A repair that does not wait is over soon.
	case err := <-repaired:
		t.Errorf("repaired while the shards are being opened: %v", err)
		repaired <- err
	case <-time.After(time.Second):
	}
	close(opens.seen.release)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := <-repaired; err != nil {
		t.Fatal(err)
	}
	r.waitRole(shard, "follower", "n3")
	if n := opens.of(shard); n != 1 {
		t.Errorf("the shard was opened %d times", n)
	}
}

func TestRepair_AShardThatCannotBeOpenedStaysQuarantined(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	const shard = 3
	r.caughtUp("n3")
	for range 2 {
		r.Nodes[2].Crash(shard, 7)
	}
	r.Stop(2)
	if err := node.Skew(r.Places[2].Dir, shard); err != nil {
		t.Fatal(err)
	}
	r.MustStart(2)
	r.Ready(2)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.Admin().Repair(ctx, "n3", shard, "", true); err == nil {
		t.Fatal("a state that can't be opened was repaired by keeping it")
	}
	if _, body := r.status(2, "/readyz"); !strings.Contains(body, "group 3 is quarantined: it ended the process 2 times at entry 7") {
		t.Errorf("readyz: %s", body)
	}
	r.repair("n3", shard, "")
	r.waitRole(shard, "follower", "n3")
}

// Without the cell's records nobody knows what a shard belongs to.
func TestRepair_TheCellsOwnRecordsComeFirst(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	const shard = 3
	r.caughtUp("n3")
	for range 2 {
		r.Nodes[2].Crash(1, 7)
		r.Nodes[2].Crash(shard, 7)
	}
	r.Stop(2)
	r.MustStart(2)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.Admin().Repair(ctx, "n3", shard, "", true); err == nil || !strings.Contains(err.Error(), "group 1") {
		t.Errorf("a shard is repaired first: %v", err)
	}
	for _, id := range []uint32{1, shard} {
		if _, err := r.Admin().Repair(ctx, "n3", id, "", true); err != nil {
			t.Fatal(err)
		}
	}
	r.waitRole(shard, "follower", "n3")
	r.Ready(2)
}

// A node alone whose own records are left out says so at each start (R7).
func TestCrash_OfANodeAlonesOwnRecordsIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := nodetest.Open(t, dir, node.Open)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.Crash(1, 7)
	}
	nodetest.Stop(t, n)
	for range 2 {
		n, err := nodetest.Open(t, dir, node.Open)
		if !errors.Is(err, node.ErrQuarantined) || !strings.Contains(fmt.Sprint(err), "ended the process 2 times at entry 7") {
			t.Errorf("started again: %v", err)
		}
		nodetest.Stop(t, n)
	}
}
