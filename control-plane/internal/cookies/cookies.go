// Package cookies owns the session cookie and the one that knows the browser which asked
// for a link: their names, their attributes, and how a use case that knows nothing of
// HTTP sets one. It must not know what a session is. Surprising:
// on plain http the cookie has another name, since browsers refuse the prefix __Host-
// there.
package cookies

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Policy is how cookies are made here.
type Policy struct {
	// Secure: browsers come over TLS.
	Secure bool
}

// Name is the full name of a cookie of ours.
func (p Policy) Name(base string) string {
	if p.Secure {
		return "__Host-" + base
	}
	return base
}

const (
	sessionBase = "corvo_session"
	startedBase = "corvo_started"
)

// SessionName is the name of the session's cookie.
func (p Policy) SessionName() string { return p.Name(sessionBase) }

// Session reads the session's token from a request's headers; empty if there is none,
// or more than one: a second one may have been planted by a neighbouring site.
func (p Policy) Session(h http.Header) string { return p.Read(h, sessionBase) }

// Read reads a cookie of ours; empty if there is not exactly one.
func (p Policy) Read(h http.Header, base string) string {
	found := (&http.Request{Header: h}).CookiesNamed(p.Name(base))
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// Set adds a cookie to a response's headers. Expires in the past removes it.
func (p Policy) Set(h http.Header, base, value string, expires time.Time) {
	c := http.Cookie{
		Name: p.Name(base), Value: value, Path: "/", Expires: expires,
		Secure: p.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		c.MaxAge, c.Expires = -1, time.Unix(1, 0)
	}
	h.Add("Set-Cookie", c.String())
}

// SetSession adds the session's cookie to a response's headers; an empty token ends it.
func (p Policy) SetSession(h http.Header, token string, expires time.Time) {
	p.Set(h, sessionBase, token, expires)
}

// Started reads the token that tells the browser that asked for a link; empty as Session.
func (p Policy) Started(h http.Header) string { return p.Read(h, startedBase) }

// Jar collects what a use case sets during one call. The server writes it into the
// answer if the call succeeded.
type Jar struct {
	came    string
	started string
	set     map[string]cookie // By base name.
}

type cookie struct {
	value   string
	expires time.Time
}

// NewJar makes a jar for a call that came with a session's token, or with none, and with
// the token of a browser that asked for a link, or none.
func NewJar(session, started string) *Jar {
	return &Jar{came: session, started: started, set: map[string]cookie{}}
}

// Came is the token of the session that the browser had when it called, good or not;
// empty without one.
func (j *Jar) Came() string { return j.came }

// SetSession signs the browser in; an empty token signs it out.
func (j *Jar) SetSession(token string, expires time.Time) {
	j.set[sessionBase] = cookie{token, expires}
}

// Started is the token that SetStarted gave this browser; empty without one.
func (j *Jar) Started() string { return j.started }

// SetStarted marks the browser as the one that asked for a mailed link.
func (j *Jar) SetStarted(token string, expires time.Time) {
	j.set[startedBase] = cookie{token, expires}
}

// Write adds what was set to a response's headers.
func (j *Jar) Write(p Policy, h http.Header) {
	for _, base := range slices.Sorted(maps.Keys(j.set)) {
		p.Set(h, base, j.set[base].value, j.set[base].expires)
	}
}

type contextKey struct{}

// With hands a jar down.
func With(ctx context.Context, j *Jar) context.Context {
	return context.WithValue(ctx, contextKey{}, j)
}

// From gives the call's jar. Without one, what is set is lost.
func From(ctx context.Context) *Jar {
	if j, ok := ctx.Value(contextKey{}).(*Jar); ok {
		return j
	}
	return NewJar("", "")
}
