package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// offClock is the machine's clock with a wrong wall clock.
type offClock struct{ off atomic.Int64 }

var testStart = time.Now()

func (c *offClock) Now() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0).Add(time.Duration(c.off.Load())), now.Sub(testStart)
}

// clockedRig is a cell of two shards whose nodes have walls that the test sets.
type clockedRig struct {
	customer
	*nodetest.Cell
	clocks []*offClock
}

// clockedCell is three nodes whose walls the test sets, ready.
func clockedCell(t *testing.T, off ...time.Duration) *clockedRig {
	t.Helper()
	r := newCellRig(t, len(off))
	out := &clockedRig{Cell: r.Cell}
	r.Change = func(i int, c *node.Config) {
		clock := &offClock{}
		clock.off.Store(int64(off[i]))
		c.Clock, c.Shards = clock, 2
		out.clocks = append(out.clocks, clock)
	}
	r.Found()
	out.customer = r.customer()
	return out
}

// clock is what a node reports about its clock, and which groups it leads.
func (r *clockedRig) clock(t *testing.T, i int) (state string, leads int) {
	t.Helper()
	code, st := r.as(identity.CellPrincipal("test", time.Now()), "GET", r.Nodes[i].URL()+"/api/v1/cluster/status", nil)
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

// enqueueAt enqueues through any node and returns the job as shown.
func (r *clockedRig) enqueue(t *testing.T, i int, body map[string]any) map[string]any {
	t.Helper()
	var job map[string]any
	eventually.True(t, patience, "an enqueue is taken", func() bool {
		code, got := r.as(r.who, "POST", r.Nodes[i].URL()+"/api/v1/enqueue", body)
		if code == http.StatusUnauthorized {
			t.Fatalf("a wrong clock was answered with 401: %v", got)
		}
		job = got
		return code == http.StatusCreated
	})
	var shown map[string]any
	eventually.True(t, patience, "the job is shown", func() bool {
		code, got := r.as(r.who, "GET", r.Nodes[i].URL()+"/api/v1/jobs/"+job["job_id"].(string), nil)
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
	code, got := r.as(r.who, "GET", r.Nodes[2].URL()+"/readyz", nil)
	if code != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(got["detail"]), "1h0m0s ahead of") {
		t.Fatalf("/readyz of the odd one out: %d %v", code, got)
	}
	admin := r.Admin()
	eventually.True(t, patience, "the others say why it is not reachable for them", func() bool {
		nodes, err := admin.Nodes(t.Context())
		return err == nil && len(nodes[2].GetCauses()) == 1 && nodes[2].GetCauses()[0].GetReason() == "clock"
	})
	wantNow(t, r.enqueue(t, 0, map[string]any{"queue": "q"}))
	// A call that a proxy with a right clock sends to it.
	if code, got := r.as(r.who, "POST", r.Nodes[2].URL()+"/api/v1/enqueue", map[string]any{"queue": "q"}); code != http.StatusServiceUnavailable {
		t.Fatalf("the odd one out answered %d %v", code, got)
	}
	r.clocks[2].off.Store(0)
	eventually.True(t, patience, "set right, it is fit again", func() bool {
		state, _ := r.clock(t, 2)
		code, _ := r.as(r.who, "GET", r.Nodes[2].URL()+"/readyz", nil)
		return state == "agreed" && code == http.StatusOK
	})
}

// off reports whether a node knows that its clock is off, and leads nothing. It refuses
// our signature, so that its status is read in its own time.
func (r *clockedRig) off(t *testing.T, i int) bool {
	t.Helper()
	who := identity.CellPrincipal("test", time.Now())
	who.ExpiresAt = time.Now().Add(time.Duration(r.clocks[i].off.Load()) + identity.LifeMax)
	code, st := r.as(who, "GET", r.Nodes[i].URL()+"/api/v1/cluster/status", nil)
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

// A leader whose clock jumps hands over leadership before calendar time follows: jobs due
// in half an hour do not fire.
func TestClock_ALeaderWhoseClockJumpsLosesLeadershipAndNothingFires(t *testing.T) {
	t.Parallel()
	r := clockedCell(t, 0, 0, 0)
	job := r.enqueue(t, 0, map[string]any{"queue": "q", "scheduled_at": time.Now().Add(30 * time.Minute).Format(time.RFC3339)})
	for i := range r.Nodes {
		r.clocks[i].off.Store(int64(time.Hour))
		eventually.True(t, patience, "the node that jumped leads nothing", func() bool { return r.off(t, i) })
		wantNow(t, r.enqueue(t, (i+1)%3, map[string]any{"queue": "q"}))
		r.clocks[i].off.Store(0)
		eventually.True(t, patience, "it is fit again", func() bool { state, _ := r.clock(t, i); return state == "agreed" })
	}
	code, shown := r.as(r.who, "GET", r.Nodes[0].URL()+"/api/v1/jobs/"+job["id"].(string), nil)
	if code != http.StatusOK || shown["state"] != "scheduled" {
		t.Fatalf("the job of in half an hour: %d %v", code, shown)
	}
}

// Nodes that say that they share a clock don't ask each other for the time: if they did, the last of
// these would find out that it isn't so, and would not be ready.
func TestClock_NodesThatShareAClockDoNotCompare(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	out := &clockedRig{Cell: r.Cell}
	r.Change = func(i int, c *node.Config) {
		clock := &offClock{}
		clock.off.Store(int64(i/2) * int64(10*time.Second))
		c.Clock, c.SharesClock = clock, true
	}
	r.Found()
	out.customer = r.customer()
	time.Sleep(2 * time.Second) // Twice the time between two questions.
	for i := range r.Nodes {
		state, _ := out.clock(t, i)
		if code, ready := out.as(out.who, "GET", r.Nodes[i].URL()+"/readyz", nil); code != http.StatusOK || state != "agreed" {
			t.Errorf("node %d says %q of its clock, and is ready: %d %v", i, state, code, ready)
		}
	}
}
