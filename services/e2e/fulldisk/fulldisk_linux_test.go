package fulldisk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// waits is how long something may take that happens within seconds.
const waits = 30 * time.Second

// One disk after the other fills up: new jobs are refused as soon as a quorum would depend on a
// full disk, leases after that; what was acknowledged stays; and everything comes back by itself.
func TestFullDisk_RefusesBeforeTheQuorumDependsOnIt(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") == "" {
		t.Skip("CORVO_TEST_LONG is not set: make full-disk")
	}
	var disks [3]rig.Volume
	var log rig.Volume // Of the third node, whose log is on a disk of its own.
	for _, v := range []*rig.Volume{&disks[0], &disks[1], &disks[2], &log} {
		var ok bool
		if *v, ok = rig.NewVolume(t); !ok {
			t.Skip("SKIPPED, NOTHING WAS TESTED: this needs the right to mount a file system; run it as root")
		}
	}
	c := rig.StartCell(t, rig.CellOptions{Machine: func(i int) rig.Machine {
		m := rig.Machine{Dir: filepath.Join(disks[i].Dir, "data")}
		if i == 2 {
			m.Args = []string{"--log-dir", filepath.Join(log.Dir, "log")}
		}
		return m
	}})
	r := &run{T: t, Cell: c, history: rig.NewHistory()}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r.mustEnqueue(50)
	active := r.mustFetch()

	r.step("one disk of three, the log's, at 92 %: nothing is refused")
	log.Fill(t, 92)
	r.awaitCause("n3", "disk_nearly_full", log.Dir)
	r.mustEnqueue(20)

	r.step("two of three at 92 %: new jobs are refused, acks and fetches go on")
	disks[1].Fill(t, 92)
	r.awaitCause("n2", "disk_nearly_full", disks[1].Dir)
	r.awaitRefusal("n2", "n3")
	r.mustAck(active)
	active = r.mustFetch()

	r.step("two of three at 98 %: no leases, acks go on")
	log.Fill(t, 98)
	disks[1].Fill(t, 98)
	r.awaitCause("n3", "disk_full", log.Dir)
	r.awaitCause("n2", "disk_full", disks[1].Dir)
	r.awaitNoLeases()
	r.mustAck(active)

	r.step("space is freed: everything comes back by itself")
	log.Free(t)
	disks[1].Free(t)
	r.awaitJobs()
	r.mustAck(r.mustFetch())

	r.step("one disk without a byte left, under load: the others go on")
	load := rig.StartLoad(r.history, rig.LoadOptions{}, c.Tenant(0))
	disks[0].Fill(t, 100)
	r.awaitCause("n1", "disk_full", "")
	time.Sleep(5 * time.Second) // Load on a full disk: what is waited for is that nothing happens.
	r.mustEnqueue(20)
	load.Stop()

	r.step("space is freed there: the node is, or can be started, as before")
	disks[0].Free(t)
	if c.Nodes[0].Exited() {
		t.Logf("the node ended: %s", c.Nodes[0].Stderr())
		c.Nodes[0].Start()
		c.Nodes[0].WaitReady(waits)
	}
	eventually.True(t, waits, "n1 to be fit", func() bool { text, known := r.causes("n1"); return known && text == "" })
	r.mustEnqueue(20)

	r.step("all disks filled by jobs, of 200 KB each, until they are refused")
	for i := range disks {
		disks[i].Fill(t, 55)
	}
	log.Fill(t, 55)
	r.enqueueUntilRefused()
	for i := range disks {
		t.Logf("disk of n%d: %.0f %% used", i+1, disks[i].Used(t))
		disks[i].Free(t)
	}
	log.Free(t)
	r.awaitJobs()
	enqueued, acked := r.history.Counts()
	t.Logf("%d jobs acknowledged, %d of them as done", enqueued, acked)
	r.history.Audit(r.ctx, t, c.Tenant(0))
}

type run struct {
	*testing.T
	*rig.Cell
	ctx     context.Context // Of the whole run.
	history *rig.History
}

func (r *run) step(text string) { r.T.Helper(); r.Log(text) }

func (r *run) mustEnqueue(n int) {
	r.T.Helper()
	for range n {
		id, err := r.Tenant(0).Enqueue(r.ctx, "mail", map[string]any{"n": 1})
		if err != nil {
			r.Fatal(err)
		}
		r.history.Enqueued(id)
	}
}

func (r *run) mustFetch() rig.Job {
	r.T.Helper()
	asked := time.Now()
	job, ok, err := r.Tenant(0).FetchLease(r.ctx, "mail", "w", 5*time.Second, 10*time.Minute)
	if err != nil || !ok {
		r.Fatalf("fetch: %v, %v", ok, err)
	}
	r.history.Fetched(job.JobID, asked)
	return job
}

func (r *run) mustAck(job rig.Job) {
	r.T.Helper()
	if err := r.Tenant(0).Ack(r.ctx, job); err != nil {
		r.Fatal(err)
	}
	r.history.Acked(job.JobID)
}

// causes are a node's reasons not to lead, as text.
func (r *run) causes(id string) (text string, known bool) {
	nodes, err := r.Status()
	if err != nil {
		return "", false
	}
	for _, n := range nodes {
		if n.GetNode().GetId() == id && n.GetReachable() {
			for _, c := range n.GetCauses() {
				text += c.GetReason() + " " + c.GetDetail() + "; "
			}
			return text, true
		}
	}
	return "", false
}

func (r *run) awaitCause(id, reason, detail string) {
	r.T.Helper()
	eventually.True(r.T, waits, id+" says "+reason, func() bool {
		text, known := r.causes(id)
		return known && strings.Contains(text, reason+" ") && strings.Contains(text, detail) || !known && detail == ""
	})
}

// awaitRefusal waits until new jobs are refused on account of these nodes.
func (r *run) awaitRefusal(nodes ...string) {
	r.T.Helper()
	eventually.True(r.T, waits, fmt.Sprint("new jobs are refused for ", nodes), func() bool {
		text := r.refusal()
		return strings.Contains(text, "("+strings.Join(nodes, ", ")+")")
	})
}

// refusal tries a new job and returns why it was refused for a full disk, or "".
func (r *run) refusal() string {
	r.T.Helper()
	id, err := r.Tenant(0).Enqueue(r.ctx, "mail", map[string]any{"n": 1})
	var refused *rig.Refusal
	switch {
	case err == nil:
		r.history.Enqueued(id)
		return ""
	case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests && strings.Contains(refused.Body, "DISK_FULL"):
		return refused.Body
	default:
		r.Fatal(err)
		return ""
	}
}

func (r *run) awaitJobs() {
	r.T.Helper()
	eventually.True(r.T, waits, "new jobs are accepted", func() bool { return r.refusal() == "" })
}

// awaitNoLeases waits until a fetch is given nothing although there are jobs.
func (r *run) awaitNoLeases() {
	r.T.Helper()
	eventually.True(r.T, waits, "no leases", func() bool {
		job, ok, err := r.Tenant(0).Fetch(r.ctx, "mail", "w", time.Second)
		if err != nil {
			r.Fatal(err)
		}
		if ok {
			r.mustAck(job)
		}
		return !ok
	})
}

// enqueueUntilRefused fills the disks with jobs.
func (r *run) enqueueUntilRefused() {
	r.T.Helper()
	payload := strings.Repeat("full disk ", 20_000)
	for n := 0; ; n++ {
		id, err := r.Tenant(0).Enqueue(r.ctx, "large", map[string]any{"n": n, "text": payload})
		var refused *rig.Refusal
		if errors.As(err, &refused) && strings.Contains(refused.Body, "DISK_FULL") {
			r.Logf("refused after %d jobs: %s", n, refused.Body)
			return
		}
		if errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable {
			continue // A node that is nearly full hands over.
		}
		if err != nil {
			r.Fatal(err)
		}
		r.history.Enqueued(id)
	}
}
