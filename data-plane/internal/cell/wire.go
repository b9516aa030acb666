package cell

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// reasonUnreachable: the call did not arrive at the other node.
const reasonUnreachable = "NODE_UNREACHABLE"

// Metadata of an error inside a cell, from which the caller rebuilds the fault.
const (
	metaCode   = "Corvo-Code"
	metaReason = "Corvo-Reason"
	metaLeader = "Corvo-Leader"
)

// codeOf is the one table from fault to protocol.
func codeOf(c fault.Code) connect.Code {
	switch c {
	case fault.Invalid, fault.TooLarge:
		return connect.CodeInvalidArgument
	case fault.NotFound:
		return connect.CodeNotFound
	case fault.Conflict:
		return connect.CodeFailedPrecondition
	case fault.Unauthorized:
		return connect.CodeUnauthenticated
	case fault.Forbidden:
		return connect.CodePermissionDenied
	case fault.Exhausted:
		return connect.CodeResourceExhausted
	case fault.NotLeader, fault.Unavailable, fault.UnknownOutcome:
		return connect.CodeUnavailable
	case fault.Internal:
		return connect.CodeInternal
	}
	return connect.CodeInternal
}

// ToConnect puts a refusal on the wire of corvo.cell.v1; it shows a fault and hides
// everything else.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	var done *connect.Error
	if errors.As(err, &done) {
		return done
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	f := fault.As(err)
	if f == nil {
		return connect.NewError(connect.CodeInternal, errInternal)
	}
	out := connect.NewError(codeOf(f.Code), errors.New(f.Error()))
	out.Meta().Set(metaCode, strconv.Itoa(int(f.Code)))
	setMeta(out.Meta(), metaReason, f.Reason)
	setMeta(out.Meta(), metaLeader, f.Leader)
	return out
}

var errInternal = errors.New("internal error; see the node's log")

func setMeta(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// Fault turns the error of a call to another node back into the fault that was
// sent. A call that failed on its way is Unavailable if the far side cannot have
// seen it, else UnknownOutcome.
func Fault(err error) *fault.Error {
	if f := fault.As(err); f != nil {
		return f
	}
	var c *connect.Error
	if errors.As(err, &c) {
		if n, perr := strconv.ParseUint(c.Meta().Get(metaCode), 10, 8); perr == nil && fault.Code(n) <= fault.UnknownOutcome {
			f := fault.New(fault.Code(n), c.Meta().Get(metaReason), "%s", c.Message())
			f.Leader = c.Meta().Get(metaLeader)
			return f
		}
		switch c.Code() {
		case connect.CodeUnauthenticated:
			return fault.New(fault.Unauthorized, "UNAUTHORIZED", "%s", c.Message())
		case connect.CodeInvalidArgument:
			return fault.New(fault.Invalid, "VALIDATION_ERROR", "%s", c.Message())
		case connect.CodeUnimplemented:
			return fault.New(fault.Internal, "UNIMPLEMENTED", "%s", c.Message())
		}
	}
	if forward.NeverSent(err) {
		return fault.New(fault.Unavailable, reasonUnreachable, "can't reach the node: %v", err)
	}
	return fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME", "the node didn't answer, so the outcome isn't known: %v", err)
}
