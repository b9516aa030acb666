package corvo

import (
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// Limit is the limit that a call met: one of the tenant's plan, or one that all tenants
// have.
type Limit struct {
	Name  string // Such as "enqueue_per_second".
	Value int64
	// Current is what there is of it, where the limit is one of an amount.
	Current int64
	// OpensAt is when more is allowed; zero if that isn't known.
	OpensAt time.Time
}

// Held says that no job of the tenant starts for now: its plan, its spend limit or a
// payment holds dispatch. Jobs are kept, and start when the hold is lifted.
type Held struct {
	Limit   string // Its name, such as "jobs_per_month".
	Value   int64  // 0 if it has none.
	OpensAt time.Time
	Message string // For people.
}

// OnHeld sets what is called when the server says that dispatch is held, when the reason
// changes, and with nil when jobs may start again. A worker hears of a hold with an empty
// fetch, so up to half a minute late. Calls don't overlap; the worker's fetches wait for
// them. By default the worker's log says so.
func OnHeld(f func(*Held)) WorkerOption { return func(w *Worker) { w.onHeld = f } }

// logHeld is what a worker does without OnHeld.
func (w *Worker) logHeld(h *Held) {
	if h == nil {
		w.log().Info("corvo: dispatch is held no longer", "worker", w.id)
		return
	}
	w.log().Warn("corvo: "+h.Message, "worker", w.id, "limit", h.Limit, "opens_at", h.OpensAt)
}

// heard learns from the reply to a fetch whether dispatch is held.
func (w *Worker) heard(reply *stream.Response) {
	if reply == nil || reply.GetError() != "" {
		return
	}
	w.heldMu.Lock()
	defer w.heldMu.Unlock()
	if proto.Equal(w.held, reply.GetHeld()) {
		return
	}
	w.held = reply.GetHeld()
	if w.held == nil {
		w.onHeld(nil)
		return
	}
	w.onHeld(&Held{Limit: w.held.GetLimit(), Value: w.held.GetValue(), OpensAt: timeOf(w.held.GetOpensAt()), Message: w.held.GetMessage()})
}

// Quota is how many more jobs the namespace may enqueue at the moment.
type Quota struct {
	Limit     int64         // At once, after a pause of Window.
	Window    time.Duration // Whole seconds.
	Remaining int64
	Reset     time.Duration // Until Remaining is Limit again; whole seconds.
}

// WithQuota sets what is called with each answer to an enqueue that says what is left of the
// plan's rate: a producer can slow down before it is refused. Calls may overlap. Nothing is
// called where the rate isn't limited.
func WithQuota(f func(Quota)) Option { return func(c *config) { c.onQuota = f } }

// tellQuota hands on what the headers of an answer say.
func (c *Client) tellQuota(h http.Header) {
	if c.onQuota == nil {
		return
	}
	var q Quota
	var window, reset int64
	if _, err := fmt.Sscanf(h.Get("RateLimit-Policy"), `"enqueue_per_second";q=%d;w=%d`, &q.Limit, &window); err != nil {
		return // There is none, or it is of a kind that this client doesn't know.
	}
	if _, err := fmt.Sscanf(h.Get("RateLimit"), `"enqueue_per_second";r=%d;t=%d`, &q.Remaining, &reset); err != nil {
		return
	}
	q.Window, q.Reset = time.Duration(window)*time.Second, time.Duration(reset)*time.Second
	c.onQuota(q)
}

func limitFromProto(l *corvov1.Limit) *Limit {
	return &Limit{Name: l.GetName(), Value: l.GetValue(), Current: l.GetCurrent(), OpensAt: timeOf(l.GetOpensAt())}
}

// timeOf is zero for none.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
