package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
)

// The queues of what is more than a job: their rules are judged by what the service says
// itself (history.Record).
const (
	limited   = "limited"   // No more than so many leases at a time.
	throttled = "throttled" // No more than so many starts a second.
	once      = "once"      // Unique keys.
	ranked    = "ranked"    // Priorities.
	flaky     = "flaky"     // The first attempt fails.
	later     = "later"     // Delayed.
	members   = "members"   // Of batches, which call back.
	callbacks = "callbacks"
	steps     = "steps" // Of chains.
	exits     = "exits"
	failures  = "failures"
	ticks     = "ticks" // Of a schedule.
)

var mixedQueues = []string{limited, throttled, once, ranked, flaky, later, members, callbacks, steps, exits, failures, ticks}

const (
	register     = "register" // A queue whose limit is written and read.
	mixPace      = 250 * time.Millisecond
	registerPace = 400 * time.Millisecond
	registerWait = 2 * time.Second
	leasesMax    = 2
	startsMax    = 5
	startsWindow = time.Second
	uniqueFor    = 300 * 24 * time.Hour // Longer than any jump of a clock.
	delay        = 1500 * time.Millisecond
	chainSteps   = 3
)

// mixed is what the load knows of its jobs that are more than a job.
type mixed struct {
	register *history.Register
	schedule string
	mu       sync.Mutex // Guards acked.
	acked    []string
}

func (m *mixed) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.acked)
}

func (m *mixed) ack(ids ...*corvo.Enqueued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range ids {
		m.acked = append(m.acked, e.ID)
	}
}

// startLoads starts both tenants.
func (w *world) startLoads() ([]*load, error) {
	names := []string{"acme", "rival"}
	var loads []*load
	for i, count := range []int{producers, 1} {
		t, err := w.createTenant(names[i])
		if err != nil {
			return nil, err
		}
		l, err := w.startLoad(t, names[1-i], count)
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// prepare sets the limits and the schedule, before the first job.
func (l *load) prepare() error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	c := l.client(l.w.transport(l.w.clientHost()))
	l.mixed.register = history.NewRegister()
	var made wire.Schedule
	return l.w.retry(ctx, "prepare the queues of "+l.tenant.name, func() error {
		if l.mixed.schedule == "" {
			if err := c.API(ctx, http.MethodPost, "/schedules", wire.ScheduleRequest{Name: "often", Cron: "* * * * * *", Queue: ticks}, &made); err != nil {
				return err
			}
			l.mixed.schedule = made.ID
		}
		return errors.Join(
			c.API(ctx, http.MethodPut, "/queues/"+limited, wire.QueueRequest{MaxConcurrency: leasesMax}, nil),
			c.API(ctx, http.MethodPut, "/queues/"+throttled, wire.QueueRequest{Throttle: &wire.QueueThrottle{Limit: startsMax, WindowMS: startsWindow.Milliseconds()}}, nil),
		)
	})
}

// limits are those that prepare set.
func (l *load) limits() map[string]history.Limit {
	until := time.Now()
	if at := l.w.wrongClocks.Load(); at != 0 {
		until = time.Unix(0, at)
	}
	return map[string]history.Limit{limited: {Concurrency: leasesMax}, throttled: {Starts: startsMax, Window: startsWindow, Until: until}}
}

// mix enqueues something of every kind in turn.
func (l *load) mix(c *corvo.Client, number int) {
	tick := time.NewTicker(mixPace)
	defer tick.Stop()
	for i := number; ; i++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		err := l.enqueueKind(c, i)
		var refused *corvo.Error
		if errors.As(err, &refused) && !refused.Retryable && refused.Code != "DISK_FULL" {
			l.history.Broken(fmt.Sprintf("enqueue of kind %d: %v", i, err))
		}
	}
}

func (l *load) enqueueKind(c *corvo.Client, i int) error {
	job := func(queue string, opts ...corvo.EnqueueOption) *corvo.JobSpec {
		return corvo.RawJob(queue, json.RawMessage(fmt.Sprintf(`{"tag":%q,"steps":%d}`, l.tenant.name+"-mixed", chainSteps)), append(opts, corvo.MaxRetries(20))...)
	}
	one := func(spec *corvo.JobSpec) error {
		made, err := c.EnqueueBatch(context.Background(), []*corvo.JobSpec{spec})
		l.mixed.ack(made...)
		return err
	}
	kinds := []func() error{
		func() error { return one(job(limited)) },
		func() error { return one(job(throttled)) },
		func() error { return one(job(once, corvo.Unique(fmt.Sprint("key-", i%5), uniqueFor))) },
		func() error {
			return one(job(ranked, corvo.Priority([]wire.Priority{corvo.Normal, corvo.High, corvo.Critical}[i%3])))
		},
		func() error { return one(job(flaky, corvo.Backoff(corvo.BackoffFixed, 500*time.Millisecond, 0))) },
		func() error { return one(job(later, corvo.Delay(delay))) },
		func() error {
			batch, err := c.EnqueueWithCallback(context.Background(), job(callbacks), []*corvo.JobSpec{job(members), job(members), job(members)})
			if err == nil {
				l.mixed.ack(batch.Jobs...)
			}
			return err
		},
		func() error {
			return one(job(steps, corvo.Then(job(steps), job(steps)), corvo.OnExit(job(exits)), corvo.OnFailure(job(failures))))
		},
	}
	return kinds[i%len(kinds)]()
}

// handle is the worker's side of all mixed queues.
func (m *mixed) handle(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
	select {
	case <-time.After(handlerTime):
	case <-ctx.Done():
	}
	if j.Queue == flaky && j.Attempt == 1 {
		return nil, errors.New("the first attempt fails")
	}
	return nil, nil
}

// useRegister writes and reads one value from two clients until the load ends. Calls are
// not repeated: what became of one is known, or it may happen at any time.
func (l *load) useRegister() {
	var both sync.WaitGroup
	for client := range 2 {
		both.Go(func() {
			c := &http.Client{Transport: l.watched(l.w.transport(l.w.clientHost()))}
			tick := time.NewTicker(registerPace)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				case <-tick.C:
				}
				if begun, value := time.Now(), 1+client+2*i; (i+client)%2 == 0 {
					l.mixed.register.Wrote(client, value, begun, l.once(c, http.MethodPut, wire.QueueRequest{MaxConcurrency: value}, nil) == nil)
				} else if q := new(wire.Queue); l.once(c, http.MethodGet, nil, q) == nil {
					l.mixed.register.Read(client, q.MaxConcurrency, begun)
				}
			}
		})
	}
	both.Wait()
}

// once makes one call about the register's queue, one time. A queue that is not there
// answers nothing.
func (l *load) once(c *http.Client, method string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), registerWait)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, l.tenant.url()+"/api/v1/queues/"+register, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", l.tenant.key)
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300 && res.StatusCode != http.StatusNotFound:
		return fmt.Errorf("answered %s", res.Status)
	case answer == nil || res.StatusCode == http.StatusNotFound:
		return nil
	}
	return json.Unmarshal(all, answer)
}

// end stops what makes work, and waits until every job has an end: INV-2.
func (l *load) end() {
	l.stopProducers()
	c := l.client(l.w.transport(l.w.clientHost()))
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if err := l.w.retry(ctx, "all jobs of "+l.tenant.name+" end", func() error {
		if err := c.API(ctx, http.MethodPost, "/schedules/"+l.mixed.schedule+"/pause", nil, nil); err != nil {
			return err
		}
		return history.AtRest(ctx, c)
	}); err != nil {
		l.w.breach("INV-2: %v", err)
	}
}

// judge compares what clients were told and what the service says with the rules.
func (l *load) judge() {
	c := l.client(l.w.transport(l.w.clientHost()))
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	var record *history.Record
	if err := l.w.retry(ctx, "read what the service says", func() (err error) {
		record, err = history.ReadRecord(ctx, c)
		return err
	}); err != nil {
		l.w.breach("INV-15: %v", err)
		return
	}
	l.w.say("%s: %d events, %d jobs", l.tenant.name, len(record.Events), len(record.Jobs))
	for _, b := range [][]string{l.history.Check(record.Jobs, lease), record.Check(l.limits()), l.mixed.register.Check(), l.missing(record), l.seen.check(l)} {
		for _, b := range b {
			l.w.breach("%s: %s", l.tenant.name, b)
		}
	}
}

// missing are jobs that were acknowledged and are not there, or not as they were sent.
func (l *load) missing(r *history.Record) (breaches []string) {
	for _, id := range l.mixed.acked {
		if r.Jobs[id] == nil {
			breaches = append(breaches, fmt.Sprintf("INV-1: %s was acknowledged and is not there", id))
		}
	}
	for id, key := range l.history.IDs() {
		if job := r.Jobs[id]; job != nil && string(job.Payload) != string(payload(key)) {
			breaches = append(breaches, fmt.Sprintf("INV-1: %s has the payload %s, want %s", id, job.Payload, payload(key)))
		}
	}
	return breaches
}

// taint is whose jobs were seen in answers: INV-14.
type taint struct{ own, others atomic.Int64 }

func (t *taint) check(l *load) []string {
	if n := t.others.Load(); n > 0 {
		return []string{fmt.Sprintf("INV-14: %d answers to %s had something of %s", n, l.tenant.name, l.other)}
	}
	if t.own.Load() == 0 {
		return []string{"INV-14 was not looked at: no answer had anything of the tenant itself"}
	}
	return nil
}

// watched looks for both tenants' words in everything that next answers. Answers must not be
// compressed for that.
func (l *load) watched(next http.RoundTripper) http.RoundTripper { return &watcher{l, next} }

type watcher struct {
	l    *load
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Header.Del("Accept-Encoding")
	out.Header.Del("Connect-Accept-Encoding")
	res, err := w.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	res.Body = &tainted{ReadCloser: res.Body, l: w.l}
	return res, nil
}

// tainted is the body of an answer.
type tainted struct {
	io.ReadCloser
	l    *load
	rest []byte // The end of what was read, which may be the beginning of a word.
}

// Read implements io.Reader.
func (t *tainted) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	all := append(t.rest, b[:n]...)
	own, other := []byte(t.l.tenant.name+"-"), []byte(t.l.other+"-")
	if bytes.Contains(all, other) {
		t.l.seen.others.Add(1)
	}
	if bytes.Contains(all, own) {
		t.l.seen.own.Add(1)
	}
	t.rest = bytes.Clone(all[max(0, len(all)-len(other)+1):])
	return n, err
}
