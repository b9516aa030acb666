package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// keepaliveEvery is the contract's.
	keepaliveEvery = 15 * time.Second
	// slowReader is how long a client may take nothing of a frame: it is dropped and
	// can resume, because the events wait in the feed and not here.
	slowReader = 10 * time.Second
	// A client that waits for rare events is told how far the stream is, in a keepalive, also
	// after passedMax events that it does not want, but not more often than passedEvery: it
	// resumes there, and they are not read again.
	passedMax   = 10_000
	passedEvery = time.Second
)

// keepalive is a comment, which every client's parser passes over.
var keepalive = []byte(":keepalive\n\n")

var eventParams = []shape.Param{
	shape.IntParam("last_event_id", "Start after this event. The header Last-Event-ID wins over it; without either, the stream starts with the next new event."),
	shape.TextParam("queues", "Only events of these queues, separated by commas."),
	shape.TextParam("job_ids", "Only events of these jobs, separated by commas."),
	shape.TextParam("types", "Only events of these types, separated by commas."),
}

// eventStream is one open event stream. It ends when its context does.
type eventStream struct {
	cancel context.CancelCauseFunc
}

var errDraining = errors.New("the server is shutting down")

func (e *eventStream) End() { e.cancel(errDraining) }
func (e *eventStream) Cut() { e.cancel(nil) }

// enterEvents serves an event stream at the leader, or carries it there. Both last
// as long as the client likes, so both are counted and ended with the other streams.
func (s *Server) enterEvents(c *call) error {
	if s.isDraining() {
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "this node is shutting down; reconnect")
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	c.r = c.r.WithContext(ctx)
	st := &eventStream{cancel: cancel}
	if err := s.streams.Add(c.who.Identity.TenantID, st); err != nil {
		return err
	}
	defer s.streams.Remove(st)
	if c.place.Local == nil {
		return s.carry(c)
	}
	return c.route.handle(c)
}

func (c *call) events() error {
	var d shape.Decoder
	in := eventFilter(&d, c.query(&d), c.r.Header.Get("Last-Event-ID"))
	if err := d.Err(); err != nil {
		return err
	}
	reader, err := c.s.events(c.place.Views, c.who.Caller, in)
	if err != nil {
		return err
	}
	defer reader.Close()
	w := newEventWriter(c.w)
	defer w.slow.Stop()
	if err := w.begin(); err != nil {
		return nil // The client is gone.
	}
	w.goodbye(c.r.Context(), c.follow(reader, w, in))
	return nil
}

// listener is a client that is told events, in either protocol.
type listener interface {
	tell(e *wire.Event) error
	// alive is told when there is nothing to tell. A client that comes back begins after
	// place; 0 leaves the place that it has.
	alive(place uint64) error
	// heard is when the client last was told something.
	heard() time.Time
}

// follow tells events until the client, the credential, the leadership or the server
// ends, and returns why.
func (c *call) follow(reader Events, l listener, in queue.EventFilter) error {
	at := reader.Seq()
	f := &following{call: c, reader: reader, listener: l, place: at, passed: at, checked: time.Now()}
	if in.After == nil { // Should it end before there was anything to tell, it is resumed here.
		if err := l.alive(at); err != nil {
			return err
		}
	}
	for {
		events, err := f.next(c.r.Context())
		for i := range events {
			if err == nil {
				err = f.say(&events[i])
			}
		}
		if errors.Is(err, queue.ErrEventsLost) {
			err = f.skip()
		}
		if err == nil {
			err = f.tend()
		}
		if err != nil {
			return err
		}
	}
}

// following is the way of one client through a namespace's events.
type following struct {
	*call
	reader   Events
	listener listener
	place    uint64 // Where the client resumes, as far as it was told.
	passed   uint64 // Number of the last event when it was last told something.
	checked  time.Time
}

// next waits for events, at most until tend has something to do.
func (f *following) next(ctx context.Context) ([]wire.Event, error) {
	patience := time.Until(f.listener.heard().Add(f.s.opts.KeepaliveEvery))
	if f.who.Recheck != nil {
		patience = min(patience, time.Until(f.checked.Add(streams.RecheckEvery)))
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := f.reader.Next(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	return events, err
}

// tend keeps the credential honest and the connection alive, also while events come that
// are not wanted.
func (f *following) tend() error {
	if f.who.Recheck != nil && time.Since(f.checked) >= streams.RecheckEvery {
		if err := f.who.Recheck(); err != nil {
			return err
		}
		f.checked = time.Now()
	}
	at, silent := f.reader.Seq(), time.Since(f.listener.heard())
	if silent < f.s.opts.KeepaliveEvery && (silent < passedEvery || at < f.passed+passedMax) {
		return nil
	}
	place := at
	if at == f.place {
		place = 0
	}
	f.place, f.passed = at, at
	return f.listener.alive(place)
}

func (f *following) say(e *wire.Event) error {
	f.place, f.passed = e.Seq, e.Seq
	return f.listener.tell(e)
}

// skip tells that events are missing and goes on with what happens next. Its id
// makes a client that resumes begin there.
func (f *following) skip() error {
	if err := f.reader.GoOnFromNow(); err != nil {
		return err
	}
	return f.say(&wire.Event{
		Seq: f.reader.Seq(), Type: "gap", AtNS: f.s.now().UnixNano(),
		Data: &wire.EventData{Reason: "the events in between are no longer kept; reload what you display"},
	})
}

// eventWriter writes frames, each in one piece: some clients lose what comes in
// several.
type eventWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	slow *streams.Timeout // Runs while the client is waited for, at most for patience.

	patience time.Duration
	last     time.Time // Of the last write.
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	rc := http.NewResponseController(w)
	// Where it is not supported a slow client is found by the pings of its connection.
	return &eventWriter{w: w, rc: rc, slow: streams.NewTimeout(func() { streams.CutWrites(rc) }), patience: slowReader}
}

// begin answers, so that the client sees that it is connected.
func (w *eventWriter) begin() error {
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // Proxies in front of ours hold nothing back.
	w.w.WriteHeader(http.StatusOK)
	return w.send(keepalive)
}

func (w *eventWriter) tell(e *wire.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %d: %w", e.Seq, err)
	}
	b := make([]byte, 0, len(data)+64)
	b = fmt.Appendf(b, "id: %d\nevent: %s\ndata: ", e.Seq, e.Type)
	return w.send(append(append(b, data...), '\n', '\n'))
}

// alive gives the place as an id without data: parsers remember it and tell nobody.
func (w *eventWriter) alive(place uint64) error {
	if place == 0 {
		return w.send(keepalive)
	}
	return w.send(fmt.Appendf(nil, ":keepalive\nid: %d\n\n", place))
}

func (w *eventWriter) heard() time.Time { return w.last }

func (w *eventWriter) send(b []byte) error {
	w.slow.Start(w.patience)
	defer w.slow.Stop()
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	w.last = time.Now()
	return w.rc.Flush()
}

// goodbye says why the stream ends, where there is somebody to hear it. It has no
// id: the client resumes after the last event it saw. A proxy that ends a stream says it
// in the same form.
func (w *eventWriter) goodbye(ctx context.Context, err error) {
	reason := whyEnded(ctx, err)
	if reason == nil {
		return
	}
	data, err := json.Marshal(wire.Event{Type: "end", AtNS: time.Now().UnixNano(), Data: &wire.EventData{Code: wire.Code(wordOf(reason)), Reason: reason.Message}})
	if err == nil {
		_ = w.send(fmt.Appendf(nil, "event: end\ndata: %s\n\n", data)) // The last thing that is said.
	}
}

// whyEnded words the end of an event stream; nil when there is nobody to tell.
func whyEnded(ctx context.Context, err error) *fault.Error {
	switch {
	case errors.Is(context.Cause(ctx), errDraining):
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "this node is shutting down; reconnect")
	case fault.CodeOf(err) == fault.NotLeader:
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "another node serves this namespace now; reconnect")
	case fault.CodeOf(err) == fault.Unauthorized || fault.CodeOf(err) == fault.Forbidden:
		return fault.New(fault.CodeOf(err), "UNAUTHORIZED", "the credential no longer allows this")
	case ctx.Err() != nil:
		return nil
	}
	return fault.New(fault.Internal, "INTERNAL_ERROR", "internal error; reconnect")
}

func eventFilter(d *shape.Decoder, q url.Values, header string) queue.EventFilter {
	in := queue.EventFilter{Queues: words(q["queues"]), JobIDs: words(q["job_ids"]), Types: words(q["types"])}
	text := header
	if text == "" {
		text = q.Get("last_event_id")
	}
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			d.Problem("last_event_id", "must be an event id, which is a whole number")
		}
		in.After = &n
	}
	return in
}

var recentParams = []shape.Param{
	shape.IntParam("after_seq", "Only events after this number; 0 starts with the oldest one kept."),
	shape.IntParam("limit", "Maximum number of events, 1 to 1000; default 100."),
}

func (c *call) recentEvents() error {
	var d shape.Decoder
	q := c.query(&d)
	after := uint64(0)
	if text := q.Get("after_seq"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			d.Problem("after_seq", "must be an event number, which is a whole number")
		}
	}
	limit := limitParam(&d, q, queue.RecentDefault, queue.RecentMax)
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Views.Recent(c.r.Context(), c.who.Caller, after, limit))
}
