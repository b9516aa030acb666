package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Waits of a long poll.
const (
	// waitEarly is taken off the wait of existing clients, whose own HTTP timeout
	// equals the wait they ask for.
	waitEarly     = 2 * time.Second
	waitEarlyFrom = 10 * time.Second
)

type fetchRequest struct {
	in      queue.FetchInput
	timeout *time.Duration
	lease   *time.Duration
	wait    *time.Duration
}

var fetchShape = shape.New("FetchRequest",
	shape.Texts("queues", "Queues to fetch from, in turn.", func(in *fetchRequest) *[]string { return &in.in.Queues }).Must(),
	shape.Text("worker_id", "Name of the worker.", func(in *fetchRequest) *string { return &in.in.WorkerID }),
	shape.Text("hostname", "Host the worker runs on.", func(in *fetchRequest) *string { return &in.in.Hostname }),
	shape.Int("count", "fetch/batch: maximum number of jobs; default 1. Jobs that don't fit into 3 MiB together come with the next fetch.", func(in *fetchRequest, n int) { in.in.Count = n }),
	shape.Span("timeout", "Sets both lease and wait. Left out or 0: a lease of 60 s and a wait of 30 s. The wait is at most 60 s.",
		func(in *fetchRequest, d time.Duration) { in.timeout = &d }),
	shape.Span("lease", "How long the lease lasts before you have to renew it.", func(in *fetchRequest, d time.Duration) { in.lease = &d }),
	shape.Span("wait", "How long to wait for a job; 0 returns immediately.", func(in *fetchRequest, d time.Duration) { in.wait = &d }),
).Strictly()

// input resolves the two ways to say how long. A lone timeout means both, and its
// answer comes a little before a client with the same timeout gives up.
func (f *fetchRequest) input() queue.FetchInput {
	in := f.in
	in.Wait = queue.WaitDefault
	if f.timeout != nil && *f.timeout != 0 {
		in.Lease, in.Wait = *f.timeout, min(*f.timeout, queue.WaitMax)
	}
	if f.lease != nil {
		in.Lease = *f.lease
	}
	if f.wait != nil {
		in.Wait = *f.wait
		return in
	}
	in.Wait = early(in.Wait)
	return in
}

func early(wait time.Duration) time.Duration {
	if wait >= waitEarlyFrom {
		return wait - waitEarly
	}
	return wait
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// readFetch decodes a fetch, naming every problem at once.
func (c *call) readFetch(count int) (queue.FetchInput, error) {
	req := fetchRequest{in: queue.FetchInput{Count: count}}
	b, err := c.parse()
	if err != nil {
		return queue.FetchInput{}, err
	}
	var d shape.Decoder
	fetchShape.Read(&d, "", b, &req)
	in := req.input()
	if len(d.Problems) > 0 {
		d.Also("", in.Check(), shape.AsIs)
	}
	return in, d.Err()
}

func (c *call) fetch() error {
	in, err := c.readFetch(1)
	if err != nil {
		return err
	}
	in.Count = 1 // A count belongs to fetch/batch.
	grants, err := c.longPoll(in)
	switch {
	case err != nil:
		return err
	case len(grants) > 0:
		return c.deliver(grants, &grants[0])
	case wantsBody(c.r):
		return c.reply(wire.FetchedJob{Payload: json.RawMessage("{}")})
	}
	stamp(c.r.Context(), c.w.Header())
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// wantsBody: the Rust client of generation 1 takes an empty answer for an error
// and sleeps; it understands an empty job. It says who it is only if its user made it.
func wantsBody(r *http.Request) bool {
	agent := r.UserAgent()
	return agent == "" || strings.HasPrefix(agent, "reqwest") || strings.Contains(agent, "corvo-rust")
}

func (c *call) fetchBatch() error {
	in, err := c.readFetch(1)
	if err != nil {
		return err
	}
	grants, err := c.longPoll(in)
	if err != nil {
		return err
	}
	a := wire.FetchedJobs{Jobs: grants}
	if len(grants) == 0 {
		a.Jobs, a.Held = []wire.FetchedJob{}, c.place.Local.DispatchHeld(c.who.Caller.Namespace) // Which is not null.
	}
	return c.deliver(grants, a)
}

// longPoll fetches until the wait ends, the client leaves or the server drains.
func (c *call) longPoll(in queue.FetchInput) ([]wire.FetchedJob, error) {
	ctx, cancel := c.s.untilDrain(c.r.Context())
	defer cancel()
	if waited := c.waited(); waited > waitedFrom {
		in.Wait = max(0, in.Wait-waited)
	}
	grants, err := c.place.Local.Fetch(ctx, c.who.Caller, in)
	if err != nil && c.s.isDraining() && errors.Is(err, context.Canceled) {
		return nil, nil // Nothing came before we had to go.
	}
	if len(grants) == 0 {
		c.sayHeld()
	}
	if err != nil || len(grants) == 0 {
		return nil, err
	}
	if err = c.r.Context().Err(); err == nil {
		c.unread, err = c.s.takeJobs(c.tenant(), grants)
	}
	if err != nil {
		c.s.release(c.place.Local, c.who.Caller, in.WorkerID, grants)
		return nil, err
	}
	return grants, nil
}

// sayHeld tells why a fetch found nothing in a header, because clients take an empty answer
// of a certain form for one.
func (c *call) sayHeld() {
	if h := c.place.Local.DispatchHeld(c.who.Caller.Namespace); h != nil {
		c.w.Header().Set(wire.DispatchHeldHeader, h.Limit)
	}
}

// deliver sends granted jobs, and gives them back at once when the client went before
// it could read them all. What it may have read is never taken back: if it did not,
// the leases end.
func (c *call) deliver(grants []wire.FetchedJob, answer any) error {
	buf := getBuffer()
	defer putBuffer(buf)
	err := encodeAnswer(buf, answer)
	if err == nil {
		err = handOver(c.w, c.r, "application/json", buf.Bytes())
	}
	if err != nil {
		c.s.log.Debug("jobs not delivered", "request_id", c.id, "jobs", len(grants), "err", err)
		c.s.release(c.place.Local, c.who.Caller, "", grants)
	}
	return nil
}

// release gives back jobs whose worker never saw them, without spending the
// attempt; what can not be given back waits for its lease to end.
func (s *Server) release(jobs *queue.Service, caller queue.Caller, workerID string, grants []wire.FetchedJob) {
	if len(grants) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	in := make([]queue.FailInput, len(grants))
	for i := range grants {
		id, _ := job.ParseID(grants[i].JobID) // We wrote it.
		in[i] = queue.FailInput{JobID: id, Token: grants[i].LeaseToken, WorkerID: workerID, Release: true}
	}
	if _, err := jobs.Fail(ctx, caller, in); err != nil {
		s.log.Warn("undelivered jobs not released", "jobs", len(grants), "err", err)
	}
}
