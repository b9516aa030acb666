package saml

import (
	"errors"
	"fmt"
)

// A Refusal is why a response isn't taken. Its text is always the same, since whoever sent
// the response reads it; the reason is for people who manage the connection.
type Refusal struct{ reason string }

// Error implements error.
func (*Refusal) Error() string { return "the identity provider's response isn't valid" }

// Reason says what is wrong and, where somebody can do something about it, what.
func (r *Refusal) Reason() string { return r.reason }

func refuse(reason string, args ...any) error { return &Refusal{fmt.Sprintf(reason, args...)} }

// ReasonOf is the reason of a refusal; otherwise the error's text.
func ReasonOf(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.reason
	}
	return err.Error()
}

// guard turns a panic of a library into a refusal: what it reads was written by a stranger.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = refuse("it can't be read")
	}
}
