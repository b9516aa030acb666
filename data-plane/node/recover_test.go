package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

func TestRecover_OneFolderGoesOnAsACellOfItsOwn(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	c.enqueue(r.Places[0].APIURL, 10)
	r.caughtUp("n1")
	for i := range r.Nodes {
		r.leave(i)
	}
	dir := r.Places[0].Dir
	plan, err := node.PlanRecovery(dir, nodetest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if plan.NodeID != "n1" || plan.NewCellID != "" || !slices.Equal(plan.Others, []string{"n2", "n3"}) || len(plan.Groups) != 3 {
		t.Fatalf("%+v", plan)
	}
	for _, g := range plan.Groups {
		if g.Last == 0 || g.LastAt.IsZero() || len(g.Voters) != 3 || len(g.Others) != 2 || g.Others[0].Missing != 0 || !g.Others[0].Known {
			t.Errorf("%+v", g)
		}
	}
	r.MustStart(0) // A plan changes nothing: it still waits for the others.
	r.Stop(0)

	done, err := node.Recover(dir, nodetest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "recovered.json")); err != nil || !strings.Contains(string(b), done.NewCellID) || done.NewCellID == done.OldCellID {
		t.Errorf("what was done: %s, %v", b, err)
	}
	r.MustStart(0)
	r.Ready(0)
	r.watchesSay(done)
	c.enqueue(r.Places[0].APIURL, 5)

	// A folder of the old cell has no part in it, and its node's id does not come back.
	r.MustStart(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := r.Admin()
	eventually.True(t, patience, "the old nodes are removed", func() bool {
		nodes, err := admin.Nodes(ctx)
		return err == nil && len(nodes) == 1 && nodes[0].GetNode().GetId() == "n1"
	})
	if n := r.Nodes[1].Leads(); n != 0 {
		t.Errorf("the old node leads %d groups", n)
	}
	r.Stop(0)
	r.MustStart(0)
	r.Ready(0)
	c.losesNothing(r.Places[0].APIURL)
}

// watchesSay: a cell says which one it is, and which it replaced. Whoever has the state of
// that one is sent the whole, and whoever has another's is refused.
func (r *cellRig) watchesSay(done node.Recovery) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	control, err := r.Admin().Control(ctx)
	if err != nil || control.CellID != done.NewCellID || !slices.Equal(control.Replaced, []string{done.OldCellID}) {
		r.t.Errorf("%+v, %v", control, err)
	}
	signer, err := identity.NewSigner(cellsecret.Must([]byte(nodetest.Secret)))
	if err != nil {
		r.t.Fatal(err)
	}
	client := cellv1connect.NewCellServiceClient(&http.Client{Transport: signing{signer}}, r.Places[0].APIURL)
	for cell, whole := range map[string]bool{done.OldCellID: true, done.NewCellID: false, "cell_another": false} {
		stream, err := client.Watch(ctx, connect.NewRequest(&cellv1.WatchRequest{AfterIndex: 1, CellId: cell}))
		if err != nil {
			r.t.Fatal(err)
		}
		got := stream.Receive()
		switch {
		case got != (cell != "cell_another"):
			r.t.Errorf("%s: %v, %v", cell, stream.Msg(), stream.Err())
		case whole && (stream.Msg().GetState().GetCellId() != done.NewCellID || stream.Msg().GetCellId() != done.NewCellID):
			r.t.Errorf("%s isn't sent the whole state: %v", cell, stream.Msg())
		}
		_ = stream.Close()
	}
}

// What another node had committed and this folder lacks is said before anything is done.
func TestRecover_SaysWhatOthersHadMore(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	for i := range r.Nodes {
		r.leave(i)
	}
	before, err := node.PlanRecovery(r.Places[2].Dir, nodetest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	last := before.Groups[1].Last
	if err := node.Hear(r.Places[2].Dir, "n2", before.Groups[1].Group, last+7); err != nil {
		t.Fatal(err)
	}
	plan, err := node.PlanRecovery(r.Places[2].Dir, nodetest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Groups[1].Others[1]; got != (node.OtherMember{NodeID: "n2", Known: true, Committed: last + 7, Missing: 7}) {
		t.Errorf("%+v", got)
	}
}

// A folder that the cell refused lacks what it had confirmed.
func TestRecover_NotFromAFolderThatWasRefused(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	for i := range r.Nodes {
		r.leave(i)
	}
	if err := node.Refuse(r.Places[0].Dir, "it is an older copy"); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(string, *slog.Logger) (node.Recovery, error){"plan": node.PlanRecovery, "recover": node.Recover} {
		if _, err := do(r.Places[0].Dir, nodetest.Logger()); !errors.Is(err, node.ErrRefused) || !strings.Contains(err.Error(), "another node's folder") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRecover_AnInterruptedOneIsFinishedBeforeTheNodeStarts(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	c.enqueue(r.Places[0].APIURL, 3)
	r.caughtUp("n1")
	for i := range r.Nodes {
		r.leave(i)
	}
	if err := node.BeginRecovery(r.Places[0].Dir, "cell_new"); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(0); !errors.Is(err, node.ErrRecovering) {
		t.Fatalf("start: %v", err)
	}
	done, err := node.Recover(r.Places[0].Dir, nodetest.Logger())
	if err != nil || done.NewCellID != "cell_new" || done.OldCellID == "cell_new" {
		t.Fatalf("%+v, %v", done, err)
	}
	r.MustStart(0)
	r.Ready(0)
	c.losesNothing(r.Places[0].APIURL)
}

func TestRecover_RefusesWhatIsNoNodesFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := node.Recover(dir, nodetest.Logger()); !errors.Is(err, node.ErrFolder) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// The old cell's other nodes come back with their folders, and would serve: a control plane
// that finds the new cell among them writes to nobody else.
func TestRecover_AControlPlaneUsesTheNewCellAlone(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	for i := range r.Nodes {
		r.leave(i)
	}
	done, err := node.Recover(r.Places[0].Dir, nodetest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Nodes {
		r.MustStart(i)
	}
	r.Ready()
	urls := r.URLs()
	slices.Reverse(urls) // Those of the old cell are asked first.
	admin, err := celladmin.New(cellsecret.Must([]byte(nodetest.Secret)), urls, celladmin.Options{Name: "control"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if control, err := admin.Control(ctx); err != nil || control.CellID != done.NewCellID {
		t.Fatalf("%+v, %v", control, err)
	}
	if _, err := admin.CreateTenant(ctx, "later", nil); err != nil {
		t.Fatal(err)
	}
	state, err := admin.State(ctx)
	if err != nil || state.GetCellId() != done.NewCellID {
		t.Fatalf("the state of %s, %v", state.GetCellId(), err)
	}
	if _, err := celladmin.FindTenant(state, "later"); err != nil {
		t.Error(err)
	}
	old, err := celladmin.New(cellsecret.Must([]byte(nodetest.Secret)), urls[:2], celladmin.Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(old.Close)
	state, err = old.State(ctx)
	if err != nil || state.GetCellId() != done.OldCellID {
		t.Fatalf("the state of %s, %v", state.GetCellId(), err)
	}
	if _, err := celladmin.FindTenant(state, "later"); err == nil {
		t.Error("it was written to the old cell")
	}
	// Once the new one is known, the old one gets nothing though nobody else is there.
	r.Stop(0)
	short, cancelShort := context.WithTimeout(ctx, time.Second)
	defer cancelShort()
	if _, err := admin.CreateTenant(short, "nowhere", nil); err == nil {
		t.Error("nodes of the old cell took a tenant")
	}
}
