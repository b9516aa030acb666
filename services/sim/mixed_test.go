package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/history"
)

// startLoads starts both tenants.
func (w *world) startLoads() ([]*load, error) {
	names := []string{"acme", "rival"}
	var loads []*load
	for i, count := range []int{producers, 1} {
		t, err := w.createTenant(names[i])
		if err != nil {
			return nil, err
		}
		l, err := w.startLoad(t, names[1-i], count, w.heavy && i == 0)
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
	return l.w.retry(ctx, "prepare the queues of "+l.tenant.name, func() error { return l.mixed.Prepare(ctx, c) })
}

// clocksRight is up to when the clocks of all nodes were right.
func (w *world) clocksRight() time.Time {
	if at := w.wrongClocks.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now()
}

// end stops what makes work, and waits until every job has an end: INV-2.
func (l *load) end() {
	l.stopProducers()
	c := l.client(l.w.transport(l.w.clientHost()))
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if err := l.w.retry(ctx, "all jobs of "+l.tenant.name+" end", func() error { return l.mixed.End(ctx, c) }); err != nil {
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
	for _, found := range [][]string{l.history.Check(record.Jobs, lease), l.mixed.Check(record, l.w.clocksRight()), l.history.Changed(record.Jobs), l.seen.check(l)} {
		for _, b := range found {
			l.w.breach("%s: %s", l.tenant.name, b)
		}
	}
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
