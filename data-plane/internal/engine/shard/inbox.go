package shard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// inboxTurn is what a namespace's turn in an entry is worth, for a weight of one.
	inboxTurn = 64
	// costBytes of a request cost an entry what a command does.
	costBytes = 128
	// retryMost bounds what a refusal promises.
	retryMost = 5 * time.Second
)

// inbox holds requests that were admitted and are in no entry yet: a line for each
// namespace, first come, first served; lines take turns by weight when an entry is gathered.
type inbox struct {
	requests, bytes *fair.Budget[job.Namespace]
	arrived         chan struct{} // Holds one: there is a request, perhaps.

	mu    sync.Mutex // Guards what follows.
	lines *fair.Queue[job.Namespace, *request]
	watch returns

	pace atomic.Int64 // Requests that leave in a second.
}

func newInbox(weight func(job.Namespace) int64) *inbox {
	return &inbox{
		requests: fair.NewBudget(inboxMax, weight), bytes: fair.NewBudget(inboxBytesMax, weight),
		arrived: make(chan struct{}, 1), lines: fair.NewQueue[job.Namespace, *request](inboxTurn, weight),
	}
}

// put reports whether there was room for a request.
func (b *inbox) put(q *request) bool {
	if !b.requests.Take(q.ns, 1) {
		return false
	}
	if !b.bytes.Take(q.ns, int64(q.bytes)) {
		b.requests.Give(q.ns, 1)
		return false
	}
	b.mu.Lock()
	b.lines.Push(q.ns, q.cost(), q)
	b.watch.arrives()
	b.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return true
}

// take takes out the request that is next, if there is one.
func (b *inbox) take() *request {
	b.mu.Lock()
	q, ok := b.lines.Pop()
	b.mu.Unlock()
	return b.took(q, ok)
}

// takeIf is take, as long as what is next meets the condition.
func (b *inbox) takeIf(meets func(*request) bool) *request {
	b.mu.Lock()
	q, ok := b.lines.PopIf(meets)
	b.mu.Unlock()
	return b.took(q, ok)
}

// took gives back the room of a request that was taken out.
func (b *inbox) took(q *request, ok bool) *request {
	if !ok {
		return nil
	}
	b.requests.Give(q.ns, 1)
	b.bytes.Give(q.ns, int64(q.bytes))
	return q
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Len()
}

// returns watches how soon callers are back after their answers.
type returns struct {
	answered int       // How many they are; 0 while they are being answered.
	at       time.Time // Since when they are.
	arrived  int       // Requests since then.
	all      time.Time // When as many had arrived as were answered; zero before.
}

func (r *returns) arrives() {
	if r.arrived++; r.arrived == r.answered {
		r.all = time.Now()
	}
}

// answering is called before callers are answered: it begins to watch for them. It is how many
// others are in line, and what became of those answered before.
func (b *inbox) answering(now time.Time) (inLine int, before returns) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.watch = b.watch, returns{at: now}
	return b.lines.Len(), before
}

// answered notes how many callers were answered.
func (b *inbox) answered(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch.answered = n; b.watch.arrived >= n {
		b.watch.all = time.Now()
	}
}

// left notes that an entry of so many requests took so long.
func (b *inbox) left(requests int, took time.Duration) {
	if requests == 0 || took <= 0 {
		return
	}
	was := b.pace.Load()
	b.pace.Store(was + (int64(float64(requests)/took.Seconds())-was)/8)
}

// retryAfter is the time in which what a namespace has in line is done at the latest pace.
func (b *inbox) retryAfter(ns job.Namespace) time.Duration {
	b.mu.Lock()
	n := b.lines.LenOf(ns)
	b.mu.Unlock()
	pace := b.pace.Load()
	if pace <= 0 {
		return overloadRetry
	}
	return min(max(time.Duration(float64(n)/float64(pace)*float64(time.Second)), overloadRetry), retryMost)
}

// namespace is whose a request is: a request is of one.
func (r *Request) namespace() job.Namespace {
	switch {
	case r.Fetch != nil:
		return r.Fetch.NS
	case len(r.Renew) > 0:
		return r.Renew[0].NS
	}
	for _, list := range [...][]command.Command{r.Settle, r.After} {
		if len(list) > 0 {
			ns, _ := command.NamespaceOf(list[0])
			return ns
		}
	}
	return job.Namespace{}
}

// cost is what a request costs an entry, in commands.
func (q *request) cost() int64 {
	n := 1 + len(q.Settle) + len(q.Renew) + len(q.After) + q.bytes/costBytes
	if q.Fetch != nil && !q.Fetch.Wait {
		n += q.Fetch.Count
	}
	return int64(n)
}
