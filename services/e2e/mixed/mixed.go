package mixed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
)

const (
	limited   = "limited"   // No more than so many leases at a time.
	throttled = "throttled" // No more than so many starts a second.
	once      = "once"      // Unique keys.
	ranked    = "ranked"    // Priorities, and a limit, so that jobs of all of them wait.
	flaky     = "flaky"     // The first attempt fails.
	later     = "later"     // Delayed.
	members   = "members"   // Of batches, which call back.
	callbacks = "callbacks"
	steps     = "steps" // Of chains.
	exits     = "exits"
	failures  = "failures"
	ticks     = "ticks"    // Of a schedule.
	large     = "large"    // Megabytes at a time.
	rare      = "rare"     // Many wait for each.
	register  = "register" // Has no jobs: its limit is written and read.
)

// Queues are those that workers have to take jobs from.
func Queues() []string {
	return []string{limited, throttled, once, ranked, flaky, later, members, callbacks, steps, exits, failures, ticks, large, rare}
}

const (
	pace         = 250 * time.Millisecond
	registerPace = 400 * time.Millisecond
	handlerTime  = 40 * time.Millisecond
	leasesMax    = 2
	startsMax    = 5
	startsWindow = time.Second
	uniqueFor    = 300 * 24 * time.Hour // Longer than any jump of a clock.
	delay        = 1500 * time.Millisecond
	retryAfter   = 500 * time.Millisecond
	chainSteps   = 3
	retries      = 20
)

// Load is one tenant's.
type Load struct {
	// URL and Key are the tenant's; Word is in every payload.
	URL, Key, Word string
	register       *history.Register
	schedule       string
	paused         bool
	mu             sync.Mutex        // Guards the rest.
	acked          []string          // Jobs.
	batches        map[string]string // Of those that were acknowledged in one.
	broken         []string

	waitedFor, lateJobs atomic.Int64 // Jobs.
}

// New is a load that has to be prepared.
func New(url, key, word string) *Load {
	return &Load{URL: url, Key: key, Word: word, register: history.NewRegister(), batches: map[string]string{}}
}

// Prepare sets the limits and makes the schedule, before the first job. It may be repeated after an
// error.
func (l *Load) Prepare(ctx context.Context, c *corvo.Client) error {
	if l.schedule == "" {
		var made wire.Schedule
		if err := c.API(ctx, http.MethodPost, "/schedules", wire.ScheduleRequest{Name: "often", Cron: "* * * * * *", Queue: ticks}, &made); err != nil {
			return err
		}
		l.schedule = made.ID
	}
	return errors.Join(
		c.API(ctx, http.MethodPut, "/queues/"+limited, wire.QueueRequest{MaxConcurrency: leasesMax}, nil),
		c.API(ctx, http.MethodPut, "/queues/"+ranked, wire.QueueRequest{MaxConcurrency: leasesMax}, nil),
		c.API(ctx, http.MethodPut, "/queues/"+throttled, wire.QueueRequest{Throttle: &wire.QueueThrottle{Limit: startsMax, WindowMS: startsWindow.Milliseconds()}}, nil),
	)
}

// wrong records what may never be.
func (l *Load) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// Produce enqueues something of every kind in turn until stop is closed, beginning with kind
// number first. broken is told what the service may never answer.
func (l *Load) Produce(c *corvo.Client, first int, stop <-chan struct{}, broken func(string)) {
	for i := first; sleep(pace, stop); i++ {
		judge(fmt.Sprint("enqueue of kind ", i), l.enqueue(c, i), broken)
	}
}

// judge tells of an error that is no fault's.
func judge(what string, err error, broken func(string)) {
	var refused *corvo.Error
	if errors.As(err, &refused) && !refused.Retryable && refused.Code != "DISK_FULL" {
		broken(fmt.Sprintf("%s: %v", what, err))
	}
}

func (l *Load) enqueue(c *corvo.Client, i int) error {
	kinds := []func() error{
		func() error { return l.add(c, l.job(limited)) },
		func() error { return l.add(c, l.job(throttled)) },
		func() error { return l.add(c, l.job(once, corvo.Unique(fmt.Sprint("key-", i%5), uniqueFor))) },
		func() error { return l.byRank(c) },
		func() error { return l.add(c, l.job(flaky, corvo.Backoff(corvo.BackoffFixed, retryAfter, 0))) },
		func() error { return l.add(c, l.job(later, corvo.Delay(delay))) },
		func() error { return l.batch(c) },
		func() error {
			return l.add(c, l.job(steps, corvo.Then(l.job(steps), l.job(steps)), corvo.OnExit(l.job(exits)), corvo.OnFailure(l.job(failures))))
		},
		func() error { return l.add(c, l.job(rare)) },
	}
	return kinds[i%len(kinds)]()
}

// job has the number of a chain's steps in its payload, which history.Record reads.
func (l *Load) job(queue string, opts ...corvo.EnqueueOption) *corvo.JobSpec {
	return corvo.RawJob(queue, json.RawMessage(fmt.Sprintf(`{"word":%q,"steps":%d}`, l.Word, chainSteps)), append(opts, corvo.MaxRetries(retries))...)
}

func (l *Load) add(c *corvo.Client, specs ...*corvo.JobSpec) error {
	made, err := c.EnqueueBatch(context.Background(), specs)
	l.ack(made...)
	return err
}

// byRank enqueues at once, the least urgent first, more than may run at a time.
func (l *Load) byRank(c *corvo.Client) error {
	var specs []*corvo.JobSpec
	for _, p := range slices.Backward(wire.Priorities()) {
		specs = append(specs, l.job(ranked, corvo.Priority(p)), l.job(ranked, corvo.Priority(p)))
	}
	return l.add(c, specs...)
}

func (l *Load) batch(c *corvo.Client) error {
	b, err := c.EnqueueWithCallback(context.Background(), l.job(callbacks), []*corvo.JobSpec{l.job(members), l.job(members), l.job(members)})
	if err == nil {
		l.ack(b.Jobs...)
		l.ackBatch(b)
	}
	return err
}

func (l *Load) ackBatch(b *corvo.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range b.Jobs {
		l.batches[e.ID] = b.ID
	}
}

func (l *Load) ack(jobs ...*corvo.Enqueued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range jobs {
		l.acked = append(l.acked, e.ID)
	}
}

// Acked is how many enqueues were acknowledged.
func (l *Load) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// Met is how many jobs came to fetches that waited for them, and how many were read late.
func (l *Load) Met() (waitedFor, late int64) { return l.waitedFor.Load(), l.lateJobs.Load() }

// Handle is the worker's side of all queues.
func (l *Load) Handle(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
	select {
	case <-time.After(handlerTime):
	case <-ctx.Done():
	}
	if j.Queue == flaky && j.Attempt == 1 {
		return nil, errors.New("the first attempt fails")
	}
	if j.Queue == large {
		return l.handleLarge(j.ID, j.Args)
	}
	return nil, nil
}

// UseRegister writes and reads the setting through a number of transports at once until stop is
// closed. Calls are not repeated: what became of one is known, or it may happen at any time.
func (l *Load) UseRegister(through []http.RoundTripper, stop <-chan struct{}) {
	var all sync.WaitGroup
	for client, next := range through {
		all.Go(func() {
			c := &http.Client{Transport: next}
			tick := time.NewTicker(registerPace)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				begun, value := time.Now(), 1+client+len(through)*i
				if (i+client)%2 == 0 {
					l.register.Wrote(client, value, begun, l.call(c, http.MethodPut, "/queues/"+register, wire.QueueRequest{MaxConcurrency: value}, nil) == nil)
				} else if value, err := l.setting(c); err == nil {
					l.register.Read(client, value, begun)
				}
			}
		})
	}
	all.Wait()
}

// setting is what the register has; a queue that is not there yet has 0.
func (l *Load) setting(c *http.Client) (int, error) {
	var q wire.Queue
	err := l.call(c, http.MethodGet, "/queues/"+register, nil, &q)
	if status := statusError(0); errors.As(err, &status) && status == http.StatusNotFound {
		return 0, nil
	}
	return q.MaxConcurrency, err
}

// End pauses the schedule, and is nil once no job goes on: INV-2. Ask again until then.
func (l *Load) End(ctx context.Context, c *corvo.Client) error {
	if !l.paused { // Once: until then it has to tick.
		if err := c.API(ctx, http.MethodPost, "/schedules/"+l.schedule+"/pause", nil, nil); err != nil {
			return err
		}
		l.paused = true
	}
	return history.AtRest(ctx, c)
}

// Check compares the record with the rules and returns every breach. Until when the clocks of all nodes
// were right is for the throttle, which counts calendar time.
func (l *Load) Check(r *history.Record, clocksRight time.Time) []string {
	breaches := r.Check(map[string]history.Limit{
		limited: {Concurrency: leasesMax}, ranked: {Concurrency: leasesMax}, throttled: {Starts: startsMax, Window: startsWindow, Until: clocksRight},
	})
	for _, id := range l.acked {
		job, batch := r.Jobs[id], l.batches[id]
		switch {
		case job == nil:
			breaches = append(breaches, fmt.Sprintf("INV-1: %s was acknowledged and is not there", id))
		case job.BatchID != batch:
			breaches = append(breaches, fmt.Sprintf("INV-10: %s was acknowledged in the batch %q and is in %q", id, batch, job.BatchID))
		case job.Queue == large:
			breaches = append(breaches, l.checkLarge(id, job)...)
		}
	}
	return slices.Concat(breaches, l.broken, l.register.Check())
}
