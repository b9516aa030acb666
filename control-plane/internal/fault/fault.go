// Package fault owns the one error that a caller of the control plane may see: what
// was refused, which field, why, and what to do. Everything else is an internal error
// and shows only a request id.
//
// It must not know transports. Surprising: a record of another tenant and a record that
// is not there are the same fault, with the same words.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code is the class of a refusal.
type Code int

// Codes.
const (
	Invalid         Code = iota + 1 // The request is wrong; see Fields.
	Unauthenticated                 // No credential, or a bad one.
	Denied                          // The caller's role does not allow it.
	NotFound                        // There is none, or none for this caller.
	Exists                          // The name or id is taken.
	Conflict                        // The state forbids it now (etag, last owner, protected).
	Exhausted                       // Too much, too often; see RetryAfter.
	Unavailable                     // Not now; try again.
)

// Field is one wrong field of a request.
type Field struct{ Name, Problem string }

// Error is a refusal.
type Error struct {
	Code Code
	// Reason is stable and for programs: UPPER_SNAKE.
	Reason string
	// Message is for people: what was refused, why, and what to do.
	Message    string
	Fields     []Field
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Name + ": " + f.Problem
	}
	return e.Message + ": " + strings.Join(parts, "; ")
}

// New makes a refusal.
func New(c Code, reason, format string, args ...any) *Error {
	return &Error{Code: c, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Missing is the one answer for what is not there and what is not the caller's.
func Missing(what string) *Error { return New(NotFound, "NOT_FOUND", "%s not found", what) }

// InvalidFields refuses a request for its fields, or returns nil for none.
func InvalidFields(fields []Field) error {
	if len(fields) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Reason: "INVALID_ARGUMENT", Message: "the request isn't valid", Fields: fields}
}

// InvalidField refuses a request for one field.
func InvalidField(name, format string, args ...any) error {
	return InvalidFields([]Field{{Name: name, Problem: fmt.Sprintf(format, args...)}})
}

// InvalidMask refuses an update mask that names nothing, or what can't be changed.
func InvalidMask(paths []string, allowed ...string) error {
	var wrong []Field
	for _, p := range paths {
		if !slices.Contains(allowed, p) {
			wrong = append(wrong, Field{Name: "update_mask", Problem: fmt.Sprintf("%q can't be changed; these can: %q", p, allowed)})
		}
	}
	if len(paths) == 0 {
		wrong = append(wrong, Field{Name: "update_mask", Problem: fmt.Sprintf("list the fields to change: %q", allowed)})
	}
	return InvalidFields(wrong)
}

// As gives the refusal in err, if there is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
