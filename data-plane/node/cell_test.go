package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

const rigSecret = "a secret of at least sixteen bytes"

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// cellRig is the nodes of a cell in one process, with folders that outlive them.
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
		p := nodetest.NewPlace(t, fmt.Sprintf("n%d", i+1))
		r.lns = append(r.lns, [2]net.Listener{p.API, p.Raft})
		r.dirs = append(r.dirs, filepath.Join(root, fmt.Sprint(i)))
		r.peers = append(r.peers, p.Peer)
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
		Peers: r.peers, Secret: []byte(rigSecret), Logger: nodetest.Logger(),
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
		nodetest.Stop(r.t, r.nodes[i])
		r.nodes[i] = nil
	}
}

func (r *cellRig) urls() []string {
	var out []string
	for _, p := range r.peers {
		out = append(out, p.APIURL)
	}
	return out
}

func (r *cellRig) form() (celladmin.Formed, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return celladmin.Form(ctx, []byte(rigSecret), r.urls(), celladmin.Options{Name: "test"})
}

// formed starts all nodes, forms the cell and waits until they are ready.
func formedCell(t *testing.T, n int) *cellRig {
	t.Helper()
	r := newCellRig(t, n)
	for i := range n {
		r.mustStart(i)
		t.Cleanup(func() { r.stop(i) })
	}
	if _, err := r.form(); err != nil {
		t.Fatal(err)
	}
	r.ready(0, 1, 2)
	return r
}

func (r *cellRig) mustStart(i int) {
	r.t.Helper()
	if r.lns[i][0] == nil {
		r.relisten(i)
	}
	if err := r.start(i); err != nil {
		r.t.Fatalf("start %s: %v", r.peers[i].ID, err)
	}
}

func (r *cellRig) ready(nodes ...int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, i := range nodes {
		if err := r.nodes[i].Ready(ctx); err != nil {
			r.t.Fatalf("%s is not ready: %v", r.peers[i].ID, err)
		}
	}
}

// leave stops a node in order, so that its peers have heard how far it is.
func (r *cellRig) leave(i int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.nodes[i].Shutdown(ctx, false); err != nil {
		r.t.Fatal(err)
	}
	r.nodes[i] = nil
}

// caughtUp waits until a node knows as committed what any node does: a leader that
// could not reach it for a while tries again later and later.
func (r *cellRig) caughtUp(id string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := r.admin()
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
	if err := os.RemoveAll(r.dirs[i]); err != nil {
		r.t.Fatal(err)
	}
}

func (r *cellRig) admin() *celladmin.Client {
	r.t.Helper()
	c, err := celladmin.New([]byte(rigSecret), r.urls(), celladmin.Options{Name: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// customer makes a tenant and speaks for it to nodes.
type customer struct {
	t      *testing.T
	signer *identity.Signer
	who    identity.Identity
}

func (r *cellRig) customer() customer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tenant, err := r.admin().CreateTenant(ctx, "acme", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	state, err := r.admin().State(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	ns, err := celladmin.FindNamespace(state, tenant.GetId(), celladmin.DefaultNamespace)
	if err != nil {
		r.t.Fatal(err)
	}
	signer, err := identity.NewSigner([]byte(rigSecret))
	if err != nil {
		r.t.Fatal(err)
	}
	return customer{r.t, signer, identity.Identity{
		TenantID: tenant.GetId(), TenantName: "acme", NamespaceID: ns.GetId(), Namespace: "default",
		Principal: "key_000000000000", Roles: []string{identity.RoleAdmin},
	}}
}

// call makes one signed call and returns its status, 0 for none.
func (c customer) call(url, path, body string) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	who := c.who
	who.ExpiresAt = time.Now().Add(time.Minute).Truncate(time.Second)
	if err := c.signer.SignRequest(r, who); err != nil {
		c.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func (c customer) enqueue(url string, n int) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for done := 0; done < n; {
		if c.call(url, "/api/v1/enqueue", `{"queue":"mail"}`) == http.StatusCreated {
			done++
		} else if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d jobs were taken", done, n)
		}
	}
}

// count takes jobs out until there is none.
func (c customer) count(url string) int {
	c.t.Helper()
	n := 0
	for deadline := time.Now().Add(patience); ; {
		switch status := c.call(url, "/api/v1/fetch", `{"queues":["mail"],"worker_id":"w","wait":"0s"}`); {
		case status == http.StatusOK:
			n++
		case status == http.StatusNoContent || status == http.StatusNotFound:
			return n
		case time.Now().After(deadline):
			c.t.Fatalf("fetch answers %d", status)
		}
	}
}

const acknowledged = 30

// emptied is a cell in which n1 and n2 acknowledged jobs while n3 was away, all are
// stopped, and n1 has lost its folder.
func emptied(t *testing.T) (*cellRig, customer) {
	t.Helper()
	r := formedCell(t, 3)
	c := r.customer()
	r.stop(2)
	c.enqueue(r.peers[0].APIURL, acknowledged)
	r.stop(0)
	r.stop(1)
	r.empty(0)
	return r, c
}

// some election time-outs, in which nodes with a quorum would have elected a leader.
const longEnoughToElect = 3 * time.Second

func TestCell_AnEmptiedNodeHasNoVoteAndNothingIsAcceptedWithoutTheOthers(t *testing.T) {
	t.Parallel()
	r, c := emptied(t)
	r.mustStart(0)
	r.mustStart(2)
	for until := time.Now().Add(longEnoughToElect); time.Now().Before(until); {
		for _, i := range []int{0, 2} {
			if status := c.call(r.peers[i].APIURL, "/api/v1/enqueue", `{"queue":"mail"}`); status == http.StatusCreated {
				t.Fatalf("%s took a job", r.peers[i].ID)
			}
		}
	}
	res, err := http.Get(r.peers[0].APIURL + "/readyz")
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
	// Forming does not bring it back either.
	r.mustStart(1)
	r.ready(1, 2)
	if _, err := r.form(); !errors.Is(err, celladmin.ErrNotFormed) {
		t.Errorf("forming the cell again: %v", err)
	}
	if got := c.count(r.peers[1].APIURL); got != acknowledged {
		t.Errorf("%d jobs left of %d", got, acknowledged)
	}
}

func TestCell_AnEmptiedNodeThatStartsWithTheOthersLosesNothing(t *testing.T) {
	t.Parallel()
	r, c := emptied(t)
	for i := range 3 {
		r.mustStart(i)
	}
	r.ready(1, 2)
	if got := c.count(r.peers[2].APIURL); got != acknowledged {
		t.Errorf("%d jobs left of %d", got, acknowledged)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := r.admin().Nodes(ctx)
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
	r.stop(2)
	r.empty(2)
	r.relisten(2)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := node.Start(ctx, node.Config{
		ID: "n3", Dir: r.dirs[2], API: r.lns[2][0], Raft: r.lns[2][1], Join: r.peers[0].APIURL, Secret: []byte(rigSecret), Logger: nodetest.Logger(),
	})
	if !errors.Is(err, node.ErrRefused) {
		t.Fatalf("joining again: %v, want ErrRefused", err)
	}
}

func TestCell_AnOlderCopyOfAFolderIsRefused(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 3)
	c := r.customer()
	c.enqueue(r.peers[0].APIURL, 3)
	r.leave(0)
	old := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(old, os.DirFS(r.dirs[0])); err != nil {
		t.Fatal(err)
	}
	r.mustStart(0)
	r.ready(0)
	c.enqueue(r.peers[0].APIURL, 3)
	r.caughtUp("n1")
	r.leave(0) // It tells everybody how far it is, and again when it starts.
	r.mustStart(0)
	r.ready(0)
	r.stop(2)
	c.enqueue(r.peers[0].APIURL, acknowledged)
	r.stop(0)
	r.stop(1)

	r.empty(0)
	if err := os.CopyFS(r.dirs[0], os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	r.mustStart(2)
	r.relisten(0)
	err := r.start(0)
	if err == nil { // The question before the start was not answered in time, and is asked again.
		select {
		case err = <-r.nodes[0].Ended():
		case <-time.After(patience):
		}
		r.stop(0)
	}
	if !errors.Is(err, node.ErrRefused) {
		t.Fatalf("start with an older copy: %v, want ErrRefused", err)
	}
	r.relisten(0)
	r.stop(2)
	if err := r.start(0); !errors.Is(err, node.ErrRefused) {
		t.Fatalf("start where nobody knows: %v, want ErrRefused", err)
	}
	r.mustStart(2)
	r.mustStart(1)
	r.ready(1, 2)
	if got := c.count(r.peers[1].APIURL); got != acknowledged+6 {
		t.Errorf("%d jobs left of %d", got, acknowledged+6)
	}
}

func TestCell_ARemovedNodeEnds(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"while it runs": true, "while it is away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := formedCell(t, 3)
			if !running {
				r.stop(2)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for err := errors.New("not yet"); err != nil; { // The nodes may not have met yet.
				if err = r.admin().RemoveNode(ctx, "n3"); err != nil && ctx.Err() != nil {
					t.Fatal(err)
				}
			}
			if running {
				select {
				case err := <-r.nodes[2].Ended():
					if !errors.Is(err, node.ErrRefused) {
						t.Errorf("it ended with %v, want ErrRefused", err)
					}
				case <-ctx.Done():
					t.Fatal("it goes on")
				}
				r.stop(2)
			}
			r.relisten(2)
			if err := r.start(2); !errors.Is(err, node.ErrRefused) {
				t.Errorf("start: %v, want ErrRefused", err)
			}
		})
	}
}

func TestForm_AsksAllNodesFirstAndGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	for i := range 2 {
		r.mustStart(i)
		defer r.stop(i)
	}
	down := r.lns[2]
	if err := errors.Join(down[0].Close(), down[1].Close()); err != nil {
		t.Fatal(err)
	}
	r.lns[2] = [2]net.Listener{}
	if _, err := r.form(); !errors.Is(err, celladmin.ErrNotFormed) {
		t.Fatalf("with a node away: %v, want ErrNotFormed", err)
	}
	r.mustStart(2)
	defer r.stop(2)
	// The first step reached one node, and the command died.
	id := node.NewCellID()
	r.prepareOne(1, id)
	r.stop(1)
	r.mustStart(1)
	formed, err := r.form()
	if err != nil || formed.CellID != id || formed.Already {
		t.Fatalf("formed %+v, %v, want cell %s", formed, err, id)
	}
	r.ready(0, 1, 2)
	again, err := r.form()
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
	signer, err := identity.NewSigner([]byte(rigSecret))
	if err != nil {
		r.t.Fatal(err)
	}
	req := &cellv1.PrepareRequest{CellId: cellID}
	var clients []cellv1connect.FormationServiceClient
	for _, url := range r.urls() {
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
