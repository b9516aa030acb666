package isolation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// tenant is one of two that use the same names.
type tenant struct {
	name       string
	id         string
	key        string            // Admin, all namespaces.
	canary     string            // Is part of everything that the tenant wrote.
	ledger     string            // A queue that no other tenant has or mentions.
	asked      map[string]string // Another for each route, at which alone others ask about it.
	namespaces []*namespace
}

type namespace struct {
	name  string
	id    string
	shard uint32
	jobs  []job
	// things are ids of everything but jobs, by kind.
	things map[string]string
}

// job is what somebody may know about a job.
type job struct {
	id    string
	token string // Of its latest lease, if there was one.
	state string
}

var namespaceNames = []string{celladmin.DefaultNamespace, "staging"}

// random is a job that never was. It keeps j's token, so that two calls differ in
// nothing but the id.
func (j job) random() job {
	j.id = "job_" + crockford(26)
	return j
}

const crockfordLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func crockford(n int) string {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(err) // Never: see crypto/rand.
	}
	for i := range b {
		b[i] = crockfordLetters[b[i]%32]
	}
	b[0] = '0' // 26 characters hold two bits more than an id has.
	return string(b)
}

func onlyQueue(name string) string { return name + "-" + strings.ToLower(rand.Text()[:8]) }

func hexByte(b byte) string { return fmt.Sprintf("%02x", b) }

// settle makes the tenant, its namespaces and jobs in every state.
func settle(t *testing.T, c *rig.Cell, name string, asked map[string]string) *tenant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := &tenant{name: name, canary: "CANARY" + rand.Text(), ledger: onlyQueue("ledger"), asked: asked}
	if name != rig.CellTenant { // The rig has made that one.
		if _, err := c.Admin.CreateTenant(ctx, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range namespaceNames[1:] {
		if _, err := c.Admin.CreateNamespace(ctx, name, ns, nil); err != nil {
			t.Fatal(err)
		}
	}
	key, err := c.Admin.CreateKey(ctx, celladmin.NewKey{Tenant: name, Name: "k", Roles: []string{"admin"}, Kind: apikey.DataPlane})
	if err != nil {
		t.Fatal(err)
	}
	b.key = key.Reveal()
	state, err := c.Admin.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	record, err := celladmin.FindTenant(state, name)
	if err != nil {
		t.Fatal(err)
	}
	b.id = record.GetId()
	for _, ns := range namespaceNames {
		n, err := celladmin.FindNamespace(state, b.id, ns)
		if err != nil {
			t.Fatal(err)
		}
		b.namespaces = append(b.namespaces, &namespace{name: ns, id: n.GetId(), shard: n.GetShard()})
	}
	for _, ns := range b.namespaces {
		b.waitKnown(ctx, t, c, ns)
		b.work(ctx, t, c, ns)
	}
	return b
}

// waitKnown waits until the proxy knows the key and the namespace.
func (b *tenant) waitKnown(ctx context.Context, t *testing.T, c *rig.Cell, ns *namespace) {
	t.Helper()
	for {
		err := b.call(ctx, c, ns, "GET", "/api/v1/queues", nil, nil)
		if err == nil {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the proxy does not let %s in: %v", b.name, err)
		}
	}
}

// work brings one job into every state. The times are long: nothing moves by itself
// while the test looks.
func (b *tenant) work(ctx context.Context, t *testing.T, c *rig.Cell, ns *namespace) {
	t.Helper()
	call := func(method, path string, in, out any) {
		t.Helper()
		if err := b.call(ctx, c, ns, method, path, in, out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	enqueue := func(queue string, with o) job {
		in := o{"queue": queue, "payload": o{"secret": b.canary}, "tags": o{tagName: b.canary}}
		for k, v := range with {
			in[k] = v
		}
		var out struct {
			JobID string `json:"job_id"`
		}
		call("POST", "/api/v1/enqueue", in, &out)
		return job{id: out.JobID}
	}
	fetch := func() (j job) {
		var out struct {
			JobID string `json:"job_id"`
			Token string `json:"lease_token"`
		}
		call("POST", "/api/v1/fetch", o{"queues": []string{queue}, "worker_id": worker, "wait": "5s", "lease": "2h"}, &out)
		return job{id: out.JobID, token: out.Token}
	}
	keep := func(j job, state string) {
		j.state = state
		ns.jobs = append(ns.jobs, j)
	}

	enqueue(queue, nil)
	j := fetch()
	call("POST", "/api/v1/ack/"+j.id, o{"lease_token": j.token, "result": o{"secret": b.canary}}, nil)
	keep(j, "completed")
	for state, with := range map[string]o{"retrying": {"max_retries": 5, "retry_base_delay": "2h", "retry_max_delay": "2h"}, "dead": {"max_retries": 1}} {
		enqueue(queue, with)
		j = fetch()
		call("POST", "/api/v1/fail/"+j.id, o{"lease_token": j.token, "error": b.canary, "backtrace": b.canary}, nil)
		keep(j, state)
	}
	j = enqueue(queue, nil)
	call("POST", "/api/v1/jobs/"+j.id+"/cancel", nil, nil)
	keep(j, "cancelled")
	keep(enqueue(queue, o{"scheduled_at": time.Now().Add(2 * time.Hour).Format(time.RFC3339)}), "scheduled")
	enqueue(queue, nil)
	j = fetch()
	call("POST", "/api/v1/heartbeat", o{"worker_id": worker, "jobs": o{
		j.id: o{"lease_token": j.token, "progress": o{"secret": b.canary}, "checkpoint": o{"secret": b.canary}},
	}}, nil)
	keep(j, "active")
	keep(enqueue(queue, o{"unique_key": uniqueKey, "idempotency_key": idempotency}), "pending")
	keep(enqueue(b.ledger, nil), "pending")
	for _, queue := range b.asked {
		enqueue(queue, nil)
	}
	b.group(call, ns)
	for _, j := range ns.jobs {
		var out rig.Job
		call("GET", "/api/v1/jobs/"+j.id, nil, &out)
		if out.State != j.state {
			t.Fatalf("a job that should be %s is %s", j.state, out.State)
		}
	}
}

// group makes an open batch and a chain, each with a job that nobody fetches, and a
// schedule that is paused.
func (b *tenant) group(call func(method, path string, in, out any), ns *namespace) {
	var out struct {
		BatchID string `json:"batch_id"`
		ChainID string `json:"chain_id"`
	}
	call("POST", "/api/v1/batches", o{"callback_queue": b.ledger, "callback_payload": o{"secret": b.canary}}, &out)
	call("POST", "/api/v1/enqueue", o{"queue": b.ledger, "batch_id": out.BatchID, "chain": o{
		"steps": []o{{"queue": b.ledger}, {"queue": b.ledger, "payload": o{"secret": b.canary}}},
	}}, &out)
	var made struct {
		ID string `json:"id"`
	}
	call("POST", "/api/v1/schedules", o{"name": "nightly", "cron": "@yearly", "queue": queue, "paused": true, "payload": o{"secret": b.canary}}, &made)
	var begun struct {
		ID string `json:"bulk_operation_id"`
	}
	call("POST", "/api/v1/jobs/bulk", o{"action": "requeue", "filter": o{"queue": b.ledger, "state": []string{"dead"}}, "async": true}, &begun)
	ns.things = map[string]string{aBatch: out.BatchID, aChain: out.ChainID, aSchedule: made.ID, aBulk: begun.ID}
}

// call is one the tenant makes for itself.
func (b *tenant) call(ctx context.Context, c *rig.Cell, ns *namespace, method, path string, in, out any) error {
	a := request{method: method, base: c.Proxies[0].URL, path: path, body: in, key: b.key, headers: map[string]string{"X-Corvo-Namespace": ns.name}}
	answer, err := a.send(ctx)
	switch {
	case err != nil:
		return err
	case answer.status >= http.StatusBadRequest:
		return fmt.Errorf("status %d: %s", answer.status, answer.body)
	case out == nil:
		return nil
	}
	return json.Unmarshal([]byte(answer.body), out)
}

// snapshot is everything that the tenant can see of its own.
func (b *tenant) snapshot(t *testing.T, c *rig.Cell) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all strings.Builder
	for _, ns := range b.namespaces {
		paths := []string{"/api/v1/queues"}
		for _, j := range ns.jobs {
			paths = append(paths, "/api/v1/jobs/"+j.id)
		}
		for kind, path := range map[string]string{aBatch: "/api/v1/batches/", aChain: "/api/v1/chains/", aSchedule: "/api/v1/schedules/"} {
			paths = append(paths, path+ns.things[kind])
		}
		slices.Sort(paths)
		for _, path := range paths {
			var raw json.RawMessage
			if err := b.call(ctx, c, ns, "GET", path, nil, &raw); err != nil {
				t.Fatalf("%s of %s: %v", path, b.name, err)
			}
			fmt.Fprintf(&all, "%s %s %s\n", ns.name, path, raw)
		}
	}
	return all.String()
}

// secrets are texts that no answer to somebody else may contain.
func (b *tenant) secrets() []string {
	secrets := []string{b.canary, b.id, b.key, b.ledger}
	for _, ns := range b.namespaces {
		secrets = append(secrets, ns.id)
		for _, id := range ns.things {
			secrets = append(secrets, id)
		}
		for _, j := range ns.jobs {
			secrets = append(secrets, j.id)
			if j.token != "" {
				secrets = append(secrets, j.token)
			}
		}
	}
	return secrets
}

func (b *tenant) jobs() (all []job) {
	for _, ns := range b.namespaces {
		all = append(all, ns.jobs...)
	}
	return all
}
