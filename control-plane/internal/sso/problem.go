package sso

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
)

// problem is why a sign-in ends, in words for whoever sits before the browser.
type problem struct {
	status int
	title  string
	// text says what happened and what to do. It never repeats what a stranger sent.
	text string
	// said is the provider's own error, for people who try a connection.
	said string
	// cause is for the log.
	cause error
	// retryAfter is when trying again makes sense; 0: not said.
	retryAfter time.Duration
}

// Error implements error.
func (p *problem) Error() string {
	if p.cause == nil {
		return p.text
	}
	return p.text + ": " + p.cause.Error()
}

// Unwrap gives the cause.
func (p *problem) Unwrap() error { return p.cause }

func refused(cause error, text string, args ...any) *problem {
	return &problem{status: http.StatusForbidden, title: "You aren't signed in", text: fmt.Sprintf(text, args...), cause: cause}
}

func providerDown(cause error, text string, args ...any) *problem {
	return &problem{status: http.StatusBadGateway, title: "Problem with the identity provider", text: fmt.Sprintf(text, args...), cause: cause}
}

func stale(text string) *problem {
	return &problem{status: http.StatusBadRequest, title: "Can't continue this sign-in", text: text}
}

// problemOf returns the problem in err; other errors are our own failures.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return &problem{
		status: http.StatusInternalServerError, title: "Something went wrong on our side",
		text: "The sign-in couldn't be finished. Try again; if it keeps happening, contact support with the request id.", cause: err,
	}
}

// discoveryProblem says why discovery failed.
func discoveryProblem(err error) *problem {
	var mismatch *oidc.IssuerMismatchError
	switch {
	case errors.As(err, &mismatch):
		return providerDown(err, "the provider's discovery document says its issuer is %q; the two must match exactly, including a trailing slash", clip(mismatch.Discovered))
	case errors.Is(err, egress.ErrAddress), errors.Is(err, egress.ErrRedirect), errors.Is(err, egress.ErrTooLarge):
		return providerDown(err, "%s", innermost(err))
	}
	const what = "can't read its discovery document (…/.well-known/openid-configuration)"
	if strings.Contains(err.Error(), egress.ErrTooLarge.Error()) { // The library does not wrap it.
		return providerDown(err, "%s: %s", what, egress.ErrTooLarge)
	}
	if status, _, ok := strings.Cut(err.Error(), " "); ok && len(status) == 3 && strings.Trim(status, "0123456789") == "" {
		return providerDown(err, "%s: it responded with status %s", what, status)
	}
	return unreachable(err, what)
}

// tokenProblem says why a code was not exchanged.
func tokenProblem(err error) *problem {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return unreachable(err, "can't get a token from the provider")
	}
	// Not the error itself: it repeats the whole answer, whatever that is.
	said := fmt.Errorf("status %d %s: %s", answer.Response.StatusCode, answer.ErrorCode, answer.ErrorDescription)
	var p *problem
	switch answer.ErrorCode {
	case "invalid_client", "unauthorized_client":
		p = providerDown(said, "the provider doesn't accept the client ID and secret (%s); the person who manages single sign-on needs to correct them", answer.ErrorCode)
	case "invalid_grant":
		p = refused(said, "the provider doesn't accept the code of this sign-in (invalid_grant): it was already used, has expired, or belongs to another redirect URL. Sign in again")
	default:
		p = providerDown(said, "the provider refused to issue a token")
	}
	p.said = clip(said.Error())
	return p
}

func unreachable(err error, what string) *problem {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return providerDown(err, "%s: it didn't respond in time", what)
	}
	for _, known := range []error{egress.ErrAddress, egress.ErrRedirect, egress.ErrTooLarge} {
		if errors.Is(err, known) {
			return providerDown(err, "%s: %s", what, known)
		}
	}
	return providerDown(err, "%s", what)
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		// The layer right above a known error says what about the address is wrong.
		if next == egress.ErrAddress { // The very value is looked for.
			return err
		}
		err = next
	}
}

const clipMax = 200

// clip shortens text chosen by a provider and removes what a terminal or a page
// could interpret.
func clip(text string) string {
	out := make([]rune, 0, clipMax)
	for _, r := range text {
		if isControl(r) || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			continue
		}
		if len(out) == clipMax {
			return string(out) + "…"
		}
		out = append(out, r)
	}
	return string(out)
}
