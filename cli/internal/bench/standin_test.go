package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// faults are promises to break. Zero breaks none. They are counted, not random: "lose
// every 100th job" fails the same way in every run.
type faults struct {
	loseEvery   int                 // Accept every n-th job and forget it.
	repeatEvery int                 // Hand out every n-th job a second time.
	refuseEvery int                 // Refuse every n-th ack.
	overloads   int                 // How many enqueues are refused first.
	moves       int                 // How many frames are answered NOT_LEADER first.
	uncounted   bool                // List no queues.
	forgets     bool                // Know no job that is asked for.
	revive      bool                // When it is killed, let a completed job wait again.
	invent      bool                // When it is killed, let there be one more completed job.
	status      *wire.ClusterStatus // Nil: that of a relaxed node.
}

// standin is a queue in memory behind the worker protocol that does next to nothing for a
// job and can break promises that the real server keeps.
type standin struct {
	corvov1connect.UnimplementedWorkerServiceHandler

	mu       sync.Mutex // Guards everything below.
	faults   faults
	jobs     map[string]*standinJob
	ready    map[string][]*standinJob // By queue, in order.
	enqueues int
	grants   int
	acks     int
	changed  chan struct{} // Closed and replaced when something becomes ready.
}

type standinJob struct {
	lease // Its token is that of the last grant.
	queue string
	state wire.State
}

func newStandin(f faults) *standin {
	return &standin{faults: f, jobs: make(map[string]*standinJob), ready: make(map[string][]*standinJob), changed: make(chan struct{})}
}

// server serves it.
func (q *standin) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/enqueue", q.httpEnqueue)
	mux.HandleFunc("POST /api/v1/enqueue/batch", q.httpEnqueueBatch)
	mux.HandleFunc("POST /api/v1/fetch", q.httpFetch)
	mux.HandleFunc("POST /api/v1/fetch/batch", q.httpFetch)
	mux.HandleFunc("POST /api/v1/ack/{id}", q.httpAck)
	mux.HandleFunc("POST /api/v1/ack/batch", q.httpAckBatch)
	mux.HandleFunc("GET /api/v1/queues", q.httpQueues)
	mux.HandleFunc("GET /api/v1/jobs/{id}", q.httpJob)
	mux.HandleFunc("GET /api/v1/cluster/status", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, cmp.Or(q.faults.status, &wire.ClusterStatus{RaftNoSync: true}))
	})
	mux.Handle(corvov1connect.NewWorkerServiceHandler(q))
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: mux, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
}

// killed does what it would do wrong between a kill and a start. The queue of any job will do.
func (q *standin) killed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.jobs {
		if r.state == wire.Completed {
			if q.faults.invent {
				q.jobs["more"] = &standinJob{queue: r.queue, state: wire.Completed}
			}
			if q.faults.revive {
				r.state = wire.Pending
			}
			return
		}
	}
}

func every(n, count int) bool { return n > 0 && count%n == 0 }

// add enqueues a job and returns its id.
func (q *standin) add(queue string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enqueues++
	r := &standinJob{lease: lease{id: fmt.Sprintf("job_%026d", q.enqueues)}, queue: queue, state: wire.Pending}
	q.jobs[r.id] = r
	if !every(q.faults.loseEvery, q.enqueues) {
		q.ready[queue] = append(q.ready[queue], r)
		close(q.changed)
		q.changed = make(chan struct{})
	}
	return r.id
}

// take leases up to n jobs. The caller holds mu.
func (q *standin) take(queues []string, n int) []lease {
	var got []lease
	for _, name := range queues {
		for len(got) < n && len(q.ready[name]) > 0 {
			r := q.ready[name][0]
			q.grants++
			if !every(q.faults.repeatEvery, q.grants) {
				q.ready[name] = q.ready[name][1:]
			}
			r.state, r.token = wire.Active, fmt.Sprintf("lt_%d", q.grants)
			got = append(got, r.lease)
		}
	}
	return got
}

// fetch waits for a first job.
func (q *standin) fetch(queues []string, n int, wait time.Duration, gone <-chan struct{}) []lease {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		q.mu.Lock()
		got, changed := q.take(queues, n), q.changed
		q.mu.Unlock()
		if len(got) > 0 || wait == 0 {
			return got
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-gone:
			return nil
		}
	}
}

// ack completes a job; the answer is a refusal or empty.
func (q *standin) ack(l lease) wire.Code {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.acks++
	r := q.jobs[l.id]
	switch {
	case r == nil:
		return wire.CodeNotFound
	case r.state != wire.Active:
		return wire.CodeNotActive
	case l.token != r.token || every(q.faults.refuseEvery, q.acks):
		return wire.CodeLeaseLost
	}
	r.state = wire.Completed
	return ""
}

// counted uses up one of a counted fault, if there is one left.
func (q *standin) counted(left *int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	*left--
	return *left >= 0
}

func (q *standin) httpEnqueue(w http.ResponseWriter, r *http.Request) {
	var body wire.EnqueueRequest
	if !read(w, r, &body) {
		return
	}
	if q.counted(&q.faults.overloads) {
		w.Header().Set("Retry-After", "0.003")
		write(w, 429, wire.Problem{Error: "too many jobs at once", Code: wire.CodeOverloaded})
		return
	}
	write(w, 201, wire.Enqueued{JobID: q.add(body.Queue), Status: wire.EnqueuePending})
}

func (q *standin) httpEnqueueBatch(w http.ResponseWriter, r *http.Request) {
	var body wire.EnqueueBatchRequest
	if !read(w, r, &body) {
		return
	}
	var done wire.EnqueuedBatch
	for i := range body.Jobs {
		done.JobIDs = append(done.JobIDs, q.add(body.Jobs[i].Queue))
	}
	write(w, 201, done)
}

func (q *standin) httpFetch(w http.ResponseWriter, r *http.Request) {
	var body wire.FetchRequest
	if !read(w, r, &body) {
		return
	}
	wait, err := time.ParseDuration(body.Wait)
	if err != nil {
		write(w, 400, wire.Problem{Error: "wait is not a duration", Code: wire.CodeValidation})
		return
	}
	var jobs wire.FetchedJobs
	for _, l := range q.fetch(body.Queues, body.Count, wait, r.Context().Done()) {
		jobs.Jobs = append(jobs.Jobs, wire.FetchedJob{JobID: l.id, LeaseToken: l.token, Payload: json.RawMessage("{}")})
	}
	switch {
	case r.URL.Path != "/api/v1/fetch":
		write(w, 200, jobs)
	case len(jobs.Jobs) == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, 200, jobs.Jobs[0])
	}
}

func (q *standin) httpAck(w http.ResponseWriter, r *http.Request) {
	var body wire.AckRequest
	if !read(w, r, &body) {
		return
	}
	if code := q.ack(lease{r.PathValue("id"), body.LeaseToken}); code != "" {
		write(w, 409, wire.Problem{Error: "it is not yours", Code: code})
		return
	}
	write(w, 200, wire.Status{Status: "ok"})
}

func (q *standin) httpAckBatch(w http.ResponseWriter, r *http.Request) {
	var body wire.AckBatchRequest
	if !read(w, r, &body) {
		return
	}
	var done wire.AckBatchResult
	for _, a := range body.Acks {
		if q.ack(lease{a.JobID, a.LeaseToken}) == "" {
			done.Acked++
		}
	}
	write(w, 200, done)
}

func (q *standin) httpQueues(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queues := map[string]*wire.Queue{}
	for _, r := range q.jobs {
		if q.faults.uncounted {
			break
		}
		if queues[r.queue] == nil {
			queues[r.queue] = &wire.Queue{Name: r.queue}
		}
		switch r.state {
		case wire.Pending:
			queues[r.queue].Pending++
		case wire.Active:
			queues[r.queue].Active++
		case wire.Completed:
			queues[r.queue].Completed++
		}
	}
	rows := []*wire.Queue{}
	for _, row := range queues {
		rows = append(rows, row)
	}
	write(w, 200, rows)
}

func (q *standin) httpJob(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[r.PathValue("id")]
	if j == nil || q.faults.forgets {
		write(w, 404, wire.Problem{Error: "no such job", Code: wire.CodeNotFound})
		return
	}
	write(w, 200, wire.Job{ID: j.id, State: j.state})
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(r.Body).Decode(v)
	if err != nil {
		write(w, 400, wire.Problem{Error: err.Error(), Code: wire.CodeParse})
	}
	return err == nil
}

func write(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // A client that left is not our trouble.
}

func (q *standin) enqueued(queue string) *corvov1.EnqueueResponse {
	return &corvov1.EnqueueResponse{JobId: q.add(queue), Status: string(wire.EnqueuePending)}
}

func (q *standin) Enqueue(_ context.Context, r *connect.Request[corvov1.EnqueueRequest]) (*connect.Response[corvov1.EnqueueResponse], error) {
	return connect.NewResponse(q.enqueued(r.Msg.GetQueue())), nil
}

func (q *standin) EnqueueBatch(_ context.Context, r *connect.Request[corvov1.EnqueueBatchRequest]) (*connect.Response[corvov1.EnqueueBatchResponse], error) {
	out := &corvov1.EnqueueBatchResponse{}
	for _, j := range r.Msg.GetJobs() {
		out.Results = append(out.Results, q.enqueued(j.GetQueue()))
	}
	return connect.NewResponse(out), nil
}

func (q *standin) granted(ctx context.Context, queues []string, n int32, wait int64) []*corvov1.FetchBatchJob {
	var out []*corvov1.FetchBatchJob
	for _, l := range q.fetch(queues, int(n), time.Duration(wait)*time.Millisecond, ctx.Done()) {
		out = append(out, &corvov1.FetchBatchJob{JobId: l.id, LeaseToken: l.token})
	}
	return out
}

func (q *standin) Fetch(ctx context.Context, r *connect.Request[corvov1.FetchRequest]) (*connect.Response[corvov1.FetchResponse], error) {
	out := &corvov1.FetchResponse{}
	for _, j := range q.granted(ctx, r.Msg.GetQueues(), 1, r.Msg.GetWaitMs()) {
		out.Found, out.JobId, out.LeaseToken = true, j.GetJobId(), j.GetLeaseToken()
	}
	return connect.NewResponse(out), nil
}

func (q *standin) FetchBatch(ctx context.Context, r *connect.Request[corvov1.FetchBatchRequest]) (*connect.Response[corvov1.FetchBatchResponse], error) {
	return connect.NewResponse(&corvov1.FetchBatchResponse{Jobs: q.granted(ctx, r.Msg.GetQueues(), r.Msg.GetCount(), r.Msg.GetWaitMs())}), nil
}

func (q *standin) Ack(_ context.Context, r *connect.Request[corvov1.AckRequest]) (*connect.Response[corvov1.AckResponse], error) {
	if code := q.ack(lease{r.Msg.GetJobId(), r.Msg.GetLeaseToken()}); code != "" {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New(string(code)))
	}
	return connect.NewResponse(&corvov1.AckResponse{}), nil
}

func (q *standin) AckBatch(_ context.Context, r *connect.Request[corvov1.AckBatchRequest]) (*connect.Response[corvov1.AckBatchResponse], error) {
	outcomes, acked := q.outcomes(r.Msg.GetItems())
	return connect.NewResponse(&corvov1.AckBatchResponse{Outcomes: outcomes, Acked: acked}), nil
}

func (q *standin) outcomes(items []*corvov1.AckBatchItem) (out []*corvov1.ItemOutcome, acked int32) {
	for _, a := range items {
		code := q.ack(lease{a.GetJobId(), a.GetLeaseToken()})
		if code == "" {
			acked++
		}
		out = append(out, &corvov1.ItemOutcome{JobId: a.GetJobId(), Code: string(code)})
	}
	return out, acked
}

// StreamLifecycle answers pipelined frames: at once, except a fetch that waits,
// which is answered when it has something.
func (q *standin) StreamLifecycle(ctx context.Context, stream *connect.BidiStream[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.Mutex
	var parked sync.WaitGroup
	defer parked.Wait()
	defer cancel()
	send := func(r *corvov1.LifecycleStreamResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(r)
	}
	for {
		frame, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if q.counted(&q.faults.moves) {
			return send(&corvov1.LifecycleStreamResponse{RequestId: frame.GetRequestId(), Error: string(wire.CodeNotLeader)})
		}
		reply := q.settled(frame)
		answer := func() error {
			reply.Jobs = q.granted(ctx, frame.GetQueues(), frame.GetFetchCount(), frame.GetWaitMs())
			return send(reply)
		}
		if frame.GetFetchCount() > 0 && frame.GetWaitMs() > 0 {
			parked.Go(func() { _ = answer() }) // A stream that ended has nobody to tell.
			continue
		}
		if err := answer(); err != nil {
			return err
		}
	}
}

// settled does everything in a frame but the fetch.
func (q *standin) settled(frame *corvov1.LifecycleStreamRequest) *corvov1.LifecycleStreamResponse {
	reply := &corvov1.LifecycleStreamResponse{RequestId: frame.GetRequestId()}
	reply.AckOutcomes, reply.Acked = q.outcomes(frame.GetAcks())
	for _, e := range frame.GetEnqueues() {
		reply.EnqueuedJobIds = append(reply.EnqueuedJobIds, q.add(e.GetQueue()))
	}
	return reply
}
