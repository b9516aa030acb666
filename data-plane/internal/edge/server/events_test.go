package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// told is one batch of scripted events.
type told struct {
	events []wire.Event
	err    error
	passed uint64 // Number of the last event that was passed over; 0: none was.
}

// scripted is a namespace in which the test says what happens.
type scripted struct {
	next chan told
	// flood: there is always another event, and none is wanted.
	flood bool

	mu          sync.Mutex // Guards the rest.
	in          queue.EventFilter
	caller      queue.Caller
	readersOpen int // Readers that are open.
	seq         uint64
}

func newScripted() *scripted { return &scripted{next: make(chan told, 10), seq: 40} }

func (s *scripted) open(_ *queue.Views, c queue.Caller, in queue.EventFilter) (Events, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in, s.caller = in, c
	s.readersOpen++
	return s, nil
}

func (s *scripted) Next(ctx context.Context) ([]wire.Event, error) {
	if s.flood {
		s.seq++
		return nil, ctx.Err()
	}
	select {
	case t := <-s.next:
		s.seq = max(s.seq, t.passed)
		return t.events, t.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) GoOnFromNow() error { return nil }
func (s *scripted) Seq() uint64        { return s.seq }

func (s *scripted) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readersOpen--
}

func (s *scripted) readers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readersOpen
}

// listening is an open event stream and the text that came so far.
type listening struct {
	*testing.T
	resp *http.Response

	mu    sync.Mutex // Guards text.
	text  strings.Builder
	ended chan struct{}
}

func (b *bench) listen(path string, header ...string) *listening {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.h1.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	l := &listening{T: b.T, resp: resp, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		defer resp.Body.Close()
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			l.mu.Lock()
			l.text.Write(buf[:n])
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *listening) so() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// hears waits until the text contains want.
func (l *listening) hears(want string) {
	l.Helper()
	eventually.NoError(l, patience, "words", func() error {
		if so := l.so(); !strings.Contains(so, want) {
			return fmt.Errorf("%q was not heard:\n%s", want, so)
		}
		return nil
	})
}

func (l *listening) ends() {
	l.Helper()
	select {
	case <-l.ended:
	case <-time.After(5 * time.Second):
		l.Fatalf("the stream does not end:\n%s", l.so())
	}
}

func TestEvents_FramesAreTheContracts(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events?queues=a,b&queues=c&types=started&job_ids="+jobNumber(1).String()+"&last_event_id=3", "Last-Event-ID", "7")
	if h := l.resp.Header; l.resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", l.resp.StatusCode, h)
	}
	l.hears(":keepalive\n\n")
	s.mu.Lock()
	in := s.in
	s.mu.Unlock()
	if strings.Join(in.Queues, " ") != "a b c" || len(in.Types) != 1 || len(in.JobIDs) != 1 || in.After == nil || *in.After != 7 {
		t.Fatalf("asked for %+v", in)
	}
	at := time.Unix(0, 1_700_000_000_000_000_001)
	s.next <- told{events: []wire.Event{
		{Seq: 8, Type: "started", AtNS: at.UnixNano(), JobID: jobNumber(1).String(), Queue: "a", Data: &wire.EventData{State: "active", From: "pending", Attempt: 2}},
		{Seq: 9, Type: "queue.paused", AtNS: at.UnixNano(), Queue: "a"},
	}}
	l.hears("id: 8\nevent: started\ndata: " +
		`{"seq":8,"type":"started","at_ns":1700000000000000001,"job_id":"` + jobNumber(1).String() + `","queue":"a","data":{"state":"active","from":"pending","attempt":2}}` + "\n\n" +
		"id: 9\nevent: queue.paused\ndata: " + `{"seq":9,"type":"queue.paused","at_ns":1700000000000000001,"queue":"a"}` + "\n\n")
}

func TestEvents_WhatIsLostIsAGapAndTheStreamGoesOn(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events")
	s.next <- told{err: queue.ErrEventsLost}
	l.hears("id: 40\nevent: gap\ndata: {\"seq\":40,\"type\":\"gap\",")
	s.next <- told{events: []wire.Event{{Seq: 41, Type: "dead"}}}
	l.hears("id: 41\nevent: dead\n")
}

func TestEvents_EndsAreSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err          error
		code, reason string
	}{
		"lead":  {fault.New(fault.NotLeader, "", "moved"), "LEADER_UNAVAILABLE", "another node serves this namespace now"},
		"break": {errors.New("disk on fire"), "INTERNAL_ERROR", "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
			l := b.listen("/api/v1/events")
			s.next <- told{err: c.err}
			l.hears(`event: end` + "\n" + `data: {"seq":0,"type":"end","at_ns":`)
			l.hears(`"data":{"code":"` + c.code + `","reason":"` + c.reason)
			l.ends()
			if strings.Contains(l.so(), "fire") || strings.Contains(l.so(), "id: 0") || s.readers() != 0 {
				t.Fatalf("%d readers are left; heard\n%s", s.readers(), l.so())
			}
		})
	}
}

func TestEvents_DrainEndsThem(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events")
	l.hears(":keepalive")
	b.drains()
	l.hears("event: end")
	l.hears("shutting down")
	l.ends()
	b.do("GET", "/api/v1/events", "").want(t, 503)
}

func TestEvents_RevokedKeyLosesThem(t *testing.T) {
	t.Parallel()
	key := newKey(t, apikey.DataPlane)
	table := &keyTable{keys: map[string]Key{key.ID(): {
		Digests: [][sha256.Size]byte{key.Digest()}, Grants: granted("viewer"), Namespaces: map[string]job.Namespace{"default": nsA}, Default: "default",
	}}}
	s := newScripted()
	b := newBench(t, benchOptions{auth: NewKeyAuth(table, time.Now), router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events", "X-API-Key", key.Reveal())
	l.hears(":keepalive")
	table.change(key.ID(), func(k *Key) { k.Revoked = true })
	l.hears("the credential no longer allows this")
	l.ends()
}

func TestEvents_AreBoundedAndTheirFiltersChecked(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{Options: Options{StreamsMax: 2}, router: newRouter(Placement{Local: here}), events: s})
	one, _ := b.listen("/api/v1/events"), b.listen("/api/v1/events")
	one.hears(":keepalive")
	eventually.True(t, patience, "two are open", func() bool { return s.readers() == 2 })
	b.do("GET", "/api/v1/events", "").want(t, 429)
	for path, field := range map[string]string{
		"/api/v1/events?last_event_id=x": "last_event_id", "/api/v1/events?queue=a": "queue", "/api/v1/events?last_event_id=1&last_event_id=2": "last_event_id",
		"/api/v1/jobs?stat=dead": "stat", "/api/v1/jobs?limit=0": "limit", "/api/v1/jobs?tag=red": "tag", "/api/v1/jobs?created_after=today": "created_after",
		"/api/v1/jobs?queue=a&queue=b": "queue",
	} {
		p := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s}).do("GET", path, "").want(t, 400).problem(t)
		if len(p.Fields) != 1 || p.Fields[0].Field != field {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// A client that comes back does not begin at the last event that it wanted.
func TestEvents_KeepaliveSaysWhereToResume(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{Options: Options{KeepaliveEvery: time.Millisecond}, router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events?types=dead")
	l.hears(":keepalive\n\n:keepalive\nid: 40\n\n:keepalive\n\n")
	s.next <- told{passed: 45}
	l.hears(":keepalive\nid: 45\n\n:keepalive\n\n")
	s.next <- told{passed: 47, events: []wire.Event{{Seq: 47, Type: "dead"}}}
	l.hears("id: 47\nevent: dead\n")
	l.hears("}\n\n:keepalive\n\n")
	if so := l.so(); strings.Count(so, "id: ") != 3 {
		t.Errorf("a place was said twice:\n%s", so)
	}
}

// A stream that ends before it told anything can be resumed where it began.
func TestEvents_BeginWithThePlaceToResume(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events")
	b.srv.Drain(t.Context())
	l.ends()
	if so := l.so(); !strings.HasPrefix(so, ":keepalive\n\n:keepalive\nid: 40\n\n") {
		t.Errorf("the stream was %q", so)
	}
}

// The namespace is so busy with what a client does not want that its reader never waits.
func TestEvents_BusyNamespaceKeepsAStreamThatMatchesNothing(t *testing.T) {
	t.Parallel()
	key := newKey(t, apikey.DataPlane)
	table := &keyTable{keys: map[string]Key{key.ID(): {
		Digests: [][sha256.Size]byte{key.Digest()}, Grants: granted("viewer"), Namespaces: map[string]job.Namespace{"default": nsA}, Default: "default",
	}}}
	s := newScripted()
	s.flood = true
	b := newBench(t, benchOptions{auth: NewKeyAuth(table, time.Now), router: newRouter(Placement{Local: here}), events: s})
	l := b.listen("/api/v1/events?types=dead", "X-API-Key", key.Reveal())
	l.hears(":keepalive\nid: ")
	table.change(key.ID(), func(k *Key) { k.Revoked = true })
	l.hears("the credential no longer allows this")
	l.ends()
}

// A node that does not lead carries the stream, and ends it when it leaves.
func TestEvents_AreCarriedToTheLeader(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	s := newScripted()
	leader.router.set(Placement{Local: here})
	leader.srv.events = s.open
	const path = "/api/v1/events"
	l := follower.listen(path, headersFor(t, signed(nsA, "viewer"), path)...)
	s.next <- told{events: []wire.Event{{Seq: 1, Type: "started"}}}
	l.hears("id: 1\n")
	s.mu.Lock()
	if s.caller.Namespace != nsA {
		t.Errorf("asked for %s", s.caller.Namespace)
	}
	s.mu.Unlock()
	follower.drains()
	l.ends()
	eventually.True(t, patience, "the leader's reader is gone", func() bool { return s.readers() == 0 })
}

// A client that takes nothing is dropped; nothing is kept for it.
func TestEvents_ClientThatReadsNothingIsDropped(t *testing.T) {
	t.Parallel()
	dropped := make(chan error, 1)
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ew := newEventWriter(w)
		defer ew.slow.Stop()
		ew.patience = 50 * time.Millisecond
		big := wire.Event{Queue: strings.Repeat("q", 1<<20)}
		for {
			if err := ew.tell(&big); err != nil {
				dropped <- err
				return
			}
		}
	})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-dropped:
	case <-time.After(10 * time.Second):
		t.Fatal("the client is waited for")
	}
}

// flushes counts writes and flushes.
type flushes struct {
	http.ResponseWriter
	writes, flushes int
}

func (f *flushes) Write(p []byte) (int, error) { f.writes++; return len(p), nil }
func (f *flushes) FlushError() error           { f.flushes++; return nil }
func (*flushes) Header() http.Header           { return http.Header{} }
func (*flushes) WriteHeader(int)               {}

func TestEvents_EachFrameIsOneWriteAndOneFlush(t *testing.T) {
	t.Parallel()
	w := &flushes{}
	ew := newEventWriter(w)
	defer ew.slow.Stop()
	for i := range 5 {
		if err := ew.tell(&wire.Event{Seq: uint64(i), Type: "started", JobID: jobNumber(1).String(), Data: &wire.EventData{}}); err != nil {
			t.Fatal(err)
		}
	}
	if w.writes != 5 || w.flushes != 5 {
		t.Fatalf("%d writes and %d flushes for 5 events", w.writes, w.flushes)
	}
}
