package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// memory is the use cases in a map: enough meaning for the wire to be tested
// without a cluster. Ids count up and the clock stands still.
type memory struct {
	ungoverned
	scheduler
	mu       sync.Mutex // Guards everything below.
	jobs     map[job.ID]*memJob
	order    []job.ID
	next     uint64
	changed  chan struct{} // Closed and replaced when a job becomes ready.
	paused   map[string]bool
	calls    int   // Use cases that could have changed something.
	failing  error // Returned by every call when set.
	parked   int   // Fetches that wait now.
	waits    int   // Fetches that ever waited.
	settings map[string]queue.QueueSettings
	beats    []queue.HeartbeatInput // Of the latest call that had some.
	// beforeGrant, when set, runs before a fetch answers with jobs.
	beforeGrant func(ctx context.Context)
}

type memJob struct {
	queue.Job
	ns    job.Namespace
	token string
}

var memClock = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func newMemory() *memory {
	return &memory{jobs: make(map[job.ID]*memJob), changed: make(chan struct{}), paused: make(map[string]bool)}
}

var memQueueName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func validate(path string, in *queue.EnqueueInput) (fields []fault.Field) {
	at := func(name, msg string) { fields = append(fields, fault.Field{Path: join(path, name), Message: msg}) }
	if !memQueueName.MatchString(in.Queue) {
		at("queue", "is not a queue name")
	}
	if _, ok := job.ParsePriority(in.Priority); !ok {
		at("priority", "must be critical, high or normal")
	}
	if _, ok := job.ParseBackoff(in.RetryBackoff); !ok {
		at("retry_backoff", "must be none, fixed, linear or exponential")
	}
	if in.MaxRetries != nil && *in.MaxRetries < 0 {
		at("max_retries", "must not be negative")
	}
	return fields
}

func (m *memory) enter() error {
	m.calls++
	return m.failing
}

func (m *memory) Enqueue(_ context.Context, c queue.Caller, in queue.EnqueueInput) (queue.EnqueueResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := validate("", &in); len(f) > 0 {
		return queue.EnqueueResult{}, fault.InvalidFields(f)
	}
	if len(in.Payload) > queue.PayloadBytesMax {
		return queue.EnqueueResult{}, fault.New(fault.TooLarge, "PAYLOAD_TOO_LARGE", "the payload is too large")
	}
	if err := m.enter(); err != nil {
		return queue.EnqueueResult{}, err
	}
	return m.add(c, &in), nil
}

func (m *memory) add(c queue.Caller, in *queue.EnqueueInput) queue.EnqueueResult {
	for _, id := range m.order {
		if j := m.jobs[id]; in.UniqueKey != "" && j.ns == c.Namespace && j.UniqueKey == in.UniqueKey && !j.State.Terminal() {
			return queue.EnqueueResult{JobID: id, Status: queue.StatusDuplicate, UniqueExisting: true}
		}
	}
	m.next++
	j := &memJob{ns: c.Namespace}
	binary.BigEndian.PutUint64(j.ID[8:], m.next)
	priority, _ := job.ParsePriority(in.Priority)
	backoff, _ := job.ParseBackoff(in.RetryBackoff)
	j.Job = queue.Job{
		ID: j.ID, Queue: in.Queue, State: job.Pending, Payload: in.Payload, Priority: priority, MaxRetries: job.DefaultMaxRetries,
		RetryBackoff: backoff, RetryBaseDelay: job.DefaultBaseDelay, RetryMaxDelay: job.DefaultMaxDelay,
		UniqueKey: in.UniqueKey, Tags: in.Tags, Checkpoint: in.Checkpoint, CreatedAt: memClock, ScheduledAt: in.ScheduledAt,
		TraceParent: in.TraceParent,
	}
	j.Parent, _ = job.ParseID(in.ParentID)
	if in.MaxRetries != nil {
		j.MaxRetries = *in.MaxRetries
	}
	status := queue.StatusPending
	if in.ScheduledAt.After(memClock) {
		j.State, status = job.Scheduled, queue.StatusScheduled
	}
	m.jobs[j.ID] = j
	m.order = append(m.order, j.ID)
	m.wakeUp()
	return queue.EnqueueResult{JobID: j.ID, Status: status}
}

func (m *memory) wakeUp() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) EnqueueBatch(_ context.Context, c queue.Caller, in []queue.EnqueueInput) ([]queue.EnqueueResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addAll(c, "jobs", in)
}

func (m *memory) addAll(c queue.Caller, path string, in []queue.EnqueueInput) ([]queue.EnqueueResult, error) {
	if len(in) == 0 {
		return nil, nil
	}
	var fields []fault.Field
	for i := range in {
		fields = append(fields, validate(fmt.Sprintf("%s[%d]", path, i), &in[i])...)
	}
	if len(fields) > 0 {
		return nil, fault.InvalidFields(fields)
	}
	if err := m.enter(); err != nil {
		return nil, err
	}
	out := make([]queue.EnqueueResult, len(in))
	for i := range in {
		out[i] = m.add(c, &in[i])
	}
	return out, nil
}

func validateFetch(in *queue.FetchInput) (fields []fault.Field) {
	if len(in.Queues) == 0 {
		fields = append(fields, fault.Field{Path: "queues", Message: "is required"})
	}
	for i, q := range in.Queues {
		if !memQueueName.MatchString(q) {
			fields = append(fields, fault.Field{Path: fmt.Sprintf("queues[%d]", i), Message: "is not a queue name"})
		}
	}
	if in.Count < 0 || in.Count > queue.FetchCountMax {
		fields = append(fields, fault.Field{Path: "count", Message: "must be between 1 and 512"})
	}
	if in.Wait < 0 || in.Wait > queue.WaitMax {
		fields = append(fields, fault.Field{Path: "wait", Message: "must be between 0 and 60s"})
	}
	if in.Lease != 0 && (in.Lease < queue.LeaseMin || in.Lease > queue.LeaseMax) {
		fields = append(fields, fault.Field{Path: "lease", Message: "must be between 1s and 24h"})
	}
	return fields
}

func (m *memory) Fetch(ctx context.Context, c queue.Caller, in queue.FetchInput) ([]queue.Grant, error) {
	if f := validateFetch(&in); len(f) > 0 {
		return nil, fault.InvalidFields(f)
	}
	timeout := time.NewTimer(in.Wait)
	defer timeout.Stop()
	for {
		m.mu.Lock()
		if m.failing != nil {
			defer m.mu.Unlock()
			return nil, m.failing
		}
		grants := m.grant(c, &in)
		changed := m.changed
		m.parked++
		if len(grants) == 0 {
			m.waits++
		}
		m.mu.Unlock()
		leave := func() { m.mu.Lock(); m.parked--; m.mu.Unlock() }
		if len(grants) > 0 {
			leave()
			if m.beforeGrant != nil {
				m.beforeGrant(ctx)
			}
			return grants, nil
		}
		select {
		case <-changed:
			leave()
		case <-timeout.C:
			leave()
			return nil, nil
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
}

func (m *memory) grant(c queue.Caller, in *queue.FetchInput) (out []queue.Grant) {
	lease := in.Lease
	if lease == 0 {
		lease = job.DefaultLease
	}
	for _, id := range m.order {
		j := m.jobs[id]
		if len(out) == in.Count || j == nil || j.ns != c.Namespace || j.State != job.Pending ||
			m.paused[j.Queue] || !slices.Contains(in.Queues, j.Queue) {
			continue
		}
		m.calls++
		j.State, j.WorkerID, j.Hostname, j.StartedAt = job.Active, in.WorkerID, in.Hostname, memClock
		j.LeaseExpiresAt = memClock.Add(lease)
		j.Attempt++
		j.token = fmt.Sprintf("token-%d-%d", m.next, j.Attempt)
		out = append(out, queue.Grant{
			JobID: id, Queue: j.Queue, Payload: j.Payload, Checkpoint: j.Checkpoint, Tags: j.Tags,
			Attempt: j.Attempt, MaxRetries: j.MaxRetries, Lease: lease, Token: j.token,
			TraceParent: j.TraceParent,
		})
	}
	return out
}

func (m *memory) held(c queue.Caller, id job.ID, token string) (*memJob, error) {
	j := m.jobs[id]
	switch {
	case j == nil || j.ns != c.Namespace:
		return nil, fault.New(fault.NotFound, "NOT_FOUND", "the job does not exist")
	case !j.State.Leased():
		return nil, fault.New(fault.Conflict, "NOT_ACTIVE", "the job is %s", j.State)
	case token != "" && token != j.token:
		return nil, fault.New(fault.Conflict, "LEASE_LOST", "the lease was lost")
	}
	return j, nil
}

func (m *memory) Ack(_ context.Context, c queue.Caller, in []queue.AckInput) ([]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing != nil {
		return nil, m.failing
	}
	return m.ack(c, in), nil
}

func (m *memory) ack(c queue.Caller, in []queue.AckInput) []error {
	errs := make([]error, len(in))
	for i, a := range in {
		j, err := m.held(c, a.JobID, a.Token)
		if err != nil {
			errs[i] = err
			continue
		}
		m.calls++
		j.State, j.Result, j.CompletedAt = job.Completed, a.Result, memClock
		if a.Checkpoint != nil {
			j.Checkpoint = a.Checkpoint
		}
	}
	return errs
}

func (m *memory) Fail(_ context.Context, c queue.Caller, in []queue.FailInput) ([]queue.FailOutcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing != nil {
		return nil, m.failing
	}
	return m.fail(c, in), nil
}

func (m *memory) fail(c queue.Caller, in []queue.FailInput) []queue.FailOutcome {
	out := make([]queue.FailOutcome, len(in))
	for i, f := range in {
		j, err := m.held(c, f.JobID, f.Token)
		if err != nil {
			out[i].Err = err
			continue
		}
		m.calls++
		if f.Release {
			j.State = job.Pending
			j.Attempt--
			m.wakeUp()
		} else {
			j.State = job.Retrying
			j.Errors = append(j.Errors, queue.AttemptError{Attempt: j.Attempt, Error: f.Error, Backtrace: f.Backtrace, At: memClock})
			out[i].NextAttemptAt = memClock.Add(j.RetryBaseDelay)
		}
		out[i].State, out[i].AttemptsRemaining = j.State, j.MaxRetries-j.Attempt
	}
	return out
}

func (m *memory) Heartbeat(_ context.Context, c queue.Caller, in []queue.HeartbeatInput) ([]queue.HeartbeatStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing != nil {
		return nil, m.failing
	}
	return m.heartbeat(c, in), nil
}

func (m *memory) heartbeat(c queue.Caller, in []queue.HeartbeatInput) []queue.HeartbeatStatus {
	out := make([]queue.HeartbeatStatus, len(in))
	if len(in) > 0 {
		m.beats = in
	}
	for i, h := range in {
		j, err := m.held(c, h.JobID, h.Token)
		switch {
		case err != nil:
			out[i] = queue.HeartbeatLost
			continue
		case j.State == job.Cancelling:
			out[i] = queue.HeartbeatCancel
		default:
			out[i] = queue.HeartbeatOK
		}
		m.calls++
		if h.Progress != nil {
			j.Progress = h.Progress
		}
		if h.Checkpoint != nil {
			j.Checkpoint = h.Checkpoint
		}
	}
	return out
}

func (m *memory) Frame(ctx context.Context, c queue.Caller, in queue.FrameInput) (queue.FrameResult, error) {
	m.mu.Lock()
	if m.failing != nil {
		defer m.mu.Unlock()
		return queue.FrameResult{}, m.failing
	}
	res := queue.FrameResult{Acks: m.ack(c, in.Acks), Fails: m.fail(c, in.Fails), Heartbeats: m.heartbeat(c, in.Heartbeats)}
	if in.Fetch != nil {
		if f := validateFetch(in.Fetch); len(f) > 0 {
			res.FetchErr = fault.InvalidFields(f)
		} else {
			res.Grants = m.grant(c, in.Fetch)
		}
	}
	res.Enqueues, res.EnqueueErr = m.addAll(c, "enqueues", in.Enqueues)
	m.mu.Unlock()
	if len(res.Grants) > 0 && m.beforeGrant != nil {
		m.beforeGrant(ctx)
	}
	return res, nil
}

func (m *memory) find(c queue.Caller, id job.ID) (*memJob, error) {
	if m.failing != nil {
		return nil, m.failing
	}
	j := m.jobs[id]
	if j == nil || j.ns != c.Namespace {
		return nil, fault.New(fault.NotFound, "NOT_FOUND", "the job does not exist")
	}
	return j, nil
}

func (m *memory) Job(_ context.Context, c queue.Caller, id job.ID) (queue.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(c, id)
	if err != nil {
		return queue.Job{}, err
	}
	return j.Job, nil
}

func (m *memory) Queues(_ context.Context, c queue.Caller) ([]queue.QueueInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing != nil {
		return nil, m.failing
	}
	by := make(map[string]*queue.QueueInfo)
	for _, id := range m.order {
		j := m.jobs[id]
		if j == nil || j.ns != c.Namespace {
			continue
		}
		q := by[j.Queue]
		if q == nil {
			q = &queue.QueueInfo{Name: j.Queue, Paused: m.paused[j.Queue], CreatedAt: memClock, Counts: make(map[job.State]int64)}
			by[j.Queue] = q
		}
		q.Counts[j.State]++
		q.Enqueued++
		if j.State == job.Pending && q.OldestPendingAt.IsZero() {
			q.OldestPendingAt = j.CreatedAt
		}
	}
	var out []queue.QueueInfo
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out, nil
}

func (m *memory) setPaused(name string, paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !memQueueName.MatchString(name) {
		return fault.InvalidFields([]fault.Field{{Path: "queue", Message: "is not a queue name"}})
	}
	if err := m.enter(); err != nil {
		return err
	}
	m.paused[name] = paused
	m.wakeUp()
	return nil
}

func (m *memory) PauseQueue(_ context.Context, _ queue.Caller, name string) error {
	return m.setPaused(name, true)
}

func (m *memory) ResumeQueue(_ context.Context, _ queue.Caller, name string) error {
	return m.setPaused(name, false)
}

func (m *memory) Queue(ctx context.Context, c queue.Caller, name string) (queue.QueueInfo, error) {
	all, err := m.Queues(ctx, c)
	if err != nil {
		return queue.QueueInfo{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info := queue.QueueInfo{Name: name, Counts: map[job.State]int64{}, Paused: m.paused[name]}
	for _, q := range all {
		if q.Name == name {
			info = q
		}
	}
	set, known := m.settings[name]
	if set.MaxConcurrency != nil {
		info.MaxConcurrency = *set.MaxConcurrency
	}
	if set.Throttle != nil {
		info.Throttle = *set.Throttle
	}
	if !known && len(info.Counts) == 0 {
		return queue.QueueInfo{}, fault.New(fault.NotFound, "NOT_FOUND", "there is no queue %s", name)
	}
	return info, nil
}

func (m *memory) SetQueue(ctx context.Context, c queue.Caller, name string, in queue.QueueSettings) (queue.QueueInfo, error) {
	if in.Paused != nil {
		if err := m.setPaused(name, *in.Paused); err != nil {
			return queue.QueueInfo{}, err
		}
	}
	m.mu.Lock()
	if m.settings == nil {
		m.settings = map[string]queue.QueueSettings{}
	}
	set := m.settings[name]
	if in.MaxConcurrency != nil {
		set.MaxConcurrency = in.MaxConcurrency
	}
	if in.Throttle != nil {
		set.Throttle = in.Throttle
	}
	m.settings[name] = set
	m.calls++
	m.mu.Unlock()
	return m.Queue(ctx, c, name)
}

func (m *memory) DeleteQueue(_ context.Context, _ queue.Caller, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	delete(m.settings, name)
	for id, j := range m.jobs {
		if j.Queue == name {
			delete(m.jobs, id)
		}
	}
	return nil
}

func (m *memory) Cancel(_ context.Context, c queue.Caller, id job.ID) (job.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(c, id)
	if err != nil {
		return 0, err
	}
	m.calls++
	switch {
	case j.State.Terminal():
		return 0, fault.New(fault.Conflict, "CONFLICT", "the job is %s", j.State)
	case j.State.Leased():
		j.State = job.Cancelling
	default:
		j.State = job.Cancelled
	}
	return j.State, nil
}

func (m *memory) Retry(_ context.Context, c queue.Caller, id job.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(c, id)
	if err != nil {
		return err
	}
	if !j.State.Terminal() && j.State != job.Scheduled && j.State != job.Retrying {
		return fault.New(fault.Conflict, "CONFLICT", "the job is %s", j.State)
	}
	m.calls++
	if j.State.Terminal() {
		j.Attempt = 0
	}
	j.State = job.Pending
	m.wakeUp()
	return nil
}

func (m *memory) Delete(_ context.Context, c queue.Caller, id job.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(c, id); err != nil {
		return err
	}
	m.calls++
	delete(m.jobs, id)
	m.order = slices.DeleteFunc(m.order, func(o job.ID) bool { return o == id })
	return nil
}

func (m *memory) stateOf(id job.ID) job.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil {
		return j.State
	}
	return 0
}

func (m *memory) counts() (calls, parked int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls, m.parked
}

func (m *memory) waited() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits
}

func (m *memory) setFailing(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = err
	m.wakeUp()
}

// instant is memory whose fetches never wait.
type instant struct{ *memory }

func (i instant) Fetch(ctx context.Context, c queue.Caller, in queue.FetchInput) ([]queue.Grant, error) {
	if in.Wait >= 0 && in.Wait <= queue.WaitMax {
		in.Wait = 0
	}
	return i.memory.Fetch(ctx, c, in)
}
