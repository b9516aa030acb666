package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
	"github.com/corvo-cloud/corvo/services/e2e/mixed"
)

const (
	queue        = "work"
	producers    = 3
	workers      = 3
	slots        = 4
	waiting      = 150 // Fetches of a heavy load.
	lease        = 5 * time.Second
	producerPace = 60 * time.Millisecond
	handlerTime  = 40 * time.Millisecond
)

// load is one tenant's producers and workers, which come through the proxy.
type load struct {
	w       *world
	tenant  tenant
	other   string // The tenant whose jobs nobody here may see.
	history *history.History
	mixed   *mixed.Load
	seen    taint
	stop    chan struct{} // Closed to end the producers.
	made    sync.WaitGroup

	mu      sync.Mutex // Guards the rest.
	workers []*crew
	hired   int
}

// crew is one worker program on a host of its own.
type crew struct {
	host  string
	alive atomic.Bool
	end   context.CancelFunc
}

// startLoad starts a tenant's load, with count producers and as many workers. A heavy one has large jobs and waiting fetches too.
func (w *world) startLoad(t tenant, other string, count int, heavy bool) (*load, error) {
	l := &load{w: w, tenant: t, other: other, history: history.New(), stop: make(chan struct{})}
	l.mixed = mixed.New(t.url(), t.key, t.name+"-mixed", l.history)
	if err := l.prepare(); err != nil {
		return nil, err
	}
	for i := range count {
		c := l.client(w.transport(w.clientHost()))
		l.made.Go(func() { l.produce(c, i) })
		l.made.Go(func() { l.mixed.Produce(c, i, l.stop) })
	}
	l.made.Go(func() {
		l.mixed.UseRegister([]http.RoundTripper{l.watched(w.transport(w.clientHost())), l.watched(w.transport(w.clientHost()))}, l.stop)
	})
	if heavy {
		c := l.client(w.transport(w.clientHost()))
		l.made.Go(func() {
			l.mixed.Heavy(c, func() http.RoundTripper { return l.watched(w.transport(w.clientHost())) }, waiting, l.stop)
		})
	}
	for range count {
		l.hire()
	}
	return l, nil
}

// client is a client of the tenant. Its transport is its own.
func (l *load) client(next http.RoundTripper) *corvo.Client {
	c, err := corvo.New(
		corvo.WithURL(l.tenant.url()), corvo.WithAPIKey(l.tenant.key), corvo.WithLogger(slog.New(slog.DiscardHandler)),
		corvo.WithHTTPClient(&http.Client{Transport: l.watched(next)}),
	)
	if err != nil {
		panic(err)
	}
	return c
}

func (l *load) produce(c *corvo.Client, number int) {
	tick := time.NewTicker(producerPace)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.enqueue(c, fmt.Sprintf("%s-producer-%d-%d", l.tenant.name, number, i))
		}
	}
}

func (l *load) enqueue(c *corvo.Client, key string) {
	begun := time.Now()
	job, err := c.EnqueueRaw(context.Background(), queue, history.Payload(key), corvo.IdempotencyKey(key), corvo.MaxRetries(20))
	var refused *corvo.Error
	switch {
	case err == nil:
		l.history.Enqueue(history.Enqueued{ID: job.ID, Key: key, Begun: begun, Acked: time.Now()})
	case errors.As(err, &refused) && !refused.Retryable && refused.Code != "DISK_FULL":
		l.history.Broken(fmt.Sprintf("enqueue of %s: %v", key, err))
	}
}

// hire starts one more worker.
func (l *load) hire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hired++
	id := fmt.Sprintf("%s-worker-%d", l.tenant.name, l.hired)
	m := &crew{host: l.w.clientHost()}
	m.alive.Store(true)
	tr := l.w.transport(m.host)
	tr.DialContext = l.w.net.dialer(m.host, m.alive.Load)
	w := corvo.NewWorker(l.client(history.NewTap(tr, l.history)), corvo.Queue(queue, slots), corvo.Pool(slots, mixed.Queues()...), corvo.Lease(lease), corvo.WorkerID(id))
	corvo.HandleRaw(w, queue, func(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
		l.history.Start(j.ID, history.Run{Key: history.KeyOf(j.Args), Worker: id, Attempt: j.Attempt, At: time.Now()})
		select {
		case <-time.After(handlerTime):
		case <-ctx.Done():
		}
		return nil, nil
	})
	corvo.HandleRaw(w, corvo.AnyKind, l.mixed.Handle)
	var ctx context.Context
	ctx, m.end = context.WithCancel(context.Background())
	go func() {
		if err := w.Run(ctx); err != nil && m.alive.Load() {
			l.history.Broken(fmt.Sprintf("%s: %v", id, err))
		}
	}()
	l.workers = append(l.workers, m)
}

// lose kills a worker program in an instant, if there is one.
func (l *load) lose(i int) (host string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.workers) == 0 {
		return "", false
	}
	i %= len(l.workers)
	m := l.workers[i]
	l.workers = slices.Delete(l.workers, i, i+1)
	m.alive.Store(false)
	l.w.net.vanish(m.host)
	m.end()
	return m.host, true
}

// crewHost is where a worker runs, if there is one.
func (l *load) crewHost(i int) (host string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.workers) == 0 {
		return "", false
	}
	return l.workers[i%len(l.workers)].host, true
}

func (l *load) stopProducers() {
	close(l.stop)
	l.made.Wait()
}
