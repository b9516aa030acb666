package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Words of refusals.
const (
	invalid   = "VALIDATION_ERROR"
	notFound  = "NOT_FOUND"
	notActive = "NOT_ACTIVE"
	leaseLost = "LEASE_LOST"
	conflict  = "CONFLICT"
	draining  = "QUEUE_DRAINING"
	forbidden = "FORBIDDEN"
	spent     = "BUDGET_EXCEEDED"
)

// soon is how long a rule waits for what must come. It is long: a rule that holds
// never waits for it.
const soon = 20 * time.Second

// T is one run of a rule. Its methods do what they are called for or end the rule.
type T struct {
	Client   Client // The protocol under test.
	Context  context.Context
	Protocol string

	admin   *overHTTP
	queues  string
	failure string
	unable  string
	watch

	mu     sync.Mutex // Guards what follows.
	queued int        // Queues of the rule.
	made   []string   // Paths of what the rule made.
}

// Fatalf ends the rule: it does not hold.
func (t *T) Fatalf(format string, args ...any) {
	_, file, line, _ := runtime.Caller(1)
	for depth := 2; fileIsHelper(file); depth++ {
		_, file, line, _ = runtime.Caller(depth)
	}
	t.failure = fmt.Sprintf("%s:%d: ", path.Base(file), line) + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// FailIf is Fatalf if what must not be is.
func (t *T) FailIf(bad bool, format string, args ...any) {
	if bad {
		t.Fatalf(format, args...)
	}
}

func fileIsHelper(file string) bool {
	return path.Base(file) == "t.go" || path.Base(file) == "admin.go"
}

// must ends the rule if err is one; what the protocol cannot say is no failure.
func (t *T) must(what string, err error) {
	if errors.Is(err, ErrCannot) {
		t.unable = err.Error()
		runtime.Goexit()
	}
	t.FailIf(err != nil, "%s: %v", what, err)
}

// Unable ends the rule: the protocol cannot express it.
func (t *T) Unable(why string) { t.must("", cannot(why)) }

// Queue is a name that nobody else has; what is in it goes with the rule.
func (t *T) Queue() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := fmt.Sprintf("%s-%d", t.queues, t.queued)
	t.queued++
	t.made = append(t.made, queuePath(name, "?confirm=true"))
	return name
}

// Made notes what goes with the rule, by the path that deletes it.
func (t *T) Made(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = append(t.made, path)
}

// end removes what the rule made, the latest first: a schedule would make its queue
// anew. The context of the rule may be over.
func (t *T) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context), soon)
	defer cancel()
	for _, path := range slices.Backward(t.made) {
		_, _ = t.admin.call(ctx, http.MethodDelete, path, nil, nil) // It may be gone already.
	}
	t.Client.Close()
	t.admin.Close()
}

// Enqueue adds a job.
func (t *T) Enqueue(j Job) Enqueued {
	e, err := t.Client.Enqueue(t.Context, j)
	t.must("enqueue", err)
	t.FailIf(e.ID == "" || e.Status == "", "enqueue answered %+v", e)
	return e
}

// EnqueueBatch adds jobs in one call.
func (t *T) EnqueueBatch(b *Batch, jobs ...Job) EnqueuedBatch {
	out, err := t.Client.EnqueueBatch(t.Context, jobs, b)
	t.must("enqueue a batch", err)
	t.FailIf(len(out.Jobs) != len(jobs), "a batch of %d answered %+v", len(jobs), out)
	return out
}

// Fetch takes one job as it comes from the queues, and waits for it.
func (t *T) Fetch(queues ...string) Lease {
	return t.FetchAs(Fetch{Queues: queues, Worker: "w1", Lease: time.Minute, Wait: soon})
}

// FetchAs is Fetch with every option.
func (t *T) FetchAs(f Fetch) Lease {
	leases := t.FetchMany(f)
	t.FailIf(len(leases) != 1, "fetch from %v gave %d jobs, want one", f.Queues, len(leases))
	return leases[0]
}

// FetchMany takes what a fetch gives.
func (t *T) FetchMany(f Fetch) []Lease {
	leases, err := t.Client.Fetch(t.Context, f)
	t.must("fetch", err)
	return leases
}

// Nothing wants the queues to hand out nothing now.
func (t *T) Nothing(queues ...string) {
	if leases := t.FetchMany(Fetch{Queues: queues, Worker: "w1", Lease: time.Minute}); len(leases) > 0 {
		t.Fatalf("fetch gave %+v, want nothing", leases)
	}
}

// Woken wants a fetch that waits for a queue to get the job that do makes ready.
func (t *T) Woken(queue, job string, do func()) {
	got := make(chan Lease, 1)
	go func() { // Ends with its fetch, which waits no longer than soon.
		leases, _ := t.Client.Fetch(t.Context, Fetch{Queues: []string{queue}, Lease: time.Minute, Wait: soon})
		got <- append(leases, Lease{})[0]
	}()
	do()
	Equal(t, "job", (<-got).ID, job)
}

// Leased is a job that a worker holds, of a queue of its own if it names none.
func (t *T) Leased(j Job) Lease {
	if j.Queue == "" {
		j.Queue = t.Queue()
	}
	t.Enqueue(j)
	return t.Fetch(j.Queue)
}

// Ack completes a job.
func (t *T) Ack(l Lease) { t.AckAs(Ack{ID: l.ID, Token: l.Token}) }

// AckAs is Ack with every option.
func (t *T) AckAs(a Ack) { t.must("ack", t.Client.Ack(t.Context, a)) }

// AckBatch completes jobs in one call, and returns an outcome each.
func (t *T) AckBatch(acks ...Ack) []error {
	outcomes, err := t.Client.AckBatch(t.Context, "", acks)
	t.must("ack", err)
	return outcomes
}

// Fail ends an attempt.
func (t *T) Fail(f Fail) Failed {
	out, err := t.Client.Fail(t.Context, f)
	t.must("fail", err)
	return out
}

// Failed is Fail with an error text, and the state that must follow.
func (t *T) Failed(l Lease, want string) Failed {
	out := t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "boom"})
	t.FailIf(out.Status != want, "fail made the job %s, want %s", out.Status, want)
	return out
}

// Heartbeat renews one lease and returns the word for it.
func (t *T) Heartbeat(l Lease) string {
	return t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token}}})[l.ID].Status
}

// HeartbeatAs is Heartbeat with every option.
func (t *T) HeartbeatAs(h Heartbeat) map[string]HeartbeatResult {
	out, err := t.Client.Heartbeat(t.Context, h)
	t.must("heartbeat", err)
	return out
}

// Refused wants err to be a refusal with this word and these fields.
func (t *T) Refused(err error, code string, fields ...string) {
	t.RefusedFor("the call", err, code, fields...)
}

// RefusedFor is Refused of one of several calls; what tells which.
func (t *T) RefusedFor(what any, err error, code string, fields ...string) {
	r := t.RefusedAs(what, err, code)
	slices.Sort(fields)
	t.FailIf(!slices.Equal(r.Fields, fields) && (len(r.Fields) > 0 || len(fields) > 0), "%v: %v, want the fields %v", what, r, fields)
}

// RefusedAs is RefusedFor whatever fields it names.
func (t *T) RefusedAs(what any, err error, code string) *Refusal {
	r := AsRefusal(err)
	switch {
	case errors.Is(err, ErrCannot):
		t.must("", err)
	case r == nil:
		t.Fatalf("%v: got error %v, want a refusal %s", what, err, code)
	case r.Code != code:
		t.Fatalf("%v: %v, want %s", what, r, code)
	case r.Text == "":
		t.Fatalf("%v: %v has no text for people", what, r)
	}
	return r
}

// EnqueueRefused wants a job not to be taken.
func (t *T) EnqueueRefused(j Job, code string, fields ...string) {
	_, err := t.Client.Enqueue(t.Context, j)
	t.Refused(err, code, fields...)
}

// Equal wants two values to be the same.
func Equal[V comparable](t *T, what string, got, want V) {
	t.FailIf(got != want, "%s is %v, want %v", what, got, want)
}

// Eventually polls for what no call waits for.
func (t *T) Eventually(what string, ok func() bool) { t.before(time.Now().Add(soon), what, ok) }

// InTheEnd is Eventually for what is done in the background, behind other such work: it
// may take as long as the rule.
func (t *T) InTheEnd(what string, ok func() bool) {
	deadline, _ := t.Context.Deadline()
	t.before(deadline, what, ok)
}

func (t *T) before(deadline time.Time, what string, ok func() bool) {
	for !ok() {
		t.FailIf(time.Now().After(deadline) || t.Context.Err() != nil, "%s did not come", what)
		select {
		case <-time.After(20 * time.Millisecond): // Polling with a deadline.
		case <-t.Context.Done():
		}
	}
}

// about is equal but for the time that calls take.
func about(a, b time.Duration) bool { return (a - b).Abs() < time.Second }
