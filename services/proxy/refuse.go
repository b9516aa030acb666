package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	grpcrefusal "github.com/corvo-cloud/corvo/data-plane/api/refusal"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// refusal is an answer of the proxy itself. Its text never depends on what exists
// in other tenants.
type refusal struct {
	status     int
	code       string
	rpc        connect.Code
	title      string
	message    string
	retryAfter time.Duration
	limit      *wire.ProblemLimit // Of the plan that was reached.
	// stranger marks an answer to a caller without a known secret; a stale state
	// may just not know it yet.
	stranger bool
	// mayBeNew marks what may succeed after asking the cell again.
	mayBeNew bool
	// ofTime marks what would succeed with another clock.
	ofTime bool
	// reason is what audit logs say; empty: nothing. ofHolder marks what is refused to
	// somebody whose credential is good.
	reason   string
	ofHolder bool
}

// kinds is what a status is called in problems and RPCs.
var kinds = map[int]struct {
	rpc   connect.Code
	title string
}{
	400: {connect.CodeInvalidArgument, "Invalid request"},
	401: {connect.CodeUnauthenticated, "Not authenticated"},
	403: {connect.CodePermissionDenied, "Not allowed"},
	404: {connect.CodeNotFound, "Not found"},
	405: {connect.CodeUnimplemented, "Method not allowed"},
	408: {connect.CodeDeadlineExceeded, "Too slow"},
	413: {connect.CodeResourceExhausted, "Too large"},
	429: {connect.CodeResourceExhausted, "Limit reached"},
	431: {connect.CodeResourceExhausted, "Too large"},
	503: {connect.CodeUnavailable, "Try again"},
}

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, code: code, rpc: kinds[status].rpc, title: kinds[status].title, message: message}
}

// Error implements error: a refusal is the cause with which the proxy ends a call.
func (r *refusal) Error() string { return r.message }

func (r *refusal) ofStranger() *refusal { r.stranger, r.mayBeNew = true, true; return r }

func (r *refusal) becauseOfTime() *refusal { r.ofTime = true; return r }

func (r *refusal) noted(reason string) *refusal { r.reason = reason; return r }

func (r *refusal) toHolder(reason string) *refusal { r.reason, r.ofHolder = reason, true; return r }

func (r *refusal) orNew() *refusal { r.mayBeNew = true; return r }

func (r *refusal) titled(title string) *refusal { r.title = title; return r }

func (r *refusal) after(d time.Duration) *refusal { r.retryAfter = d; return r }

// The refusals, with the texts and titles of the nodes.
var (
	refuseNoKey    = refuse(401, "UNAUTHORIZED", "no API key: send it in X-API-Key or as a bearer token").noted("no key")
	refuseBadKey   = refuse(401, "UNAUTHORIZED", "the API key is invalid").ofStranger().noted(reasonUnknownKey)
	refuseRevoked  = refuse(401, "UNAUTHORIZED", "the API key was revoked").noted("revoked")
	refuseChanged  = refuse(401, "UNAUTHORIZED", "the API key was revoked, or what it may do was changed; connect again")
	refuseAddress  = refuse(403, "FORBIDDEN", "this API key can't be used from this address: it is limited to certain networks; ask an admin of the tenant to add yours").orNew().toHolder("address not allowed")
	refuseExpired  = refuse(401, "UNAUTHORIZED", "the API key has expired").becauseOfTime().noted("expired")
	refuseBadToken = refuse(401, "UNAUTHORIZED", "the user token is invalid; sign in again").noted("invalid token")
	// refuseUnknownSigner looks like refuseBadToken from outside.
	refuseUnknownSigner = refuse(401, "UNAUTHORIZED", "the user token is invalid; sign in again").ofStranger().noted("invalid token")
	refuseTokenExpired  = refuse(401, "TOKEN_EXPIRED", "the user token has expired; request a new one").becauseOfTime()
	refuseWithdrawn     = refuse(401, "TOKEN_WITHDRAWN", "the user's access to this tenant was withdrawn or changed; request a new token").orNew()
	refuseCrossOrigin   = refuse(403, "FORBIDDEN", "a key in a cookie isn't accepted from another site")
	refuseOtherTenant   = refuse(403, "FORBIDDEN", "the API key doesn't belong to the tenant of this URL").toHolder("URL of another tenant")
	refuseNothing       = refuse(403, "FORBIDDEN", "this API key may do nothing here: its owner has no role, is disabled, or is stopped by the tenant's sign-in policy; ask an admin of the tenant").orNew().toHolder("no role")
	refuseNoNamespace   = refuse(404, "NOT_FOUND", "this API key has no such namespace").orNew().toHolder("no such namespace")
	refuseNotFound      = refuse(404, "NOT_FOUND", "this path doesn't exist")
	refuseBadPath       = refuse(400, "VALIDATION_ERROR", "the path has empty or dot segments or encoded separators")
	refuseBadMethod     = refuse(405, "METHOD_NOT_ALLOWED", "this path doesn't support this method")
	refuseBadRequest    = refuse(400, "VALIDATION_ERROR", "the request can't be parsed")
	refuseSlowBody      = refuse(408, "REQUEST_TIMEOUT", "the request body didn't arrive in time")
	refuseBusy          = refuse(429, "OVERLOADED", "the cell is busy; try again").after(time.Second)
	refuseKeyless       = refuse(429, "OVERLOADED", "too many calls without an API key are under way; nothing was done, try again").after(time.Second)
	refuseStale         = refuse(503, "AUTH_STATE_STALE", "can't check the key at the moment; try again").after(time.Second)
	refuseClock         = refuse(503, "CLOCK_SKEW", "this proxy doesn't know yet whether its clock is right; nothing was done, try again").after(time.Second)
	refuseSkew          = refuse(503, "CLOCK_SKEW", "the clocks of two machines of this service differ too much; nothing was done, try again in a moment").after(time.Second)
	refuseNoNode        = refuse(503, "LEADER_UNAVAILABLE", "no node can take the request at the moment; nothing was done, try again").after(time.Second)
	refuseUnknown       = refuse(503, "UNKNOWN_OUTCOME", "the connection to the node was lost before it answered; retry with the same idempotency key").after(time.Second).titled("The outcome is unknown")
	refuseUnhealthy     = refuse(503, "UNHEALTHY", "this proxy can't reach a node, or is shutting down").after(time.Second)
	refuseEnding        = refuse(503, "LEADER_UNAVAILABLE", "this proxy is shutting down; try again").after(100 * time.Millisecond)
)

// refuseTooLarge says how many bytes a body may have.
func refuseTooLarge(most int64) *refusal {
	return refuse(413, "PAYLOAD_TOO_LARGE", fmt.Sprintf("the body is larger than %d bytes", most))
}

// refuseStreams names the limit of the plan that was reached.
func refuseStreams(limit int64) *refusal {
	ref := refuse(429, "OVERLOADED", fmt.Sprintf("the plan allows %d open streams and waiting fetches at a time (streams_max)", limit)).after(time.Second)
	ref.limit = &wire.ProblemLimit{Name: "streams_max", Value: limit, Current: limit}
	return ref
}

// refuseCalls says how long a call takes at the moment: after that time, those that keep
// this one out have ended.
func refuseCalls(took time.Duration) *refusal {
	took = min(max(took, 50*time.Millisecond), 5*time.Second)
	return refuse(429, "OVERLOADED", "this tenant has too many calls under way; nothing was done, try again in a moment").after(took)
}

// Metadata of a refusal in an RPC, as the nodes send it.
const (
	headerRequestID = "X-Request-Id"
	metaCode        = "Corvo-Error-Code"
)

// write answers in the protocol the caller speaks.
func (p *Proxy) write(w http.ResponseWriter, r *http.Request, rpc bool, ref *refusal) {
	writeRefusal(w, r, p.rpcErrors, rpc, ref)
}

func writeRefusal(w http.ResponseWriter, r *http.Request, rpcErrors *connect.ErrorWriter, rpc bool, ref *refusal) {
	after, ms := wire.RetryAfter(wire.Code(ref.code), ref.retryAfter)
	if ms > 0 {
		w.Header().Set("Retry-After", after)
	}
	if rpc && rpcErrors.IsSupported(r) {
		text := ref.message
		if ms > 0 {
			w.Header().Set(wire.RetryAfterMSHeader, strconv.FormatInt(ms, 10))
		}
		if ref.rpc == connect.CodeResourceExhausted && ms > 0 { // As the API contract says.
			text = fmt.Sprintf("%s (retry_after_ms=%d)", text, ms)
		}
		err := connect.NewError(ref.rpc, errors.New(text))
		err.Meta().Set(metaCode, ref.code)
		if l := ref.limit; l != nil {
			if d, derr := connect.NewErrorDetail(&corvov1.Limit{Name: l.Name, Value: l.Value, Current: l.Current}); derr == nil {
				err.AddDetail(d)
			}
		}
		if grpcrefusal.GRPC(w, r, err) {
			return
		}
		_ = rpcErrors.Write(w, r, err) // The client is gone: nobody to tell.
		return
	}
	h := w.Header()
	body := ref.problem(h.Get(headerRequestID))
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if ref.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="corvo"`)
	}
	w.WriteHeader(ref.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // The client is gone: nobody to tell.
	}
}

// problem is the body of the refusal.
func (r *refusal) problem(requestID string) []byte {
	_, ms := wire.RetryAfter(wire.Code(r.code), r.retryAfter)
	body, err := json.Marshal(wire.Problem{
		Error: r.message, Code: wire.Code(r.code), Type: "about:blank", Title: r.title, Status: r.status,
		Detail: r.message, RequestID: requestID, RetryAfterMS: ms, Limit: r.limit,
	})
	if err != nil {
		panic("proxy: a problem of plain fields does not marshal: " + err.Error())
	}
	return body
}

// tokenRefusal reveals only what the holder of a once valid token knows.
func tokenRefusal(err error) *refusal {
	switch {
	case errors.Is(err, usertoken.ErrExpired):
		return refuseTokenExpired
	case errors.Is(err, usertoken.ErrFuture):
		return refuseSkew
	case errors.Is(err, usertoken.ErrUnknownKey):
		return refuseUnknownSigner
	default:
		return refuseBadToken
	}
}
