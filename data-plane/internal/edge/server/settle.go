package server

import (
	"encoding/json"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// ackRequest is also one item of a batch, where jobID stands in the body.
type ackRequest struct {
	jobID string
	in    queue.AckInput
}

type ackBatchRequest struct {
	acks     []ackRequest
	workerID string
}

func ackFields() []shape.Field[ackRequest] {
	return []shape.Field[ackRequest]{
		shape.RawJSON("result", "Any JSON.", func(in *ackRequest) *json.RawMessage { return &in.in.Result }),
		shape.RawJSON("checkpoint", "Last checkpoint, any JSON.", func(in *ackRequest) *json.RawMessage { return &in.in.Checkpoint }),
		leaseTokenField(func(in *ackRequest) *string { return &in.in.Token }),
		workerField(func(in *ackRequest) *string { return &in.in.WorkerID }),
		usageField(func(in *ackRequest) **queue.UsageReport { return &in.in.Usage }),
		shape.Enum("agent_status", "For agent jobs: continue (one more iteration), done, or hold (for approval).", wire.AgentStatuses(),
			func(in *ackRequest) *wire.AgentStatus { return &in.in.AgentStatus }),
		shape.Text("hold_reason", "Why the job is held, with agent_status hold.", func(in *ackRequest) *string { return &in.in.HoldReason }),
		shape.Enum("step_status", "For chains: continue (default), or exit to skip the remaining steps.", wire.StepStatuses(),
			func(in *ackRequest) *wire.StepStatus { return &in.in.StepStatus }),
		shape.Text("exit_reason", "Why the remaining steps are skipped.", func(in *ackRequest) *string { return &in.in.ExitReason }),
	}
}

func leaseTokenField[T any](at func(*T) *string) shape.Field[T] {
	return shape.Text("lease_token", "The lease token from the fetch.", at)
}

func workerField[T any](at func(*T) *string) shape.Field[T] {
	return shape.Text("worker_id", "The worker that fetched the job; needed without a lease token.", at)
}

func jobIDField[T any](at func(*T) *string) shape.Field[T] {
	return shape.Text("job_id", "Job id.", at).Must()
}

var (
	ackShape     = shape.New("AckRequest", ackFields()...)
	ackItemShape = shape.New("AckBatchItem", append(ackFields(), jobIDField(func(in *ackRequest) *string { return &in.jobID }))...)

	ackBatchShape = shape.New("AckBatchRequest",
		shape.List("acks", "Jobs to complete.", queue.AckBatchMax, ackItemShape, func(in *ackBatchRequest) *[]ackRequest { return &in.acks }).Must(),
		workerField(func(in *ackBatchRequest) *string { return &in.workerID }),
	)

	failShape = shape.New("FailRequest",
		shape.Text("error", "What went wrong.", func(in *queue.FailInput) *string { return &in.Error }),
		shape.Text("backtrace", "Backtrace of the error.", func(in *queue.FailInput) *string { return &in.Backtrace }),
		leaseTokenField(func(in *queue.FailInput) *string { return &in.Token }),
		workerField(func(in *queue.FailInput) *string { return &in.WorkerID }),
		shape.Bool("release", "Give the job back without counting the attempt.", func(in *queue.FailInput) *bool { return &in.Release }),
		shape.Bool("terminal", "Don't retry: the job becomes dead.", func(in *queue.FailInput) *bool { return &in.Terminal }),
		shape.Duration("delay", "Delay before the next attempt, instead of the backoff.", setFailDelay),
		shape.Millis("delay_ms", "The same in milliseconds.", setFailDelay),
		usageField(func(in *queue.FailInput) **queue.UsageReport { return &in.Usage }),
	)

	heartbeatItemShape = shape.New("HeartbeatJob",
		shape.RawJSON("progress", "Any JSON.", func(in *queue.HeartbeatInput) *json.RawMessage { return &in.Progress }),
		shape.RawJSON("checkpoint", "Any JSON.", func(in *queue.HeartbeatInput) *json.RawMessage { return &in.Checkpoint }),
		leaseTokenField(func(in *queue.HeartbeatInput) *string { return &in.Token }),
		usageField(func(in *queue.HeartbeatInput) **queue.UsageReport { return &in.Usage }),
	)

	heartbeatShape = shape.New("HeartbeatRequest",
		shape.Map("jobs", "Jobs to renew, by id.", queue.AckBatchMax, heartbeatItemShape,
			func(in *heartbeatRequest) *[]shape.Named[queue.HeartbeatInput] { return &in.jobs }),
		workerField(func(in *heartbeatRequest) *string { return &in.workerID }),
		shape.Span("lease", "How long to renew the leases for; default is the lease of the fetch.",
			func(in *heartbeatRequest, d time.Duration) { in.lease = d }),
	)
)

func setFailDelay(in *queue.FailInput, d time.Duration) { in.Delay = &d }

type heartbeatRequest struct {
	jobs     []shape.Named[queue.HeartbeatInput]
	workerID string
	lease    time.Duration
}

func (c *call) ack() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var req ackRequest
	if err := decode(c, ackShape, &req); err != nil {
		return err
	}
	req.in.JobID = id
	errs, err := c.place.Local.Ack(c.r.Context(), c.who.Caller, []queue.AckInput{req.in})
	if err != nil {
		return err
	}
	return c.done("ok", errs[0])
}

func (c *call) ackBatch() error {
	var req ackBatchRequest
	if err := decode(c, ackBatchShape, &req); err != nil {
		return err
	}
	items := shape.NewItems[queue.AckInput](len(req.acks))
	for i, a := range req.acks {
		if a.in.WorkerID == "" {
			a.in.WorkerID = req.workerID
		}
		id, ok := items.ID(i, a.jobID)
		if ok {
			a.in.JobID = id
			items.Add(i, a.in)
		}
	}
	errs, err := c.place.Local.Ack(c.r.Context(), c.who.Caller, items.In)
	if err != nil {
		return err
	}
	items.Settle(errs)
	a := wire.AckBatchResult{Outcomes: make([]wire.Outcome, len(req.acks))}
	for i, ierr := range items.Errs {
		a.Outcomes[i] = c.s.outcome(c, req.acks[i].jobID, ierr)
		if ierr == nil {
			a.Acked++
		}
	}
	return c.reply(a)
}

// outcome words an item's error, hiding what is not a fault.
func (s *Server) outcome(c *call, id string, err error) wire.Outcome {
	if err == nil {
		return wire.Outcome{JobID: id}
	}
	f := shown(c.r.Context(), s.log, err)
	return wire.Outcome{JobID: id, Code: wire.Code(wordOf(f)), Error: f.Error()}
}

func (c *call) fail() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var in queue.FailInput
	if err := decode(c, failShape, &in); err != nil {
		return err
	}
	in.JobID = id
	out, err := c.place.Local.Fail(c.r.Context(), c.who.Caller, []queue.FailInput{in})
	if err != nil {
		return err
	}
	return c.answer(out[0].FailResult, out[0].Err)
}

func (c *call) heartbeat() error {
	b, err := c.parse()
	if err != nil {
		return err
	}
	var d shape.Decoder
	a, in, names := readHeartbeats(&d, b)
	statuses, err := c.place.Local.Heartbeat(c.r.Context(), c.who.Caller, in)
	if err := d.AndAlso(err, shape.AsIs); err != nil {
		return err
	}
	for i, st := range statuses {
		addBeat(&a, names[i], in[i].Token, st)
	}
	return c.reply(a)
}

// readHeartbeats decodes the beats of the jobs that can be; names are theirs as the
// client spells them. The answer to the others is in a already.
func readHeartbeats(d *shape.Decoder, b []byte) (a wire.HeartbeatResult, in []queue.HeartbeatInput, names []string) {
	var req heartbeatRequest
	heartbeatShape.Read(d, "", b, &req)
	a = wire.HeartbeatResult{
		Jobs:  make(map[string]wire.HeartbeatOutcome, len(req.jobs)),
		Acked: []string{}, Unknown: []string{}, Canceled: []string{},
	}
	for _, j := range req.jobs {
		id, err := job.ParseID(j.Name)
		if err != nil {
			addBeat(&a, j.Name, j.Value.Token, wire.HeartbeatOutcome{Status: wire.HeartbeatLost})
			continue
		}
		hb := j.Value
		if j.Wrong || d.Names("lease") {
			hb = queue.HeartbeatInput{Token: hb.Token} // Half of its news is no news, but the worker is alive.
		}
		hb.JobID, hb.WorkerID, hb.Lease = id, req.workerID, req.lease
		in, names = append(in, hb), append(names, j.Name)
	}
	return a, in, names
}

func addBeat(a *wire.HeartbeatResult, id, token string, o wire.HeartbeatOutcome) {
	a.Jobs[id] = queue.ToHolder(token, o)
	switch o.Status {
	case wire.HeartbeatOK:
		a.Acked = append(a.Acked, id)
	case wire.HeartbeatCancel:
		a.Canceled = append(a.Canceled, id)
	default:
		a.Unknown = append(a.Unknown, id)
	}
}
