package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// refuse turns a use case's error into what a caller may see. An error that is not a
// fault is logged, and the caller gets the request id.
func refuse(ctx context.Context, log *slog.Logger, procedure string, err error) *connect.Error {
	c := access.From(ctx)
	if f, ok := fault.As(err); ok {
		return encode(f, c.RequestID)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, errors.New("the request was cancelled"))
	case errors.Is(err, context.DeadlineExceeded):
		return encode(fault.New(fault.Unavailable, "DEADLINE", "this took too long; try again"), c.RequestID)
	case errors.Is(err, store.ErrStale):
		return encode(fault.New(fault.Conflict, etag.Mismatch, "someone else changed this at the same time; reload it and try again"), c.RequestID)
	}
	var own *connect.Error
	if errors.As(err, &own) {
		return own
	}
	log.ErrorContext(ctx, "call failed", "procedure", procedure, "request_id", c.RequestID, "tenant", c.TenantID, "caller", c.ID(),
		"error", apikey.Redact(err.Error()))
	return internal(c.RequestID)
}

func internal(requestID string) *connect.Error {
	e := connect.NewError(connect.CodeInternal, errors.New("something went wrong on our side; if it keeps happening, contact support with the request id "+requestID))
	attach(e, &cloudv1.Refusal{Reason: "INTERNAL", RequestId: requestID})
	return e
}

func encode(f *fault.Error, requestID string) *connect.Error {
	e := connect.NewError(codeOf(f), errors.New(f.Error()))
	d := &cloudv1.Refusal{Reason: f.Reason, RequestId: requestID, RetryAfterSeconds: seconds(f.RetryAfter)}
	for _, field := range f.Fields {
		d.Fields = append(d.Fields, &cloudv1.RefusedField{Name: field.Name, Problem: field.Problem})
	}
	if d.RetryAfterSeconds > 0 {
		e.Meta().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	attach(e, d)
	return e
}

func attach(e *connect.Error, d *cloudv1.Refusal) {
	// It fails only for a message that cannot be marshalled; the code and message stand.
	if detail, err := connect.NewErrorDetail(d); err == nil {
		e.AddDetail(detail)
	}
}

// seconds rounds up: a caller that waits less is refused again.
func seconds(d time.Duration) int32 {
	return int32(min(math.Ceil(d.Seconds()), math.MaxInt32))
}

func codeOf(f *fault.Error) connect.Code {
	switch f.Code {
	case fault.Invalid:
		return connect.CodeInvalidArgument
	case fault.Unauthenticated:
		return connect.CodeUnauthenticated
	case fault.Denied:
		return connect.CodePermissionDenied
	case fault.NotFound:
		return connect.CodeNotFound
	case fault.Exists:
		return connect.CodeAlreadyExists
	case fault.Conflict:
		if f.Reason == etag.Mismatch {
			return connect.CodeAborted
		}
		return connect.CodeFailedPrecondition
	case fault.Exhausted:
		return connect.CodeResourceExhausted
	case fault.Unavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}
