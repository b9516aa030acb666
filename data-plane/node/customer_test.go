package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// customer makes calls to nodes in the namespace of a tenant, signed as a proxy does.
type customer struct {
	t      *testing.T
	signer *identity.Signer
	who    identity.Identity
	client *http.Client
	// jobs are those that were acknowledged: an answer to their enqueue named their id.
	jobs map[string]bool
	done map[string]bool // Those whose ack was answered.
}

func (r *cellRig) customer() customer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := r.Admin()
	tenant, err := admin.CreateTenant(ctx, "acme", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	var ns *cellv1.Namespace
	eventually.NoError(r.t, patience, "the tenant's namespace is known", func() error {
		state, err := admin.State(ctx)
		if err == nil {
			ns, err = celladmin.FindNamespace(state, tenant.GetId(), celladmin.DefaultNamespace)
		}
		return err
	})
	signer, err := identity.NewSigner(cellsecret.Must([]byte(nodetest.Secret)))
	if err != nil {
		r.t.Fatal(err)
	}
	return customer{r.t, signer, identity.Identity{
		TenantID: tenant.GetId(), TenantName: "acme", NamespaceID: ns.GetId(), Namespace: "default",
		Principal: "key_000000000000", Grants: permission.Here{All: permission.OfLevel(permission.OfNamespace)},
	}, http.DefaultClient, make(map[string]bool), make(map[string]bool)}
}

// call makes one call and returns its status, 0 for none.
func (c customer) call(url, path, body string) int {
	c.t.Helper()
	status, _ := c.post(url+path, json.RawMessage(body))
	return status
}

func (c customer) post(url string, body any) (status int, answer map[string]any) {
	c.t.Helper()
	return c.as(c.who, http.MethodPost, url, body)
}

// as makes one call as somebody else. Some answers are empty.
func (c customer) as(who identity.Identity, method, url string, body any) (status int, answer map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	if who.ExpiresAt.IsZero() {
		who.ExpiresAt = time.Now().Add(identity.LifeMax)
	}
	if err := c.signer.SignRequest(r, who); err != nil {
		c.t.Fatal(err)
	}
	res, err := c.client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&answer) // Nor is every answer JSON.
	return res.StatusCode, answer
}

// enqueue makes n jobs and waits until each is acknowledged.
func (c customer) enqueue(url string, n int) {
	c.t.Helper()
	for range n {
		c.enqueueOne(url, map[string]any{})
	}
}

// enqueueOne sends a job until its answer comes, always with the same idempotency key: a
// call whose answer was lost may have been done, and without a key the next try would
// make a second job that nobody knows of.
func (c customer) enqueueOne(url string, job map[string]any) {
	c.t.Helper()
	job["queue"], job["idempotency_key"] = "mail", fmt.Sprintf("job-%d", len(c.jobs)+1)
	eventually.NoError(c.t, patience, fmt.Sprintf("job %v is taken", job), func() error {
		status, answer := c.post(url+"/api/v1/enqueue", job)
		id, _ := answer["job_id"].(string)
		switch {
		case status != http.StatusCreated && status != http.StatusOK || id == "":
			return fmt.Errorf("%d %v", status, answer)
		case c.jobs[id]:
			c.t.Fatalf("two enqueues were answered with job %s", id)
		}
		c.jobs[id] = true
		return nil
	})
}

// losesNothing fails the test unless the cell has the acknowledged jobs, each once.
func (c customer) losesNothing(url string) {
	c.t.Helper()
	if err := c.workOff(url, patience); err != nil {
		c.t.Fatal(err)
	}
}

// workerLease is how long a job is out of reach whose fetch was not answered.
const workerLease = 3 * time.Second

// workOff does all acknowledged jobs, in the limit, as a worker of the queue, and says what is
// missing or too much. It counts the jobs themselves, and not answers: one that is lost
// leaves a job leased, which is handed out again when the lease has ended.
func (c customer) workOff(url string, limit time.Duration) error {
	c.t.Helper()
	left := maps.Clone(c.jobs)
	maps.DeleteFunc(left, func(id string, _ bool) bool { return c.done[id] })
	for until := time.Now().Add(limit); len(left) > 0; {
		if time.Now().After(until) {
			return fmt.Errorf("of %d acknowledged jobs these were not handed out: %s; the queue: %w", len(c.jobs), names(left), c.queueIs(url))
		}
		status, job := c.post(url+"/api/v1/fetch", map[string]any{
			"queues": []string{"mail"}, "worker_id": "w", "wait": "100ms", "lease": workerLease.String(),
		})
		id, _ := job["job_id"].(string)
		switch {
		case status == http.StatusNoContent || id == "": // None is ready, or no node knows.
		case !c.jobs[id]:
			return fmt.Errorf("job %s was made, and is of no enqueue that was answered", id)
		case !left[id]:
			return fmt.Errorf("job %s was handed out again after its ack was answered", id)
		case c.acks(url, id, job["lease_token"]):
			delete(left, id)
			c.done[id] = true
		}
	}
	return c.queueIs(url)
}

// acks completes a job, or learns that its lease has ended. The token makes it safe to repeat.
func (c customer) acks(url, id string, token any) (done bool) {
	c.t.Helper()
	eventually.NoError(c.t, patience, "an ack is answered", func() error {
		status, answer := c.post(url+"/api/v1/ack/"+id, map[string]any{"lease_token": token})
		if status != http.StatusOK && status != http.StatusConflict {
			return fmt.Errorf("%d %v", status, answer)
		}
		done = status == http.StatusOK
		return nil
	})
	return done
}

var errNotExactly = errors.New("not exactly the acknowledged jobs, all of them done")

// queueIs is nil if the queue has had the acknowledged jobs and no others, and all are done.
func (c customer) queueIs(url string) error {
	c.t.Helper()
	var queue map[string]any
	eventually.True(c.t, patience, "the queue's counts are read", func() (ok bool) {
		var status int
		status, queue = c.as(c.who, http.MethodGet, url+"/api/v1/queues/mail", nil)
		return status == http.StatusOK
	})
	if n := float64(len(c.jobs)); queue["enqueued"] != n || queue["completed"] != n {
		return fmt.Errorf("%w: %v", errNotExactly, queue)
	}
	return nil
}

func names(ids map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
}

// losing loses answers of calls that were made: those of every fourth enqueue and ack, and
// of the first fetch.
type losing struct{ calls map[string]int }

var errLost = errors.New("the answer is lost")

func (l losing) RoundTrip(r *http.Request) (*http.Response, error) {
	call := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")[0]
	res, err := http.DefaultTransport.RoundTrip(r)
	l.calls[call]++
	if n := l.calls[call]; err == nil && (n%4 == 0 && call != "fetch" || n == 1 && call == "fetch") {
		_ = res.Body.Close()
		return nil, errLost
	}
	return res, err
}

// Whatever is lost on the way, a test that counts jobs fails for lost and doubled jobs, and
// for nothing else.
func TestCustomer_CountsJobsAndNotAnswers(t *testing.T) {
	t.Parallel()
	r := formedCell(t, 1)
	c := r.customer()
	c.client = &http.Client{Transport: losing{make(map[string]int)}}
	url := r.Places[0].APIURL
	c.enqueue(url, 10)
	c.losesNothing(url)

	c.enqueue(url, 1)
	known := maps.Clone(c.jobs)
	c.call(url, "/api/v1/enqueue", `{"queue":"mail"}`)
	if err := c.workOff(url, patience); err == nil {
		t.Error("a job too many isn't noticed")
	}
	c.jobs = maps.Clone(known)
	c.jobs["job_00000000000000000000000000"] = true
	if err := c.workOff(url, time.Second); err == nil {
		t.Error("a missing job isn't noticed")
	}
}

// deaf is a raft listener whose connections answer nothing while its lock is held.
type deaf struct {
	net.Listener
	held *sync.RWMutex
}

func (d deaf) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	return deafConn{c, d.held}, err
}

type deafConn struct {
	net.Conn
	held *sync.RWMutex
}

func (d deafConn) Write(b []byte) (int, error) {
	d.held.RLock()
	defer d.held.RUnlock()
	return d.Conn.Write(b)
}

// The followers hear their leader and it does not hear them, as on a machine that is too
// busy: it gives up in the middle of a call, which is done all the same.
func TestCall_ALeaderThatGivesUpInItsMiddleLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	var held sync.RWMutex
	r := newCellRig(t, 3)
	r.Change = func(_ int, c *node.Config) { c.Raft = deaf{c.Raft, &held} }
	r.startAndForm()
	r.Ready()
	c := r.customer()
	url := r.Places[0].APIURL
	duringLoss := func(do func()) {
		t.Helper()
		var done sync.WaitGroup
		held.Lock()
		done.Go(do)
		led := func() (n int) {
			for _, node := range r.Nodes {
				n += node.Leads()
			}
			return n
		}
		defer done.Wait()
		defer held.Unlock()
		eventually.True(t, patience, "leaders that hear nobody give up", func() bool { return led() == 0 })
	}
	duringLoss(func() { c.enqueue(url, 5) })
	r.Ready()
	duringLoss(func() { c.losesNothing(url) })
}
