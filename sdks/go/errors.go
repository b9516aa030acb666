package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Code classifies an Error.
type Code string

// The codes of an Error.
const (
	CodeInvalid      Code = "invalid"      // The request is wrong; Fields says where.
	CodeNotFound     Code = "not_found"    // No such job or queue in this namespace.
	CodeConflict     Code = "conflict"     // The job or queue is not in a state that allows it.
	CodeLeaseLost    Code = "lease_lost"   // The attempt belongs to somebody else, or is over.
	CodeUnauthorized Code = "unauthorized" // No key, or not a valid one.
	CodeForbidden    Code = "forbidden"    // The key does not allow this.
	CodeExhausted    Code = "exhausted"    // A limit was reached; see RetryAfter.
	CodeTooLarge     Code = "too_large"    // A payload, result or checkpoint is over its limit.
	CodeUnavailable  Code = "unavailable"  // Nothing was done; retry.
	// CodeUnknownOutcome: it may or may not have happened. Retry only with the
	// same idempotency key.
	CodeUnknownOutcome Code = "unknown_outcome"
	CodeInternal       Code = "internal" // A fault of the server; RequestID helps to find it.
)

// Sentinels for errors.Is; each stands for the Error of the same name.
var (
	ErrInvalid      = errors.New("corvo: invalid request")
	ErrNotFound     = errors.New("corvo: not found")
	ErrConflict     = errors.New("corvo: conflict")
	ErrLeaseLost    = errors.New("corvo: lease lost")
	ErrUnauthorized = errors.New("corvo: unauthorized")
	ErrForbidden    = errors.New("corvo: forbidden")
	ErrExhausted    = errors.New("corvo: limit reached")
	ErrUnavailable  = errors.New("corvo: unavailable")
)

// Causes of a handler's cancelled context, beside ErrLeaseLost; see context.Cause.
var (
	// ErrCancelled: somebody cancelled the job.
	ErrCancelled = errors.New("corvo: job cancelled")
	// ErrShutdown: the worker drains and the soft timeout has passed.
	ErrShutdown = errors.New("corvo: worker shutting down")
)

// Field is one refused field of a request, spelled as on the wire.
type Field struct {
	Name    string
	Message string
}

// Error is what the server, or the way to it, said no with.
type Error struct {
	Code Code
	// Reason is the server's own word, such as wire.CodeValidation; may be empty.
	Reason    wire.Code
	Message   string
	Fields    []Field
	RequestID string
	// Retryable: the same call may succeed later. The client has already retried
	// what is safe to retry.
	Retryable bool
	// RetryAfter is the server's wish; zero when it has none.
	RetryAfter time.Duration
	// Limit is the limit that was reached, if the server names one.
	Limit *Limit

	// cause is the transport's error, when there was one.
	cause error
	// unsent: the request did not leave this machine.
	unsent bool
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("corvo: ")
	b.WriteString(string(e.Code))
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	for _, f := range e.Fields {
		// Servers put the fields into the message too, for clients that show it alone.
		if text := f.Name + ": " + f.Message; !strings.Contains(e.Message, text) {
			b.WriteString("; " + text)
		}
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap returns the transport's error, if there was one.
func (e *Error) Unwrap() error { return e.cause }

var sentinels = map[Code]error{
	CodeInvalid: ErrInvalid, CodeTooLarge: ErrInvalid, CodeNotFound: ErrNotFound, CodeConflict: ErrConflict, CodeLeaseLost: ErrLeaseLost,
	CodeUnauthorized: ErrUnauthorized, CodeForbidden: ErrForbidden, CodeExhausted: ErrExhausted, CodeUnavailable: ErrUnavailable,
	CodeUnknownOutcome: ErrUnavailable,
}

// Is makes errors.Is work with the sentinels.
func (e *Error) Is(target error) bool { return target != nil && sentinels[e.Code] == target }

func retryable(c Code) bool {
	return c == CodeUnavailable || c == CodeUnknownOutcome || c == CodeExhausted
}

// codeOfReason maps the words of the wire that say more than a status does.
func codeOfReason(reason wire.Code) (Code, bool) {
	switch reason {
	case wire.CodeLeaseLost:
		return CodeLeaseLost, true
	case wire.CodeNotFound:
		return CodeNotFound, true
	case wire.CodeNotActive, wire.CodeConflict, wire.CodeQueueDraining, wire.CodeBatchClosed, wire.CodeTooManyDependents, wire.CodeTooManyBatches:
		return CodeConflict, true // The last four come with 400: older clients take 409 for a unique key that is held.
	case wire.CodeValidation, wire.CodeParse:
		return CodeInvalid, true
	case wire.CodePayloadTooLarge:
		return CodeTooLarge, true
	case wire.CodeOverloaded, wire.CodeRateLimited, wire.CodePlanLimit:
		return CodeExhausted, true
	case wire.CodeLeaderUnavailable, wire.CodeNotLeader:
		return CodeUnavailable, true
	case wire.CodeUnknownOutcome:
		return CodeUnknownOutcome, true
	}
	return "", false
}

var statusCodes = map[int]Code{
	http.StatusBadRequest:            CodeInvalid,
	http.StatusUnauthorized:          CodeUnauthorized,
	http.StatusForbidden:             CodeForbidden,
	http.StatusNotFound:              CodeNotFound,
	http.StatusConflict:              CodeConflict,
	http.StatusRequestEntityTooLarge: CodeTooLarge,
	http.StatusUnprocessableEntity:   CodeInvalid,
	http.StatusTooManyRequests:       CodeExhausted,
	http.StatusMisdirectedRequest:    CodeUnavailable,
	// A gateway that lost its upstream cannot tell what the upstream did.
	http.StatusBadGateway:         CodeUnknownOutcome,
	http.StatusServiceUnavailable: CodeUnavailable,
	http.StatusGatewayTimeout:     CodeUnknownOutcome,
}

var connectCodes = map[connect.Code]Code{
	connect.CodeInvalidArgument:    CodeInvalid,
	connect.CodeOutOfRange:         CodeInvalid,
	connect.CodeUnauthenticated:    CodeUnauthorized,
	connect.CodePermissionDenied:   CodeForbidden,
	connect.CodeNotFound:           CodeNotFound,
	connect.CodeFailedPrecondition: CodeConflict,
	connect.CodeAlreadyExists:      CodeConflict,
	connect.CodeResourceExhausted:  CodeExhausted,
	connect.CodeUnavailable:        CodeUnavailable,
	connect.CodeAborted:            CodeUnknownOutcome,
	connect.CodeDeadlineExceeded:   CodeUnknownOutcome,
	connect.CodeUnknown:            CodeUnknownOutcome,
}

// errorFromHTTP reads an error answer of the HTTP API. Any body will do: gateways
// answer in HTML.
func errorFromHTTP(status int, header http.Header, body []byte) *Error {
	e := &Error{Code: CodeInternal, RequestID: header.Get("X-Request-Id"), RetryAfter: retryAfter(header)}
	if c, ok := statusCodes[status]; ok {
		e.Code = c
	}
	var p wire.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" && e.Code == CodeUnavailable {
		// Not our server's voice: a gateway's 503 does not promise that nothing was done.
		if e.Code == CodeUnavailable {
			e.Code = CodeUnknownOutcome
		}
		e.Message = fmt.Sprintf("server answered %d %s", status, http.StatusText(status))
		e.Retryable = retryable(e.Code)
		return e
	}
	e.Reason = p.Code
	if c, ok := codeOfReason(p.Code); ok {
		e.Code = c
	}
	if e.Message = p.Error; e.Message == "" {
		e.Message = http.StatusText(status)
	}
	if p.RequestID != "" {
		e.RequestID = p.RequestID
	}
	if d := millis(float64(p.RetryAfterMS)); d > 0 {
		e.RetryAfter = d
	}
	if l := p.Limit; l != nil {
		e.Limit = &Limit{Name: l.Name, Value: l.Value, Current: l.Current, OpensAt: l.OpensAt}
	}
	for _, f := range p.Fields {
		e.Fields = append(e.Fields, Field{Name: f.Field, Message: f.Message})
	}
	e.Retryable = retryable(e.Code)
	return e
}

// errorFromRPC reads an error of a Connect call or of the way there.
func errorFromRPC(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return errorFromTransport(err)
	}
	if !connect.IsWireError(err) {
		return errorFromTransport(ce)
	}
	e := &Error{
		Code: CodeInternal, Message: ce.Message(), cause: err,
		RequestID: ce.Meta().Get("X-Request-Id"), RetryAfter: retryAfter(ce.Meta()),
	}
	if c, ok := connectCodes[ce.Code()]; ok {
		e.Code = c
	}
	e.Reason = wire.Code(ce.Meta().Get("Corvo-Error-Code"))
	if c, ok := codeOfReason(e.Reason); ok {
		e.Code = c
	}
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			continue // A detail of a newer server.
		}
		switch v := v.(type) {
		case *corvov1.FieldViolation:
			e.Fields = append(e.Fields, Field{Name: v.GetField(), Message: v.GetMessage()})
		case *corvov1.Limit:
			e.Limit = limitFromProto(v)
		}
	}
	e.Retryable = retryable(e.Code)
	return e
}

// errorFromTransport wraps what net/http reports. What did not leave this machine
// was not done; of all else the outcome is unknown.
func errorFromTransport(err error) *Error {
	e := &Error{Code: CodeUnknownOutcome, Message: err.Error(), Retryable: true, cause: err}
	if ce := new(connect.Error); errors.As(err, &ce) {
		e.Message = ce.Message() // Without Connect's own word for it.
	}
	switch {
	case errors.Is(err, errForeignRedirect):
		e.Code, e.Retryable = CodeInternal, false
	case isDialError(err):
		e.Code, e.unsent = CodeUnavailable, true
	case errors.Is(err, context.Canceled):
		e.Retryable = false
	case connect.CodeOf(err) == connect.CodeUnauthenticated:
		// A plain HTTP status that Connect turned into a code, here and below.
		e.Code, e.Retryable = CodeUnauthorized, false
	case connect.CodeOf(err) == connect.CodePermissionDenied:
		e.Code, e.Retryable = CodeForbidden, false
	case connect.CodeOf(err) == connect.CodeUnimplemented, connect.CodeOf(err) == connect.CodeNotFound:
		e.Code, e.Retryable = CodeNotFound, false
	case connect.CodeOf(err) == connect.CodeInvalidArgument, connect.CodeOf(err) == connect.CodeResourceExhausted:
		// Connect refused the message itself, before sending or when reading.
		e.Code, e.Retryable = CodeTooLarge, false
	}
	return e
}

// retryAfter reads the header of an RPC, in milliseconds, or else the one of HTTP, as
// seconds, which may be fractional, or as a date.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get(wire.RetryAfterMSHeader), 64); err == nil {
		return millis(ms)
	}
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return millis(s * 1000)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(time.Until(at), retryAfterMax))
	}
	return 0
}

// retryAfterMax bounds what a server may ask for; beyond it the number is a mistake.
const retryAfterMax = time.Hour

func millis(ms float64) time.Duration {
	if !(ms > 0) { // Also refuses NaN.
		return 0
	}
	if ms >= float64(retryAfterMax/time.Millisecond) {
		return retryAfterMax
	}
	return time.Duration(ms * float64(time.Millisecond))
}
