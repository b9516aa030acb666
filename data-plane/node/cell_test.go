package node_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// cellRig is a cell of nodes in this process.
type cellRig struct {
	*nodetest.Cell
	t *testing.T
}

func newCellRig(t *testing.T, n int) *cellRig {
	t.Helper()
	return &cellRig{nodetest.NewCell(t, n), t}
}

// formedCell starts all nodes, forms the cell and waits until they are ready.
func formedCell(t *testing.T, n int) *cellRig {
	t.Helper()
	r := newCellRig(t, n)
	r.startAndForm()
	r.Ready()
	return r
}

func (r *cellRig) startAndForm() {
	r.t.Helper()
	for i := range r.Nodes {
		r.MustStart(i)
	}
	if _, err := r.Form(); err != nil {
		r.t.Fatal(err)
	}
}

// leave shuts a node down gracefully, so that its peers know how far it is.
func (r *cellRig) leave(i int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Nodes[i].Shutdown(ctx, false); err != nil {
		r.t.Fatal(err)
	}
	r.Nodes[i] = nil
}

// caughtUp waits until a node has committed as much as any other: a leader that could
// not reach it for a while backs off.
func (r *cellRig) caughtUp(id string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := r.Admin()
	for behind := true; behind; {
		nodes, err := admin.Nodes(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("%s is still behind: %v %v", id, nodes, err)
		}
		newest, own := map[uint32]uint64{}, map[uint32]uint64{}
		for _, n := range nodes {
			for _, g := range n.GetGroups() {
				newest[g.GetGroup()] = max(newest[g.GetGroup()], g.GetCommitIndex())
				if n.GetNode().GetId() == id {
					own[g.GetGroup()] = g.GetCommitIndex()
				}
			}
		}
		behind = err != nil || len(own) == 0 || !maps.Equal(newest, own)
	}
}

func (r *cellRig) empty(i int) {
	r.t.Helper()
	if err := os.RemoveAll(r.Places[i].Dir); err != nil {
		r.t.Fatal(err)
	}
}

const acknowledged = 30

// emptied is a cell in which n1 and n2 acknowledged jobs while n3 was away, all are
// stopped, and n1 has lost its folder.
func emptied(t *testing.T) (*cellRig, customer) {
	t.Helper()
	r := formedCell(t, 3)
	c := r.customer()
	r.Stop(2)
	c.enqueue(r.Places[0].APIURL, acknowledged)
	r.Stop(0)
	r.Stop(1)
	r.empty(0)
	return r, c
}

// some election time-outs, in which nodes with a quorum would have elected a leader.
const longEnoughToElect = 3 * time.Second

func TestCell_AnEmptiedNodeHasNoVoteAndNothingIsAcceptedWithoutTheOthers(t *testing.T) {
	t.Parallel()
	r, c := emptied(t)
	r.MustStart(0)
	r.MustStart(2)
	for until := time.Now().Add(longEnoughToElect); time.Now().Before(until); {
		for _, i := range []int{0, 2} {
			if status := c.call(r.Places[i].APIURL, "/api/v1/enqueue", `{"queue":"mail"}`); status == http.StatusCreated {
				t.Fatalf("%s took a job", r.Places[i].ID)
			}
		}
	}
	res, err := http.Get(r.Places[0].APIURL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if _, err := said.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(said.String(), "cell form") || !strings.Contains(said.String(), "--join") {
		t.Errorf("/readyz of the emptied node: %d %s", res.StatusCode, said.String())
	}
	// Forming a cell does not bring it back either.
	r.MustStart(1)
	r.Ready(1, 2)
	if _, err := r.Form(); !errors.Is(err, celladmin.ErrNotFormed) {
		t.Errorf("forming the cell again: %v", err)
	}
	c.losesNothing(r.Places[1].APIURL)
}

func TestCell_AnEmptiedNodeThatStartsWithTheOthersLosesNothing(t *testing.T) {
	t.Parallel()
	r, c := emptied(t)
	for i := range 3 {
		r.MustStart(i)
	}
	r.Ready(1, 2)
	c.losesNothing(r.Places[2].APIURL)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := r.Admin().Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.GetNode().GetId() == "n1" && n.GetReachable() {
			t.Errorf("the emptied node takes part: %v", n)
		}
	}
}

func TestCell_AnEmptiedNodeMayNotJoinUnderItsOldID(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	r.Stop(2)
	r.empty(2)
	r.Change = func(_ int, c *node.Config) { c.Peers, c.Join = nil, r.Places[0].APIURL }
	if err := r.Start(2); !errors.Is(err, node.ErrRefused) {
		t.Fatalf("joining again: %v, want ErrRefused", err)
	}
}

func TestCell_AnOlderCopyOfAFolderIsRefused(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	c.enqueue(r.Places[0].APIURL, 3)
	r.leave(0)
	old := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(old, os.DirFS(r.Places[0].Dir)); err != nil {
		t.Fatal(err)
	}
	r.MustStart(0)
	r.Ready(0)
	c.enqueue(r.Places[0].APIURL, 3)
	r.caughtUp("n1")
	r.leave(0) // It tells its peers how far it is, and again when it starts.
	r.MustStart(0)
	r.Ready(0)
	r.Stop(2)
	c.enqueue(r.Places[0].APIURL, acknowledged)
	r.Stop(0)
	r.Stop(1)

	r.empty(0)
	if err := os.CopyFS(r.Places[0].Dir, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	r.MustStart(2)
	err := r.Start(0)
	if err == nil { // The query before the start was not answered in time, and is repeated.
		select {
		case err = <-r.Nodes[0].Ended():
		case <-time.After(patience):
		}
		r.Stop(0)
	}
	if !errors.Is(err, node.ErrRefused) {
		t.Fatalf("start with an older copy: %v, want ErrRefused", err)
	}
	r.Stop(2)
	if err := r.Start(0); !errors.Is(err, node.ErrRefused) {
		t.Fatalf("start where nobody knows: %v, want ErrRefused", err)
	}
	r.MustStart(2)
	r.MustStart(1)
	r.Ready(1, 2)
	c.losesNothing(r.Places[1].APIURL)
}

// A bad sector under what n2 remembers of n1 is no reason for n1 to end, and never to start again.
func TestCell_ANodeIsNotRefusedForGoodByOneThatCannotReadItsOwnRecords(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	r.leave(1)
	if err := node.Garble(r.Places[1].Dir, "n1"); err != nil {
		t.Fatal(err)
	}
	r.MustStart(1)
	r.Stop(0)
	for range 2 { // At the first start it asks n2, and the second would find what that said in the folder.
		r.MustStart(0)
		select {
		case err := <-r.Nodes[0].Ended():
			t.Fatalf("n1 ended: %v", err)
		default:
		}
		r.Stop(0)
	}
}

func TestCell_ARemovedNodeEnds(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"while it runs": true, "while it is away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := formedCell(t, 3)
			if !running {
				r.Stop(2)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for err := errors.New("not yet"); err != nil; { // The nodes may not have met yet.
				if err = r.Admin().RemoveNode(ctx, "n3"); err != nil && ctx.Err() != nil {
					t.Fatal(err)
				}
			}
			if running {
				select {
				case err := <-r.Nodes[2].Ended():
					if !errors.Is(err, node.ErrRefused) {
						t.Errorf("it ended with %v, want ErrRefused", err)
					}
				case <-ctx.Done():
					t.Fatal("it goes on")
				}
				r.Stop(2)
			}
			if err := r.Start(2); !errors.Is(err, node.ErrRefused) {
				t.Errorf("start: %v, want ErrRefused", err)
			}
		})
	}
}

func TestForm_AsksAllNodesFirstAndGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	for i := range 2 {
		r.MustStart(i)
		defer r.Stop(i)
	}
	r.Places[2].Leave(t)
	if _, err := r.Form(); !errors.Is(err, celladmin.ErrNotFormed) {
		t.Fatalf("with a node away: %v, want ErrNotFormed", err)
	}
	r.MustStart(2)
	defer r.Stop(2)
	// The first step reached one node, then the command died.
	id := node.NewCellID()
	r.prepareOne(1, id)
	r.Stop(1)
	r.MustStart(1)
	formed, err := r.Form()
	if err != nil || formed.CellID != id || formed.Already {
		t.Fatalf("formed %+v, %v, want cell %s", formed, err, id)
	}
	r.Ready()
	again, err := r.Form()
	if err != nil || again.CellID != id || !again.Already {
		t.Fatalf("formed again %+v, %v, want cell %s", again, err, id)
	}
}

// signing signs calls as a part of the cell.
type signing struct{ signer *identity.Signer }

func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if err := s.signer.SignRequest(out, identity.CellPrincipal("test", time.Now())); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(out)
}

// prepareOne does the first step of forming at one node only.
func (r *cellRig) prepareOne(i int, cellID string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	signer, err := identity.NewSigner(cellsecret.Must([]byte(nodetest.Secret)))
	if err != nil {
		r.t.Fatal(err)
	}
	req := &cellv1.PrepareRequest{CellId: cellID}
	var clients []cellv1connect.FormationServiceClient
	for _, url := range r.URLs() {
		c := cellv1connect.NewFormationServiceClient(&http.Client{Transport: signing{signer}}, url)
		d, err := c.Describe(ctx, connect.NewRequest(&cellv1.DescribeRequest{}))
		if err != nil {
			r.t.Fatal(err)
		}
		clients, req.Members = append(clients, c), append(req.Members, d.Msg.GetNode())
	}
	if _, err := clients[i].Prepare(ctx, connect.NewRequest(req)); err != nil {
		r.t.Fatal(err)
	}
}

// Nothing is written meanwhile that would show it.
func TestCell_ANodeThatWasStartedAgainLearnsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	r.customer().enqueue(r.Places[0].APIURL, 1)
	r.caughtUp("n3")
	r.Stop(2)
	r.MustStart(2)
	r.caughtUp("n3")
}
