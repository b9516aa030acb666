package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// offClock is the machine's clock with a wall that somebody set wrong.
type offClock struct{ off atomic.Int64 }

var testStart = time.Now()

func (c *offClock) Now() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0).Add(time.Duration(c.off.Load())), now.Sub(testStart)
}

const clockSecret = "a secret of at least sixteen bytes"

// clockedRig is a cell whose calls the test signs as a proxy does.
type clockedRig struct {
	nodes  []*node.Node
	clocks []*offClock
	caller identity.Identity
	admin  *celladmin.Client
}

// call makes a call in the rig's namespace, or as a part of the cell.
func (r *clockedRig) call(t *testing.T, method, url, path string, who identity.Identity, body any) (int, map[string]any) {
	t.Helper()
	signer, err := identity.NewSigner([]byte(clockSecret))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if who.ExpiresAt.IsZero() {
		who.ExpiresAt = time.Now().Add(identity.LifeMax)
	}
	if err := signer.SignRequest(req, who); err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out map[string]any
	_ = json.NewDecoder(res.Body).Decode(&out) // Some answers are empty.
	return res.StatusCode, out
}

// clockedCell is three nodes whose walls the test sets, ready.
func clockedCell(t *testing.T, off ...time.Duration) *clockedRig {
	t.Helper()
	out := &clockedRig{}
	r, cell := newCellRig(t, len(off)), node.NewCellID()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i, d := range off {
		c := &offClock{}
		c.off.Store(int64(d))
		n, err := node.Start(ctx, node.Config{
			ID: r.peers[i].ID, Dir: r.dirs[i], API: r.lns[i][0], Raft: r.lns[i][1],
			Peers: r.peers, Found: &node.Found{CellID: cell, Fresh: true}, Secret: []byte(clockSecret), Clock: c, Shards: 2, Logger: nodetest.Logger(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nodetest.Stop(t, n) })
		out.nodes, out.clocks = append(out.nodes, n), append(out.clocks, c)
	}
	admin, err := celladmin.New([]byte(clockSecret), []string{r.peers[0].APIURL}, celladmin.Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	out.admin = admin
	tenant, err := admin.CreateTenant(ctx, "acme", nil)
	if err != nil {
		t.Fatal(err)
	}
	var ns *cellv1.Namespace
	eventually.True(t, patience, "the tenant's namespace is known", func() bool {
		state, err := admin.State(ctx)
		if err == nil {
			ns, err = celladmin.FindNamespace(state, tenant.GetId(), "default")
		}
		return err == nil
	})
	out.caller = identity.Identity{
		TenantID: tenant.GetId(), TenantName: "acme", NamespaceID: ns.GetId(), Namespace: "default", Principal: "key_test", Roles: []string{"admin"},
	}
	return out
}

// clockState is what a node says of its clock, and which groups it leads.
func (r *clockedRig) clock(t *testing.T, i int) (state string, leads int) {
	t.Helper()
	code, st := r.call(t, "GET", r.nodes[i].URL(), "/api/v1/cluster/status", identity.CellPrincipal("test", time.Now()), nil)
	if code != http.StatusOK {
		return "", 0 // It starts.
	}
	for _, g := range st["groups"].([]any) {
		if g.(map[string]any)["state"] == "leader" {
			leads++
		}
	}
	return fmt.Sprint(st["clock"].(map[string]any)["state"]), leads
}

// enqueueAt enqueues over any node and returns the job as it is shown.
func (r *clockedRig) enqueue(t *testing.T, i int, body map[string]any) map[string]any {
	t.Helper()
	var job map[string]any
	eventually.True(t, patience, "an enqueue is taken", func() bool {
		code, got := r.call(t, "POST", r.nodes[i].URL(), "/api/v1/enqueue", r.caller, body)
		if code == http.StatusUnauthorized {
			t.Fatalf("a wrong clock was answered with 401: %v", got)
		}
		job = got
		return code == http.StatusCreated
	})
	var shown map[string]any
	eventually.True(t, patience, "the job is shown", func() bool {
		code, got := r.call(t, "GET", r.nodes[i].URL(), "/api/v1/jobs/"+job["job_id"].(string), r.caller, nil)
		shown = got
		return code == http.StatusOK
	})
	return shown
}

func wantNow(t *testing.T, job map[string]any) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(job["created_at"]))
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(at); off < -5*time.Second || off > time.Minute {
		t.Fatalf("created_at is %s off", off)
	}
}

// A node whose wall is an hour ahead from the start leads nothing, says so, and moves
// nobody's time; set right, it may lead again.
func TestClock_ANodeThatIsAnHourAheadDoesNotLead(t *testing.T) {
	t.Parallel()
	r := clockedCell(t, 0, 0, time.Hour)
	eventually.True(t, patience, "the odd one out knows, and the others agree", func() bool {
		a, _ := r.clock(t, 0)
		b, _ := r.clock(t, 1)
		return a == "agreed" && b == "agreed" && r.off(t, 2)
	})
	code, got := r.call(t, "GET", r.nodes[2].URL(), "/readyz", r.caller, nil)
	if code != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(got["detail"]), "1h0m0s ahead of") {
		t.Fatalf("/readyz of the odd one out: %d %v", code, got)
	}
	eventually.True(t, patience, "the others say why it is not reachable for them", func() bool {
		nodes, err := r.admin.Nodes(t.Context())
		return err == nil && len(nodes[2].GetCauses()) == 1 && nodes[2].GetCauses()[0].GetReason() == "clock"
	})
	wantNow(t, r.enqueue(t, 0, map[string]any{"queue": "q"}))
	// A call that a proxy with a right clock sends to it.
	if code, got := r.call(t, "POST", r.nodes[2].URL(), "/api/v1/enqueue", r.caller, map[string]any{"queue": "q"}); code != http.StatusServiceUnavailable {
		t.Fatalf("the odd one out answered %d %v", code, got)
	}
	r.clocks[2].off.Store(0)
	eventually.True(t, patience, "set right, it is fit again", func() bool {
		state, _ := r.clock(t, 2)
		code, _ := r.call(t, "GET", r.nodes[2].URL(), "/readyz", r.caller, nil)
		return state == "agreed" && code == http.StatusOK
	})
}

// off reports whether a node knows that its clock is off, and leads nothing. It refuses
// our signature, so that its status is read in its own time.
func (r *clockedRig) off(t *testing.T, i int) bool {
	t.Helper()
	who := identity.CellPrincipal("test", time.Now())
	who.ExpiresAt = time.Now().Add(time.Duration(r.clocks[i].off.Load()) + identity.LifeMax)
	code, st := r.call(t, "GET", r.nodes[i].URL(), "/api/v1/cluster/status", who, nil)
	if code != http.StatusOK || st["clock"].(map[string]any)["state"] != "off" {
		return false
	}
	for _, g := range st["groups"].([]any) {
		if g.(map[string]any)["state"] == "leader" {
			return false
		}
	}
	return true
}

// Whoever leads and whose clock goes off gives leadership away before calendar time
// follows: what is due in half an hour is not due.
func TestClock_ALeaderWhoseClockJumpsLosesLeadershipAndNothingFires(t *testing.T) {
	t.Parallel()
	r := clockedCell(t, 0, 0, 0)
	job := r.enqueue(t, 0, map[string]any{"queue": "q", "scheduled_at": time.Now().Add(30 * time.Minute).Format(time.RFC3339)})
	for i := range r.nodes {
		r.clocks[i].off.Store(int64(time.Hour))
		eventually.True(t, patience, "the node that jumped leads nothing", func() bool { return r.off(t, i) })
		wantNow(t, r.enqueue(t, (i+1)%3, map[string]any{"queue": "q"}))
		r.clocks[i].off.Store(0)
		eventually.True(t, patience, "it is fit again", func() bool { state, _ := r.clock(t, i); return state == "agreed" })
	}
	code, shown := r.call(t, "GET", r.nodes[0].URL(), "/api/v1/jobs/"+job["id"].(string), r.caller, nil)
	if code != http.StatusOK || shown["state"] != "scheduled" {
		t.Fatalf("the job of in half an hour: %d %v", code, shown)
	}
}
