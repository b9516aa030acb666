package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/messages"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// answer is how one fault code looks on each protocol.
type answer struct {
	status int
	word   string // The default of the body's "code".
	rpc    connect.Code
	title  string
}

// answers is the one table from fault codes to the wire.
var answers = map[fault.Code]answer{
	fault.Internal:       {500, "INTERNAL_ERROR", connect.CodeInternal, "Internal error"},
	fault.Invalid:        {400, "VALIDATION_ERROR", connect.CodeInvalidArgument, "Invalid request"},
	fault.NotFound:       {404, "NOT_FOUND", connect.CodeNotFound, "Not found"},
	fault.Conflict:       {409, "CONFLICT", connect.CodeFailedPrecondition, "Not allowed in the current state"},
	fault.Unauthorized:   {401, "UNAUTHORIZED", connect.CodeUnauthenticated, "Not authenticated"},
	fault.Forbidden:      {403, "FORBIDDEN", connect.CodePermissionDenied, "Not allowed"},
	fault.Exhausted:      {429, "OVERLOADED", connect.CodeResourceExhausted, "Limit reached"},
	fault.TooLarge:       {413, "PAYLOAD_TOO_LARGE", connect.CodeInvalidArgument, "Too large"},
	fault.NotLeader:      {503, "LEADER_UNAVAILABLE", connect.CodeUnavailable, "Try again"},
	fault.Unavailable:    {503, "LEADER_UNAVAILABLE", connect.CodeUnavailable, "Try again"},
	fault.UnknownOutcome: {503, "UNKNOWN_OUTCOME", connect.CodeUnavailable, "The outcome is unknown"},
}

// Headers and metadata of refusals.
const (
	headerRequestID = "X-Request-Id"
	// metaCode carries the stable word of a refusal in RPC metadata.
	metaCode = "Corvo-Error-Code"

	retryAfterDefault = time.Second
	// An election is over in less than a second; waiting longer would add to it.
	retryAfterElection = 100 * time.Millisecond
)

// shown turns any error into the fault that may be shown; what is not a fault is
// logged with the request id and shown without its text.
func shown(ctx context.Context, log *slog.Logger, err error) *fault.Error {
	if f := fault.As(err); f != nil {
		if f.Code == fault.Internal {
			log.ErrorContext(ctx, "request failed", "request_id", requestID(ctx), "err", err)
		}
		return f
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.UnknownOutcome, "", "the deadline passed before the outcome was known; retry with the same idempotency key or lease token")
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Unavailable, "CANCELED", "the call was canceled by the client")
	}
	log.ErrorContext(ctx, "request failed", "request_id", requestID(ctx), "err", err)
	return fault.New(fault.Internal, "", "internal error; include request id %s when you report it", requestID(ctx))
}

// wordOf is the stable word of f on the wire.
func wordOf(f *fault.Error) string {
	if f.Reason != "" {
		return f.Reason
	}
	return answers[f.Code].word
}

// wordAndText is an item's error as the proto form shows it.
func (c *call) wordAndText(err error) (word, text string) {
	f := shown(c.r.Context(), c.s.log, messages.Paths(err))
	return wordOf(f), f.Error()
}

// retryAfter is when to come back; 0 when that is not for us to say.
func retryAfter(f *fault.Error) time.Duration {
	if f.RetryAfter > 0 {
		return f.RetryAfter
	}
	switch f.Code {
	case fault.Exhausted:
		return retryAfterDefault
	case fault.NotLeader, fault.Unavailable, fault.UnknownOutcome:
		return retryAfterElection
	}
	return 0
}

func writeProblem(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	f := shown(r.Context(), log, err)
	markOutcome(callOf(r.Context()), f)
	a := answers[f.Code]
	h := w.Header()
	p := wire.Problem{
		Error: f.Message, Code: wire.Code(wordOf(f)), Type: "about:blank", Title: a.title,
		Status: a.status, Detail: f.Error(), RequestID: requestID(r.Context()),
	}
	for _, v := range f.Fields {
		p.Fields = append(p.Fields, wire.ProblemField{Field: v.Path, Message: v.Message})
	}
	if l := f.Limit; l != nil {
		p.Limit = &wire.ProblemLimit{Name: l.Name, Value: l.Value, Current: l.Current, OpensAt: l.OpensAt.UTC()}
	}
	if d := retryAfter(f); d > 0 {
		after, ms := wire.RetryAfter(p.Code, d)
		h.Set("Retry-After", after)
		p.RetryAfterMS = ms
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="corvo"`)
	}
	if len(f.Fields) > 0 {
		// Existing clients show error alone, so it carries the fields too.
		p.Error = f.Error()
	}
	writeBody(w, r, a.status, "application/problem+json", p)
}

// WriteStatus answers like this package for a process that cannot have a Server yet.
func WriteStatus(w http.ResponseWriter, r *http.Request, status int, word, message string) {
	writeStatus(w, r, status, word, message)
}

// writeStatus is a refusal by the protocol itself, which no fault code describes.
func writeStatus(w http.ResponseWriter, r *http.Request, status int, word, message string) {
	writeBody(w, r, status, "application/problem+json", wire.Problem{
		Error: message, Code: wire.Code(word), Type: "about:blank", Title: http.StatusText(status),
		Status: status, Detail: message, RequestID: requestID(r.Context()),
	})
}

// rpcError is err for Connect, gRPC and gRPC-Web.
func rpcError(ctx context.Context, log *slog.Logger, err error) *connect.Error {
	if ce := new(connect.Error); errors.As(err, &ce) {
		return ce
	}
	f := shown(ctx, log, err)
	markOutcome(callOf(ctx), f)
	text := f.Error()
	after, ms := wire.RetryAfter(wire.Code(wordOf(f)), retryAfter(f))
	if ms > 0 && f.Code == fault.Exhausted {
		text = fmt.Sprintf("%s (retry_after_ms=%d)", text, ms)
	}
	ce := connect.NewError(answers[f.Code].rpc, errors.New(text))
	ce.Meta().Set(metaCode, wordOf(f))
	if id := requestID(ctx); id != "" {
		ce.Meta().Set(headerRequestID, id)
	}
	if ms > 0 {
		ce.Meta().Set("Retry-After", after)
		ce.Meta().Set(wire.RetryAfterMSHeader, strconv.FormatInt(ms, 10))
	}
	for _, v := range f.Fields {
		addDetail(ce, &corvov1.FieldViolation{Field: v.Path, Message: v.Message})
	}
	if f.Limit != nil {
		addDetail(ce, messages.Limit(f.Limit))
	}
	return ce
}

func addDetail(ce *connect.Error, m proto.Message) {
	if d, err := connect.NewErrorDetail(m); err == nil { // Messages of ours always marshal.
		ce.AddDetail(d)
	}
}

// writeBody encodes v and writes the whole answer, small enough not to be counted.
func writeBody(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	buf := getBuffer()
	defer putBuffer(buf)
	if encodeAnswer(buf, v) == nil {
		_ = writeAnswer(w, r, status, contentType, buf) // A refusal that nobody reads costs nobody anything.
	}
}

// writeAnswer tells when the client could not be reached.
func writeAnswer(w http.ResponseWriter, r *http.Request, status int, contentType string, buf *bytes.Buffer) error {
	head(w, r, status, contentType, buf.Len())
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

func encodeAnswer(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // Payloads come back as they were sent.
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return nil
}

func head(w http.ResponseWriter, r *http.Request, status int, contentType string, length int) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(length))
	stamp(r.Context(), h)
	w.WriteHeader(status)
}

// handOver writes an answer that brings jobs. After an error the client has not read it whole, and
// never will: the last byte goes out only when everything before it went out and
// somebody still listens.
//
// The error of a single Write would say nothing of the kind. When a client, or a
// proxy between, resets its stream right after it has read the last byte, the reset
// may overtake the result of the write, which then is "stream closed" for bytes that
// were read. The last byte costs no packet: the server sends it with the stream's end.
func handOver(w http.ResponseWriter, r *http.Request, contentType string, body []byte) error {
	head(w, r, http.StatusOK, contentType, len(body))
	last := max(len(body)-1, 0)
	if _, err := w.Write(body[:last]); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	if err := r.Context().Err(); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	_, _ = w.Write(body[last:]) // Whether it arrives is not known from here on.
	return nil
}
