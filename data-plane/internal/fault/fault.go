// Package fault owns the one error type that crosses rooms of the data plane.
//
// There are three kinds of trouble. A refusal is the caller's fault or the
// world's state and has a Code; a failure of the environment that may be retried
// has one too; a bug panics. Only the text of a *fault.Error is ever shown to a
// user: any other error becomes "internal" with a request id.
//
// It must not know any protocol: the table from Code to status lives in server.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code classifies an Error. The zero value is Internal.
type Code uint8

const (
	Internal       Code = iota
	Invalid             // The request is wrong; Fields says where.
	NotFound            // No such thing in the caller's namespace.
	Conflict            // The thing is not in a state that allows it.
	Unauthorized        // No credential, or not a valid one.
	Forbidden           // A valid credential that does not allow this.
	Exhausted           // A limit was reached; RetryAfter says when to come back.
	TooLarge            // A body or payload is over its limit.
	NotLeader           // This node does not lead the shard; Leader may say who does.
	Unavailable         // No leader, shutting down: nothing was done, retry.
	UnknownOutcome      // It may or may not have happened: retry with the same idempotency key.
)

var codeNames = [...]string{
	"internal", "invalid", "not_found", "conflict", "unauthorized", "forbidden",
	"exhausted", "too_large", "not_leader", "unavailable", "unknown_outcome",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "internal"
}

// Field names one refused field of a request. Path is spelled as on the wire,
// for example "jobs[3].retry_base_delay".
type Field struct {
	Path    string
	Message string
}

// Limit is a limit that was reached: one of a tenant's plan, or one that all tenants have.
type Limit struct {
	Name  string // As the settings of plans or docs/api.md name it, "enqueue_per_second".
	Value int64
	// Current is what there is of it, where the limit is one of an amount.
	Current int64
	// OpensAt is when more is allowed again, if that is known.
	OpensAt time.Time
}

// Error is a refusal or a failure that may be shown to the caller.
type Error struct {
	Code Code
	// Reason is the stable upper-snake word of the wire ("VALIDATION_ERROR",
	// "LEASE_LOST"). Empty: the protocol's default word for Code.
	Reason string
	// Message is a full sentence: what happened and what to do.
	Message string
	Fields  []Field
	// RetryAfter is set on Exhausted and Unavailable when it is known.
	RetryAfter time.Duration
	// Limit is the limit that was reached, if it has a name and a value.
	Limit *Limit
	// Leader is the API base URL of the leader, on NotLeader, when it is known.
	Leader string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Path, f.Message)
	}
	return b.String()
}

// New makes a refusal with a formatted message.
func New(code Code, reason, format string, args ...any) *Error {
	return &Error{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// FieldsMax bounds the fields of one refusal: the answer to a request that is wrong
// everywhere must not be larger than the request.
const FieldsMax = 100

// InvalidFields is the refusal that lists every field problem at once.
func InvalidFields(fields []Field) *Error {
	e := &Error{Code: Invalid, Reason: "VALIDATION_ERROR", Message: "the request has invalid fields", Fields: fields}
	if n := len(fields); n > FieldsMax {
		e.Message = fmt.Sprintf("the request has %d invalid fields; these are the first", n)
		e.Fields = fields[:FieldsMax]
	}
	return e
}

// As returns the *Error in err's chain, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// NothingDone reports whether err says that leadership moves and that surely nothing
// happened: the call may be made again, here or at another node.
func NothingDone(err error) bool {
	if err == nil {
		return false
	}
	code := CodeOf(err)
	return code == NotLeader || code == Unavailable
}

// CodeOf is the code of err; Internal when it has none.
func CodeOf(err error) Code {
	if e := As(err); e != nil {
		return e.Code
	}
	return Internal
}
