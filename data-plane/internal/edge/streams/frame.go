package streams

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/messages"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// frame is one stream frame, and once it is parsed, what it carries in the words of the
// use cases.
type frame struct {
	req   *frameIn
	wait  time.Duration // Of the fetch.
	acks  *shape.Items[queue.AckInput]
	fails *shape.Items[queue.FailInput]
	beats messages.Heartbeats
	adds  []queue.EnqueueInput
	// addsErr is a problem of their encoding; the other parts of the frame still count.
	addsErr error
}

// parse reads all JSON of the frame, which costs so much that the frame waits for its turn
// before.
func (f *frame) parse() {
	req := f.req
	f.acks = messages.Acks(req.GetAcks(), req.GetWorkerId())
	f.fails = messages.Fails(req.GetFails(), req.GetWorkerId())
	f.beats = messages.ReadHeartbeats("heartbeats", req.GetHeartbeats(), req.GetWorkerId(), req.GetLeaseDuration())
	if n := len(req.GetEnqueues()); n > 0 {
		var d shape.Decoder
		f.adds = make([]queue.EnqueueInput, n)
		for i, m := range req.GetEnqueues() {
			f.adds[i] = messages.Enqueue(&d, fmt.Sprintf("enqueues[%d]", i), m)
		}
		f.addsErr = d.Err()
	}
}

func (f *frame) fetches() bool { return f.req.GetFetchCount() > 0 }

// settles: the frame ends or renews attempts.
func (f *frame) settles() bool {
	return len(f.req.GetAcks())+len(f.req.GetFails())+len(f.req.GetHeartbeats()) > 0
}

// works: the frame does something besides fetching.
func (f *frame) works() bool { return f.settles() || f.enqueues() }

func (f *frame) enqueues() bool { return len(f.req.GetEnqueues()) > 0 }

func (f *frame) empty() bool { return !f.works() && !f.fetches() }

func (f *frame) fetchInput() *queue.FetchInput {
	if !f.fetches() {
		return nil
	}
	return &queue.FetchInput{
		Queues: f.req.GetQueues(), WorkerID: f.req.GetWorkerId(), Hostname: f.req.GetHostname(),
		Count: int(f.req.GetFetchCount()), Lease: time.Duration(f.req.GetLeaseDuration()) * time.Second, Wait: f.wait,
	}
}

// input leaves out the parts that could not be read; what fails in one part does
// not cost the others.
func (f *frame) input() queue.FrameInput {
	in := queue.FrameInput{Acks: f.acks.In, Fails: f.fails.In, Heartbeats: f.beats.In, Fetch: f.fetchInput()}
	if f.addsErr == nil {
		in.Enqueues = f.adds
	}
	return in
}

// parks: the frame may wait for jobs.
func (f *frame) parks() bool { return !f.works() && f.wait > 0 }

// unitBytes of a frame cost what a job does.
const unitBytes = 1024

// units is what the frame asks of the processors: its jobs, and its bytes.
func (f *frame) units() int64 {
	n := 1 + len(f.req.GetAcks()) + len(f.req.GetFails()) + len(f.req.GetHeartbeats()) + len(f.req.GetEnqueues())
	if !f.parks() {
		n += int(min(max(f.req.GetFetchCount(), 0), queue.FetchCountMax))
	}
	return int64(n + proto.Size(f.req)/unitBytes)
}

// part is the word that existing clients see before an error of the frame.
func (f *frame) part() string {
	switch {
	case f.settles():
		return "ack"
	case f.fetches():
		return "fetch"
	case f.enqueues():
		return "enqueue"
	}
	return "frame"
}

// handle does a frame and words the answer.
func (st *Stream) handle(ctx context.Context, f *frame) Reply {
	r, err := st.admit(ctx, f)
	switch {
	case err != nil && f.parks() && ctx.Err() != nil:
		return st.nothing(f) // Given up, wherever it waited.
	case err != nil:
		return st.failed(f, f.part(), err)
	}
	return r
}

// admit does a frame that may be done, in its turn.
func (st *Stream) admit(ctx context.Context, f *frame) (Reply, error) {
	if err := st.permit(f); err != nil {
		return Reply{}, err
	}
	if f.works() {
		if !st.set.BeginFrame(st.Tenant) {
			return Reply{}, fault.New(fault.Exhausted, "OVERLOADED", "too many frames in flight")
		}
		defer st.set.EndFrame(st.Tenant)
	}
	leave, err := st.Backend.Enter(ctx, f.units())
	if err != nil {
		return Reply{}, err
	}
	f.parse()
	if f.parks() {
		leave() // Nothing is held while it waits for jobs.
	} else {
		defer leave()
	}
	if f.empty() {
		return st.nothing(f), nil
	}
	return st.atLeader(ctx, f)
}

// nothing answers what asks for nothing, or for nothing any more.
func (*Stream) nothing(f *frame) Reply { return Reply{Msg: &frameOut{RequestId: f.req.GetRequestId()}} }

// atLeader does the frame here or says where the leader is.
func (st *Stream) atLeader(ctx context.Context, f *frame) (Reply, error) {
	p, err := st.Backend.Place(ctx)
	if err != nil {
		return Reply{}, err
	}
	if p.Jobs != nil {
		r, err := st.do(ctx, p.Jobs, f)
		if !fault.NothingDone(err) {
			return r, err
		}
		if p, err = st.Backend.Route(); err != nil {
			return Reply{}, err
		}
	}
	return Reply{Msg: st.notLeader(f.req.GetRequestId(), p), Last: true}, nil
}

// permit checks rights and sizes before anything is done.
func (st *Stream) permit(f *frame) error {
	for _, list := range [...]struct {
		name string
		n    int
	}{{"acks", len(f.req.GetAcks())}, {"fails", len(f.req.GetFails())}, {"heartbeats", len(f.req.GetHeartbeats())}} {
		if list.n > queue.AckBatchMax {
			var d shape.Decoder
			d.Problem(list.name, "has %d items; at most %d are allowed", list.n, queue.AckBatchMax)
			return d.Err()
		}
	}
	if f.settles() || f.fetches() {
		if err := st.Backend.May(permission.JobFetch); err != nil {
			return err
		}
	}
	if f.enqueues() {
		return st.Backend.May(permission.JobEnqueue)
	}
	return nil
}

// do runs the frame. A fetch that came alone may wait; in a frame that does other
// work it takes what is ready, so that the answers of the work are not held up.
func (st *Stream) do(ctx context.Context, jobs *queue.Service, f *frame) (Reply, error) {
	if f.parks() {
		return st.fetch(ctx, jobs, f)
	}
	res, err := jobs.Frame(ctx, st.Caller, f.input())
	if err != nil {
		return Reply{}, err
	}
	msg := &frameOut{RequestId: f.req.GetRequestId()}
	st.settled(msg, f, res)
	if !st.pipelined.Load() {
		st.word(msg, "ack", f.invalid()) // An old client reads no outcomes.
	}
	st.added(msg, res.Enqueues)
	st.word(msg, "heartbeat", f.beats.Err(res.HeartbeatErr))
	st.word(msg, "enqueue", cmp.Or(f.addsErr, res.EnqueueErr))
	st.word(msg, "fetch", res.FetchErr)
	r := Reply{Msg: msg, grants: res.Grants, jobs: jobs, worker: f.req.GetWorkerId()}
	st.word(msg, "fetch", st.take(&r))
	if f.enqueues() {
		st.sayQuota(msg, jobs)
	}
	if f.fetches() && len(res.Grants) == 0 {
		st.sayHeld(msg, jobs)
	}
	if msg.GetError() != "" && !st.pipelined.Load() {
		// An old client that reads an error looks for no jobs.
		st.undo(&r)
	}
	msg.Jobs = messages.Jobs(r.grants)
	return r, nil
}

func (st *Stream) fetch(ctx context.Context, jobs *queue.Service, f *frame) (Reply, error) {
	msg := &frameOut{RequestId: f.req.GetRequestId()}
	grants, err := jobs.Fetch(ctx, st.Caller, *f.fetchInput())
	switch {
	case err != nil && ctx.Err() != nil:
		return st.nothing(f), nil // Given up; another leader need not be found.
	case err != nil:
		return Reply{}, err
	}
	if len(grants) == 0 {
		st.sayHeld(msg, jobs)
	}
	r := Reply{Msg: msg, grants: grants, jobs: jobs, worker: f.req.GetWorkerId()}
	if err := st.take(&r); err != nil {
		return Reply{}, err
	}
	msg.Jobs = messages.Jobs(r.grants)
	return r, nil
}

// sayQuota tells how much more the namespace may enqueue, if its plan limits the rate.
func (st *Stream) sayQuota(msg *frameOut, jobs *queue.Service) {
	if q, ok := jobs.EnqueueQuota(st.Caller); ok {
		msg.EnqueueQuota = messages.Quota(q)
	}
}

// sayHeld tells why a fetch found nothing, if dispatch is held.
func (st *Stream) sayHeld(msg *frameOut, jobs *queue.Service) {
	msg.Held = messages.Held(jobs.DispatchHeld(st.Caller.Namespace))
}

func (st *Stream) failed(f *frame, part string, err error) Reply {
	msg := &frameOut{RequestId: f.req.GetRequestId()}
	st.word(msg, part, err)
	return Reply{Msg: msg}
}

// word adds err, if there is one, to msg as existing clients match it.
func (st *Stream) word(msg *frameOut, part string, err error) {
	if err == nil {
		return
	}
	f := st.Backend.Show(messages.Paths(err))
	text := part + ": " + f.Error()
	if f.Code == fault.Exhausted {
		text = textOverloaded + ": " + text
	}
	if msg.Error != "" {
		text = msg.Error + "; " + text
	}
	if msg.Code == "" { // Limit and time are of the same error.
		msg.Code, msg.Limit, msg.RetryAfterMs = st.Backend.Word(f), messages.Limit(f.Limit), st.Backend.RetryAfterMS(f)
	}
	msg.Error = text
	for _, v := range f.Fields {
		msg.Violations = append(msg.Violations, &corvov1.FieldViolation{Field: v.Path, Message: v.Message})
	}
}

// wordAndText is an item's error as the wire shows it.
func (st *Stream) wordAndText(err error) (word, text string) {
	f := st.Backend.Show(messages.Paths(err))
	return st.Backend.Word(f), f.Error()
}

// settled writes the outcomes of acks, fails and heartbeats.
func (st *Stream) settled(msg *frameOut, f *frame, res queue.FrameResult) {
	if len(f.acks.Errs) > 0 {
		f.acks.Settle(res.Acks)
		msg.AckOutcomes, msg.Acked = messages.Outcomes(f.req.GetAcks(), f.acks.Errs, st.wordAndText)
	}
	if len(f.fails.Errs) > 0 {
		msg.FailOutcomes = st.failOutcomes(f, res.Fails)
	}
	msg.Heartbeats = f.beats.Response(res.Heartbeats)
}

// invalid is the first refusal of an ack or a fail for what is wrong with it: its worker
// would send it again for ever. A job that is gone or somebody else's is no error.
func (f *frame) invalid() error {
	for _, list := range [...]struct {
		name string
		errs []error
	}{{"acks", f.acks.Errs}, {"fails", f.fails.Errs}} {
		for i, err := range list.errs {
			if err != nil && fault.CodeOf(err) == fault.Invalid {
				return messages.Respell(err, func(path string) string { return fmt.Sprintf("%s[%d].%s", list.name, i, messages.Path(path)) })
			}
		}
	}
	return nil
}

func (st *Stream) failOutcomes(f *frame, results []queue.FailOutcome) []*corvov1.LifecycleFailOutcome {
	out := make([]*corvov1.LifecycleFailOutcome, len(f.fails.Errs))
	for k := range results {
		f.fails.Errs[f.fails.At[k]] = results[k].Err
	}
	for i, m := range f.req.GetFails() {
		out[i] = &corvov1.LifecycleFailOutcome{JobId: m.GetJobId()}
		if err := f.fails.Errs[i]; err != nil {
			out[i].Code, out[i].Error = st.wordAndText(err)
		}
	}
	for k, r := range results {
		if r.Err != nil {
			continue
		}
		o := out[f.fails.At[k]]
		o.Status = string(r.Status)
		o.NextAttemptAt = messages.Time(r.NextAttemptAt)
		o.AttemptsRemaining = int32(r.AttemptsRemaining)
	}
	return out
}

func (st *Stream) added(msg *frameOut, results []queue.EnqueueResult) {
	if len(results) == 0 {
		return
	}
	msg.EnqueueResults = messages.EnqueueResponses(results)
	msg.EnqueuedJobIds = make([]string, len(results))
	for i := range results {
		msg.EnqueuedJobIds[i] = msg.EnqueueResults[i].GetJobId()
	}
}
