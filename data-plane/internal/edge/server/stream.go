package server

import (
	"context"
	"mime"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type (
	frameIn  = corvov1.LifecycleStreamRequest
	frameOut = corvov1.LifecycleStreamResponse
)

// enterStream chooses how a stream is served: carried to the leader, as a single
// exchange, or here.
func (s *Server) enterStream(c *call) error {
	if isUnary(c.r) {
		if c.place.Local == nil {
			return s.carry(c)
		}
		return s.singleExchange(c)
	}
	if c.place.Local == nil && c.who.Identity.ProxyStream && !s.isDraining() {
		if _, err := s.target(c); err == nil {
			err := s.carryStream(c)
			if err == nil || fault.CodeOf(err) == fault.Exhausted {
				return err
			}
			// Nothing was sent to the client yet: it is told NOT_LEADER below and
			// opens a new stream, by then with a new leader.
		}
	}
	return c.route.handle(c)
}

// isUnary: the TypeScript worker posts one frame as an ordinary JSON call.
func isUnary(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (t == "application/json" || t == "application/proto")
}

func (s *Server) singleExchange(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	var req frameIn
	asJSON := c.r.Header.Get("Content-Type") != "application/proto"
	if asJSON {
		err = shape.UnmarshalJSON(orEmpty(body), &req)
	} else {
		err = shape.UnmarshalProto(body, &req)
	}
	if err != nil {
		return fault.New(fault.Invalid, "PARSE_ERROR", "the frame can't be parsed")
	}
	st := c.stream(nil)
	defer st.Close()
	r := st.Answer(&req)
	out, contentType := []byte(nil), "application/proto"
	if asJSON {
		contentType = "application/json"
		out, err = protojson.Marshal(r.Msg)
	} else {
		out, err = proto.Marshal(r.Msg)
	}
	if err == nil {
		err = handOver(c.w, c.r, contentType, out)
	}
	if err != nil {
		st.Undo(r)
	} else {
		st.Delivered(r)
	}
	return nil
}

// StreamLifecycle serves one stream.
func (h *workers) StreamLifecycle(ctx context.Context, bidi *connect.BidiStream[frameIn, frameOut]) error {
	c := callOf(ctx)
	c.r = c.r.WithContext(ctx)
	st := c.stream(bidi)
	defer st.Close()
	return st.Serve()
}

func (c *call) stream(f streams.Frames) *streams.Stream {
	return streams.New(c.r.Context(), c.w, f, c.s.streams, streams.Session{
		Backend: streamBackend{c}, Caller: c.who.Caller, Tenant: c.who.Identity.TenantID, Recheck: c.who.Recheck, TenantURL: c.who.Identity.TenantURL,
		Forwarded: c.who.Forwarded, Placement: streamPlacement(c.place),
	})
}

// streamBackend is a call as its stream sees it.
type streamBackend struct{ c *call }

func streamPlacement(p Placement) streams.Placement {
	return streams.Placement{Jobs: p.Local, LeaderURL: p.LeaderURL}
}

func (d streamBackend) May(p permission.Permission) error {
	if !d.c.who.May(p) {
		return d.c.who.Caller.Lacks(p, "")
	}
	return nil
}

func (d streamBackend) Enter(ctx context.Context, units int64) (leave func(), err error) {
	turn, err := d.c.s.opts.Admission.Enter(ctx, d.c.who.Identity.TenantID, units)
	return turn.Leave, err
}

func (d streamBackend) Place(ctx context.Context) (streams.Placement, error) {
	p, err := d.c.s.place(ctx, d.c.who.Caller.Namespace)
	return streamPlacement(p), err
}

func (d streamBackend) Route() (streams.Placement, error) {
	p, err := d.c.s.router.Route(d.c.who.Caller.Namespace)
	return streamPlacement(p), err
}

func (d streamBackend) Release(jobs *queue.Service, workerID string, grants []wire.FetchedJob) {
	d.c.s.release(jobs, d.c.who.Caller, workerID, grants)
}

func (d streamBackend) TakeUnread(grants []wire.FetchedJob) (taken int64, err error) {
	return d.c.s.takeJobs(d.c.tenant(), grants)
}

func (d streamBackend) GiveUnread(taken int64) { d.c.s.giveUnread(d.c.tenant(), taken) }

func (d streamBackend) Show(err error) *fault.Error { return shown(d.c.r.Context(), d.c.s.log, err) }
func (d streamBackend) Word(f *fault.Error) string  { return wordOf(f) }
func (d streamBackend) RPC(err error) error         { return rpcError(d.c.r.Context(), d.c.s.log, err) }

func (d streamBackend) RetryAfterMS(f *fault.Error) int64 {
	_, ms := wire.RetryAfter(wire.Code(wordOf(f)), retryAfter(f))
	return ms
}
