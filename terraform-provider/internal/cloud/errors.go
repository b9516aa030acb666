package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Kind is the class of an error.
type Kind int

// Kinds of errors.
const (
	Failed          Kind = iota // Anything else.
	Invalid                     // The request is wrong; see Fields.
	Unauthenticated             // The token is not accepted.
	Denied                      // The key's role does not allow it; see Permission.
	NotFound
	Exists      // The name or id is taken.
	Conflict    // The state forbids it: etag, protection.
	Exhausted   // A limit of the plan or of calls per second.
	Unavailable // Not now, or no connection.
	Elsewhere   // Not Corvo Cloud answered.
)

// Field is a wrong field of a request.
type Field struct{ Name, Problem string }

// Error is why a call had no success.
type Error struct {
	Kind Kind
	// Call is the method, for example CreateNamespace.
	Call string
	// Reason is stable and for programs: UPPER_SNAKE. May be empty.
	Reason  string
	Message string
	Fields  []Field
	// Help is what to do, in the server's words.
	Help string
	// Permission is what the call needs.
	Permission string
	RequestID  string
	RetryAfter time.Duration

	transient bool
	cause     error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Call + ": " + e.Message
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Unwrap gives the transport's error.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether err is of a kind.
func Is(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// fromRPC translates an error of the control API; heard is the answer's header, if one
// came.
func fromRPC(spec connect.Spec, err error, heard http.Header) error {
	e := &Error{
		Call:       spec.Procedure[strings.LastIndexByte(spec.Procedure, '/')+1:],
		Message:    apikey.Redact(err.Error()),
		Permission: permissionOf(spec),
		cause:      err,
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		e.Kind, e.transient = Unavailable, isBroken(err)
		return e
	}
	if m := ce.Message(); m != "" {
		e.Message = apikey.Redact(m)
	}
	e.RequestID = heard.Get("X-Request-Id")
	e.RetryAfter = retryAfter(heard)
	if notCorvo(ce, heard) {
		e.Kind, e.RequestID = Elsewhere, ""
		return e
	}
	addRefusal(e, ce)
	e.Kind = kindOf(ce.Code())
	// A limit that names no time to come back does not pass by waiting.
	e.transient = e.Kind == Unavailable || e.Kind == Exhausted && e.RetryAfter > 0 || isBroken(err)
	if spec.Procedure == cloudv1connect.TrustServiceExchangeTokenProcedure {
		e.transient = e.transient && (e.Kind == Exhausted || isUnsent(err))
	}
	return e
}

// notCorvo: something answered, but not as the control API does, and not as a proxy that
// cannot reach it right now.
func notCorvo(ce *connect.Error, heard http.Header) bool {
	return heard != nil && !connect.IsWireError(ce) && ce.Code() != connect.CodeUnavailable && !isBroken(ce)
}

func addRefusal(e *Error, ce *connect.Error) {
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			continue // A detail of a newer service; the message says enough.
		}
		r, ok := v.(*cloudv1.Refusal)
		if !ok {
			continue
		}
		e.Reason, e.Help = r.GetReason(), r.GetHelp()
		if r.GetRequestId() != "" {
			e.RequestID = r.GetRequestId()
		}
		e.RetryAfter = cmp.Or(e.RetryAfter, time.Duration(r.GetRetryAfterSeconds())*time.Second)
		for _, f := range r.GetFields() {
			e.Fields = append(e.Fields, Field{Name: f.GetName(), Problem: f.GetProblem()})
		}
	}
}

func kindOf(c connect.Code) Kind {
	return map[connect.Code]Kind{
		connect.CodeInvalidArgument: Invalid, connect.CodeOutOfRange: Invalid,
		connect.CodeUnauthenticated:  Unauthenticated,
		connect.CodePermissionDenied: Denied,
		connect.CodeNotFound:         NotFound,
		connect.CodeAlreadyExists:    Exists,
		connect.CodeAborted:          Conflict, connect.CodeFailedPrecondition: Conflict,
		connect.CodeResourceExhausted: Exhausted,
		connect.CodeUnavailable:       Unavailable, connect.CodeDeadlineExceeded: Unavailable,
	}[c]
}

// isUnsent reports whether nothing heard the call.
func isUnsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isBroken reports whether the connection, not the service, failed. Every call that is
// made here may be made twice: creations carry a request id, changes an etag or the
// whole of what is wanted. The exchange of a token is the exception: a token counts once,
// and the second call would only be told so.
func isBroken(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &ne)
}

// retryAfter reads the header's both forms.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if s, err := strconv.Atoi(text); err == nil && s > 0 {
		return min(time.Duration(s), time.Duration(24*3600)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// permissionOf reads what the method needs from its definition.
func permissionOf(spec connect.Spec) string {
	m, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return ""
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	if !ok {
		return ""
	}
	p, ok := proto.GetExtension(o, cloudv1.E_Permission).(cloudv1.Permission)
	if !ok || !permission.Permission(p).Known() {
		return "" // Anybody may call it; a refusal says more itself.
	}
	return PermissionName(p)
}

// PermissionName is how people read a permission: key.create.
func PermissionName(p cloudv1.Permission) string { return permission.Permission(p).String() }

func unexpected(call, format string, args ...any) error {
	return &Error{Kind: Failed, Call: call, Message: fmt.Sprintf(format, args...)}
}
