package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// triesMax is how many nodes a request is offered to: more than a cell of five can
// lose and still work.
const triesMax = 3

// streamProcedures are the RPCs whose bodies are not read whole, watchProcedures
// those that are asked once and answered without end.
var streamProcedures, watchProcedures = func() (streams, watches map[string]bool) {
	streams, watches = map[string]bool{}, map[string]bool{}
	services := corvov1.File_corvo_v1_worker_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			path := "/" + string(services.Get(i).FullName()) + "/" + string(m.Name())
			switch {
			case m.IsStreamingClient():
				streams[path] = true
			case m.IsStreamingServer():
				watches[path] = true
			}
		}
	}
	return streams, watches
}()

// fetches reports whether a call may be parked until there is a job: a thousand of those
// cost what a thousand streams do, so they count with them.
func fetches(path string) bool {
	switch path {
	case "/api/v1/fetch", "/api/v1/fetch/batch", corvov1connect.WorkerServiceFetchProcedure, corvov1connect.WorkerServiceFetchBatchProcedure:
		return true
	}
	return false
}

const eventStream = "text/event-stream"

// isStream reports whether the body or the answer of a request is a stream, by its path inside the
// cell and its headers.
func isStream(path string, h http.Header) bool {
	return streamProcedures[path] || watchProcedures[path] || address{path: path}.events() || h.Get("Accept") == eventStream
}

// endsSoon reports whether a request inside the cell is no stream.
func endsSoon(r *http.Request) bool { return !isStream(r.URL.Path, r.Header) }

// carry takes an accepted request to a node and its answer back. c is nil where
// no key is needed.
func (p *Proxy) carry(w http.ResponseWriter, r *http.Request, addr address, c *caller) {
	signed, ref := p.sign(r, addr, c, w.Header().Get(headerRequestID))
	if ref != nil {
		p.write(w, r, addr.rpc(), ref)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	worker := streamProcedures[addr.path]
	cl := &call{caller: c, cancel: cancel, rc: http.NewResponseController(w)}
	cl.changesNothing = r.Method == http.MethodGet || r.Method == http.MethodHead || watchProcedures[addr.path]
	cl.stream.Store(isStream(addr.path, r.Header))
	cl.waits = fetches(addr.path)
	r = r.WithContext(ctx)
	r.Trailer = nil // None of our calls have request trailers.
	if worker && r.ProtoMajor >= 2 && r.Body != nil {
		cl.body = &endableBody{body: r.Body}
		r.Body = cl.body
	}
	var planStreams int64
	if c == nil {
		cl.network = clientnet.Wide(p.clients.Client(r))
	} else {
		planStreams = c.tenant.GetLimits().GetStreamsMax()
		if id := c.namespace.GetId(); id != "" {
			cl.meter = p.meters.at(id, hourOf(p.now()))
		}
	}
	if ref := p.calls.enter(cl, planStreams); ref != nil {
		p.write(w, r, addr.rpc(), ref)
		return
	}
	defer p.calls.leave(cl)
	body := []byte{} // Calls without a key have no body, so that strangers use no memory.
	if c == nil && addr.rpc() {
		body = emptyMessage(r)
		r.Header.Del("Content-Encoding") // It was that of the dropped body.
	}
	if worker {
		body = nil
	} else if c != nil {
		var release func()
		var ref *refusal
		body, release, ref = p.readBody(w, r, cl)
		defer release()
		if ref != nil {
			p.write(w, r, addr.rpc(), ref)
			return
		}
	}
	gw := &guardedWriter{ResponseWriter: w, call: cl, now: p.now}
	defer gw.sayWhy(ctx)
	if ref := p.offer(gw, r, addr, cl, signed, body); ref != nil {
		p.write(w, r, addr.rpc(), ref)
	}
}

// emptyMessage is a message without fields as r's protocol writes it.
func emptyMessage(r *http.Request) []byte {
	switch t := r.Header.Get("Content-Type"); {
	case strings.HasPrefix(t, "application/json"):
		return []byte("{}")
	case strings.HasPrefix(t, "application/grpc"):
		return make([]byte, 5) // Its length, and that it is not compressed.
	default:
		return []byte{}
	}
}

// sign makes the identity headers of one request.
func (p *Proxy) sign(r *http.Request, addr address, c *caller, requestID string) (http.Header, *refusal) {
	cell := p.view.current().cell
	id := identity.Identity{
		Principal: "anonymous", Peer: p.clients.Client(r), TenantURL: addr.base, RequestID: requestID,
		ProxyStream: true, ExpiresAt: p.now().Add(identity.LifeMax),
	}
	if c != nil {
		id.TenantID, id.TenantName = c.tenant.GetId(), c.tenant.GetName()
		id.NamespaceID, id.Namespace = c.namespace.GetId(), c.namespace.GetName()
		id.Principal, id.Owner, id.Grants = c.principal, c.owner, c.here
		id.PayloadBytesMax = int(c.tenant.GetLimits().GetPayloadBytesMax())
	}
	h := make(http.Header, 16)
	if err := p.signer.Sign(h, id, addr.path); err != nil {
		// Only the host is the client's own choice here.
		p.log.Debug("can't sign the identity", "request_id", requestID, "err", err)
		return nil, refuseBadRequest
	}
	if cell != "" {
		h.Set(identity.HeaderCell, cell)
	}
	return h, nil
}

// offer finds a node that answers, and holds the call while leadership moves. body is
// nil for a stream, which passes while it is read. It returns a refusal only if nothing
// was answered.
func (p *Proxy) offer(w http.ResponseWriter, r *http.Request, addr address, cl *call, signed http.Header, body []byte) *refusal {
	h := p.newHeld(r, addr, cl, body)
	requestID := signed.Get(identity.HeaderRequestID)
	opts := forward.Options{
		Path: addr.path,
		Body: body,
		Prepare: func(to http.Header) {
			if signed == nil { // Another try, and the time may be better known by now.
				signed, _ = p.sign(r, addr, cl.caller, requestID) // It could be signed before.
			}
			prepare(to, signed)
			signed = nil // A fetch that waits does not keep it.
			h.prepare(to, p.now())
		},
		Response: func(status int, from http.Header) { p.received(status, from, cl) },
		Refused:  h.refused,
	}
	if body == nil {
		ref, _ := p.round(w, r, h, opts) // The error is only for deciding on another round.
		return ref
	}
	return p.hold(r.Context(), h, func() (*refusal, error) { return p.round(w, r, h, opts) })
}

// round offers the call to one node after another, as long as the last one has
// certainly not done it, or doing it twice is safe. A refusal comes with an error if
// another round may follow.
func (p *Proxy) round(w http.ResponseWriter, r *http.Request, h *held, opts forward.Options) (*refusal, error) {
	var shard uint32
	var namespaceID string
	if c := h.cl.caller; c != nil {
		shard, namespaceID = c.namespace.GetShard(), c.namespace.GetId()
	}
	candidates := p.nodes.candidates(shard, namespaceID)
	for _, n := range candidates[:min(triesMax, len(candidates))] {
		// The body of a stream can not be sent twice, so ask before it is begun.
		if opts.Body == nil && !p.nodes.reachable(r.Context(), n) {
			continue
		}
		h.tries++
		err := p.try(w, r, n, h.cl, opts)
		if err == nil {
			return nil, nil
		}
		if errors.Is(err, errMaybeDone) || !errors.Is(err, errNotDone) && !forward.NeverSent(err) && !h.cl.changesNothing {
			h.maybe = true
		}
		if ref := ended(r); ref != nil {
			if ref == refuseEnding && h.maybe {
				return refuseUnknown, nil
			}
			return ref, nil
		}
		if errors.Is(err, errOther) && opts.Body != nil {
			continue // It did nothing, and never will.
		}
		if errors.Is(err, errNotDone) || errors.Is(err, errMaybeDone) {
			if errors.Is(err, errClocks) && !h.maybe {
				return refuseSkew, err
			}
			return h.refusal(), err // The node answers; a leader is missing.
		}
		p.nodes.lost(n, err)
		switch {
		case opts.Body == nil:
			return h.refusal(), nil
		case h.maybe && !h.safe:
			return refuseUnknown, nil
		}
	}
	if ref := ended(r); ref != nil {
		return ref, nil
	}
	return h.refusal(), errNoNode
}

// refusal is what to say when the tries are over.
func (h *held) refusal() *refusal {
	if h.maybe {
		return refuseUnknown
	}
	return refuseNoNode
}

var errCutShort = errors.New("the response was cut short")

// try is one attempt. Forward panics when an answer breaks off half-way; then the
// node is suspected first.
func (p *Proxy) try(w http.ResponseWriter, r *http.Request, n *node, cl *call, opts forward.Options) error {
	r, end := p.toLeader(r, cl, n)
	defer end()
	whole := false
	defer func() {
		if !whole && r.Context().Err() == nil {
			p.nodes.lost(n, errCutShort)
		}
	}()
	err := p.forwarder.Forward(w, r, n.base, opts)
	whole = true
	return err
}

// ended is why the call is over, if it was us who ended it. A client that went
// away gets nothing.
func ended(r *http.Request) *refusal {
	cause := context.Cause(r.Context())
	if cause == nil {
		return nil
	}
	if ref := endReason(cause); ref != nil {
		return ref
	}
	panic(http.ErrAbortHandler)
}

// endReason is nil for causes that the proxy does not report.
func endReason(cause error) (ref *refusal) {
	errors.As(cause, &ref)
	return ref
}

// prepare makes a client's headers those of a request inside the cell.
func prepare(h, signed http.Header) {
	identity.StripExternal(h)
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") {
			delete(h, name)
		}
	}
	// Neither credentials nor a client's claims about its address belong in a cell;
	// Expect was answered here.
	for _, name := range [...]string{"X-Api-Key", "Authorization", "Cookie", "Forwarded", "X-Real-Ip", "Expect", headerRequestID} {
		delete(h, name)
	}
	maps.Copy(h, signed)
}

// received removes what is meant for the proxy only. At /t/<tenant> the answer
// comes from the console's origin: it must not set a cookie there, nor may a
// browser take what a tenant stored for one of our pages.
func (p *Proxy) received(status int, h http.Header, cl *call) {
	identity.StripExternal(h)
	h.Del(headerRequestID) // Ours is already set.
	h.Del("Set-Cookie")
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = inert
	if strings.HasPrefix(h.Get("Content-Type"), eventStream) {
		cl.stream.Store(true)
		cl.events = true
	}
	if status == http.StatusUnauthorized {
		p.log.Error("a node refused the proxy's signature: check the cell secret and the clocks")
	}
}

// Shared by all answers, because header values are not changed in place.
var (
	nosniff = []string{"nosniff"}
	inert   = []string{"default-src 'none'; frame-ancestors 'none'"}
)

// readBody reads a unary body whole, so that it can be sent again and so that a
// slow client costs a node nothing. release gives its memory back to the budget.
func (p *Proxy) readBody(w http.ResponseWriter, r *http.Request, cl *call) (body []byte, release func(), ref *refusal) {
	release = func() {}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return []byte{}, release, nil
	}
	if r.ContentLength > p.limits.BodyBytesMax {
		return nil, release, refuseTooLarge(p.limits.BodyBytesMax)
	}
	cl.readingSince.Store(p.now().UnixNano())
	defer cl.readingSince.Store(0)
	from := http.MaxBytesReader(w, r.Body, p.limits.BodyBytesMax)
	buf := make([]byte, 0, 512)
	if r.ContentLength > 0 {
		buf = make([]byte, 0, min(r.ContentLength, 64<<10)+1) // One more, to see the end.
	}
	tenant := cl.caller.tenant.GetId()
	held := int64(0)
	release = func() { p.buffered.Give(tenant, held) }
	for {
		if more := int64(cap(buf)) - held; more > 0 {
			if !p.buffered.Take(tenant, more) {
				return nil, release, refuseBusy
			}
			held += more
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, release, nil
		}
		if err != nil {
			return nil, release, bodyRefusal(err)
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

func bodyRefusal(err error) *refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return refuseTooLarge(tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuseSlowBody
	default:
		return refuseBadRequest
	}
}
