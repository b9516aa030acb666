package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func detail(t *testing.T, e *connect.Error) *cloudv1.Refusal {
	t.Helper()
	for _, d := range e.Details() {
		v, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := v.(*cloudv1.Refusal); ok {
			return r
		}
	}
	t.Fatalf("%v has no detail", e)
	return nil
}

func TestRefuse_ShowsAFaultWhole(t *testing.T) {
	t.Parallel()
	ctx := access.With(t.Context(), access.Caller{RequestID: "req_1"})
	f := &fault.Error{Code: fault.Exhausted, Reason: "SLOW_DOWN", Message: "too many", RetryAfter: 1500 * time.Millisecond,
		Fields: []fault.Field{{Name: "email", Problem: "again?"}}}
	e := refuse(ctx, slog.New(slog.DiscardHandler), "/x", fmt.Errorf("sign up: %w", f))
	d := detail(t, e)
	if e.Code() != connect.CodeResourceExhausted || e.Message() != "too many: email: again?" || e.Meta().Get("Retry-After") != "2" {
		t.Errorf("%v %v", e, e.Meta())
	}
	if d.GetReason() != "SLOW_DOWN" || d.GetRequestId() != "req_1" || d.GetRetryAfterSeconds() != 2 || d.GetFields()[0].GetName() != "email" {
		t.Errorf("%v", d)
	}
}

func TestRefuse_HidesWhatIsNoFaultAndLogsItWithoutSecrets(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	ctx := access.With(t.Context(), access.Caller{RequestID: "req_1"})
	secret := "corvo_mg_0123456789abSECRETSECRETSECRETSECRETSECRETSECRETSECRETS1234567"
	e := refuse(ctx, slog.New(slog.NewTextHandler(&log, nil)), "/x", errors.New("disk on fire near "+secret))
	if e.Code() != connect.CodeInternal || strings.Contains(e.Message(), "fire") || !strings.Contains(e.Message(), "req_1") {
		t.Errorf("the caller sees %v", e)
	}
	if !strings.Contains(log.String(), "disk on fire") || !strings.Contains(log.String(), "req_1") || strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log has %s", log.String())
	}
}

func TestRefuse_CodesByKindOfRefusal(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]connect.Code{
		fault.InvalidField("a", "b"):                    connect.CodeInvalidArgument,
		fault.New(fault.Unauthenticated, "X", "x"):      connect.CodeUnauthenticated,
		fault.New(fault.Denied, "X", "x"):               connect.CodePermissionDenied,
		fault.Missing("key"):                            connect.CodeNotFound,
		fault.New(fault.Exists, "X", "x"):               connect.CodeAlreadyExists,
		fault.New(fault.Conflict, "LAST_OWNER", "x"):    connect.CodeFailedPrecondition,
		fault.New(fault.Conflict, "ETAG_MISMATCH", "x"): connect.CodeAborted,
		fault.New(fault.Unavailable, "X", "x"):          connect.CodeUnavailable,
		store.ErrStale:                                  connect.CodeAborted,
		context.Canceled:                                connect.CodeCanceled,
		context.DeadlineExceeded:                        connect.CodeUnavailable,
		errors.New("x"):                                 connect.CodeInternal,
	} {
		if got := refuse(t.Context(), slog.New(slog.DiscardHandler), "/x", fmt.Errorf("call: %w", err)).Code(); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
