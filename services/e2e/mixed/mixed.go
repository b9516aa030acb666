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
	doomed    = "doomed"   // Fail for good: steps of chains and members of batches.
	slow      = "slow"     // Take longer than a lease.
	ticks     = "ticks"    // Of a schedule.
	large     = "large"    // Megabytes at a time.
	rare      = "rare"     // Many wait for each.
	register  = "register" // Has no jobs: its limit is written and read.
)

// Queues are those that workers have to take jobs from.
func Queues() []string {
	return []string{
		limited, throttled, once, ranked, flaky, later, members, callbacks, steps, exits, failures, doomed, slow, ticks, large, rare,
	}
}

const (
	pace         = 250 * time.Millisecond
	seldom       = 4 // Turns, for what lasts.
	registerPace = 400 * time.Millisecond
	leasesMax    = 2
	startsMax    = 5
	startsWindow = time.Second
	startsBurst  = 12                   // More than may start in two windows.
	uniqueFor    = 300 * 24 * time.Hour // Longer than any jump of a clock.
	uniqueKeys   = 3
	delay        = 1500 * time.Millisecond
	retryAfter   = 500 * time.Millisecond
	chainSteps   = 3
	retries      = 20
)

// Load is one tenant's.
type Load struct {
	// URL and Key are the tenant's; Word is in every payload.
	URL, Key, Word string
	history        *history.History
	register       *history.Register
	schedule       string
	paused         bool
	repeats        atomic.Int64
	mu             sync.Mutex        // Guards the rest.
	sent           []sent            // By serial.
	acked          map[string]int    // Serials, by the job that a call was told.
	batches        map[string]string // Of those that were acknowledged in one.
	duplicates     []duplicate
	cancelled      map[string]bool // Jobs that somebody asked to cancel.
	broken         []string
	met            Met
}

// sent is a job that was sent, whatever became of it.
type sent struct{ queue, payload string }

// duplicate is an answer to an enqueue with a unique key, that another job holds it.
type duplicate struct {
	holder, key string
	begun       time.Time
}

// New is a load that has to be prepared. What its workers are handed and do is in h.
func New(url, key, word string, h *history.History) *Load {
	return &Load{
		URL: url, Key: key, Word: word, history: h, register: history.NewRegister(),
		acked: map[string]int{}, batches: map[string]string{}, cancelled: map[string]bool{},
	}
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

// Produce enqueues something of every kind in turn until stop is closed, beginning with kind
// number first.
func (l *Load) Produce(c *corvo.Client, first int, stop <-chan struct{}) {
	for i := first; sleep(pace, stop); i++ {
		l.judge(fmt.Sprint("enqueue of kind ", i), l.enqueue(c, i))
	}
}

// judge tells of an error that is no fault's.
func (l *Load) judge(what string, err error) {
	var refused *corvo.Error
	if errors.As(err, &refused) && !refused.Retryable && refused.Code != "DISK_FULL" {
		l.wrong("%s: %v", what, err)
	}
}

// wrong records what may never be.
func (l *Load) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

func (l *Load) enqueue(c *corvo.Client, i int) error {
	kinds := []func() error{
		func() error { return l.repeated(c) },
		func() error { return l.add(c, l.job(rare)) },
		func() error { return l.twice(c, fmt.Sprint("key-", i%uniqueKeys)) },
		func() error { return l.byRank(c) },
		func() error { return l.add(c, l.job(flaky, corvo.Backoff(corvo.BackoffFixed, retryAfter, 0))) },
		func() error { return l.add(c, l.job(later, corvo.Delay(delay))) },
		func() error { return l.batch(c, members, members, members) },
		func() error { return l.batch(c, members, doomed) },
		func() error { return l.chain(c, steps, steps, steps) },
		func() error { return l.chain(c, steps, doomed, steps) },
	}
	lasting := []func() error{
		func() error { return l.add(c, l.some(startsBurst, throttled)...) },
		func() error { return l.add(c, l.job(slow)) },
		func() error { return l.cancelSoon(c) },
		func() error { return nil },
	}
	turn, kind := i/(len(kinds)+1), i%(len(kinds)+1)
	if kind == len(kinds) {
		return lasting[turn%seldom]()
	}
	return kinds[kind]()
}

// item is a job to send.
type item struct {
	serial int
	key    string // Unique; empty without.
	spec   *corvo.JobSpec
}

// job has its serial in its payload, and the number of a chain's steps, which history.Record reads.
func (l *Load) job(queue string, opts ...corvo.EnqueueOption) item {
	return l.item(queue, func(serial int) string {
		return fmt.Sprintf(`{"word":%q,"serial":%d,"steps":%d}`, l.Word, serial, chainSteps)
	}, opts...)
}

func (l *Load) item(queue string, payload func(serial int) string, opts ...corvo.EnqueueOption) item {
	l.mu.Lock()
	defer l.mu.Unlock()
	serial := len(l.sent) + 1 // 0 is none.
	text := payload(serial)
	was := sent{queue: queue}
	if queue != large { // It tells its own digest, and is too large to be kept.
		was.payload = text
	}
	l.sent = append(l.sent, was)
	return item{serial: serial, spec: corvo.RawJob(queue, json.RawMessage(text), append(opts, corvo.MaxRetries(retries))...)}
}

func (l *Load) some(count int, queue string) (items []item) {
	for range count {
		items = append(items, l.job(queue))
	}
	return items
}

func specs(items []item) (out []*corvo.JobSpec) {
	for _, it := range items {
		out = append(out, it.spec)
	}
	return out
}

func (l *Load) add(c *corvo.Client, items ...item) error {
	begun := time.Now()
	made, err := c.EnqueueBatch(context.Background(), specs(items))
	l.ack(begun, items, made)
	return err
}

// repeated makes one call twice, as who missed the first answer: it makes one job.
func (l *Load) repeated(c *corvo.Client) error {
	it := l.job(limited, corvo.IdempotencyKey(fmt.Sprint(l.Word, "-", l.repeats.Add(1))))
	return errors.Join(l.add(c, it), l.add(c, it))
}

// twice enqueues two jobs with one unique key: the second is never made.
func (l *Load) twice(c *corvo.Client, key string) error {
	items := []item{l.job(once, corvo.Unique(key, uniqueFor)), l.job(once, corvo.Unique(key, uniqueFor))}
	for i := range items {
		items[i].key = key
	}
	return l.add(c, items...)
}

// byRank enqueues at once, the least urgent first, more than may run at a time.
func (l *Load) byRank(c *corvo.Client) error {
	var items []item
	for _, p := range slices.Backward(wire.Priorities()) {
		items = append(items, l.job(ranked, corvo.Priority(p)), l.job(ranked, corvo.Priority(p)))
	}
	return l.add(c, items...)
}

func (l *Load) batch(c *corvo.Client, queues ...string) error {
	var items []item
	for _, q := range queues {
		items = append(items, l.job(q))
	}
	begun := time.Now()
	b, err := c.EnqueueWithCallback(context.Background(), l.job(callbacks).spec, specs(items))
	if err == nil {
		l.ack(begun, items, b.Jobs)
		l.ackBatch(b)
	}
	return err
}

// chain is of as many steps as chainSteps.
func (l *Load) chain(c *corvo.Client, queues ...string) error {
	var after []*corvo.JobSpec
	for _, q := range queues[1:] {
		after = append(after, l.job(q).spec)
	}
	return l.add(c, l.job(queues[0], corvo.Then(after...), corvo.OnExit(l.job(exits).spec), corvo.OnFailure(l.job(failures).spec)))
}

// cancelSoon cancels a job while it runs, if nothing comes in between.
func (l *Load) cancelSoon(c *corvo.Client) error {
	begun, items := time.Now(), []item{l.job(slow)}
	made, err := c.EnqueueBatch(context.Background(), specs(items))
	if err != nil {
		return err
	}
	l.ack(begun, items, made)
	id := made[0].ID
	l.mu.Lock()
	l.cancelled[id] = true
	l.mu.Unlock()
	time.Sleep(cancelAfter)
	_, _ = c.Cancel(context.Background(), id) // What became of it, the record says.
	return nil
}

func (l *Load) ackBatch(b *corvo.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range b.Jobs {
		l.batches[e.ID] = b.ID
	}
}

// ack records what a call, which began at a time, was told of its items.
func (l *Load) ack(begun time.Time, items []item, told []*corvo.Enqueued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range told {
		it := items[i]
		if e.Duplicate {
			l.duplicates = append(l.duplicates, duplicate{e.ID, it.key, begun})
			continue
		}
		if other, ok := l.acked[e.ID]; ok && other != it.serial {
			l.broken = append(l.broken, fmt.Sprintf("INV-1: %s was told to two enqueues, %d and %d", e.ID, other, it.serial))
		}
		l.acked[e.ID] = it.serial
	}
}

// Acked is how many enqueues were acknowledged.
func (l *Load) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
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
