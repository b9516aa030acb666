package scim

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Words of scimType, RFC 7644 3.12.
const (
	InvalidFilter = "invalidFilter"
	InvalidPath   = "invalidPath"
	InvalidSyntax = "invalidSyntax"
	InvalidValue  = "invalidValue"
	Mutability    = "mutability"
	NoTarget      = "noTarget"
	TooMany       = "tooMany"
	Uniqueness    = "uniqueness"
)

// Error is a refusal as the protocol says it.
type Error struct {
	Status int
	// Type is one of the words above, or empty.
	Type string
	// Detail is for people: what was refused, why, and what to do.
	Detail     string
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// Refuse makes a refusal.
func Refuse(status int, scimType, format string, args ...any) *Error {
	return &Error{Status: status, Type: scimType, Detail: fmt.Sprintf(format, args...)}
}

// Missing is the one answer for what is not there and what is another directory's.
func Missing(k Kind) *Error {
	return Refuse(http.StatusNotFound, "", "no %s of this directory has this id", k.word())
}

func invalid(scimType, format string, args ...any) *Error {
	return Refuse(http.StatusBadRequest, scimType, format, args...)
}

// As gives the refusal in err, if there is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

func (e *Error) body() Object {
	out := Object{"schemas": []any{urnError}, "status": strconv.Itoa(e.Status), "detail": e.Detail}
	if e.Type != "" {
		out["scimType"] = e.Type
	}
	return out
}
