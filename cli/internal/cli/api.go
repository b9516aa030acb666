package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

const (
	// replyBytesMax bounds what one answer may take: 512 jobs of 256 KiB.
	replyBytesMax = 256 << 20
	// triesMax and retryPauseMax bound how long a command outlives a change of leader.
	triesMax      = 8
	retryPauseMax = time.Second
)

// api speaks the HTTP/JSON protocol to one server or tenant URL.
type api struct {
	base      *url.URL
	key       string
	namespace string
	// manage takes the place of a profile whose API key may not do what is asked:
	// sign-up leaves a key for jobs and one that may also set up queues.
	manage profile
	// person takes the place of keys: whoever signed in with `corvo login`.
	person  *personal
	timeout time.Duration
	http    *http.Client
	log     *slog.Logger
}

// reply is an answer below status 400.
type reply struct {
	status int
	header http.Header
	body   json.RawMessage
}

// call is one request.
type call struct {
	method, path string
	body         any           // nil sends none.
	wait         time.Duration // Added to the timeout: how long the server may hold the call.
	// repeatable: sending it twice is the same as once, so an unknown outcome is retried.
	repeatable bool
	// idempotencyKey makes it so for calls that add jobs; it goes out as a header.
	idempotencyKey string
}

// api is made once: a key may come from standard input.
func (s *session) api() (*api, error) {
	if s.made != nil {
		return s.made, nil
	}
	base, err := s.serverURL()
	if err != nil {
		return nil, err
	}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	manage, err := s.manageProfile()
	if err != nil {
		return nil, err
	}
	person, err := s.person()
	if err != nil {
		return nil, err
	}
	s.made = &api{base: base, key: key, namespace: cmp.Or(s.namespace, s.proc.Env("CORVO_NAMESPACE")), manage: manage, person: person,
		timeout: s.timeout, http: newHTTPClient(), log: s.logger()}
	return s.made, nil
}

func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			IdleConnTimeout: 30 * time.Second,
		},
		// A redirect would carry the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(path string) call { return call{method: http.MethodGet, path: path, repeatable: true} }

func post(path string, body any) call { return call{method: http.MethodPost, path: path, body: body} }

func del(path string) call { return call{method: http.MethodDelete, path: path} }

// nothing is the body of calls that say all with their path.
type nothing struct{}

// again is a call that may be sent twice: the second time changes nothing.
func (c call) again() call {
	c.repeatable = true
	return c
}

// keyed is a call that adds jobs: sent again with its key, it adds none.
func (c call) keyed(idempotencyKey string) call {
	c.repeatable, c.idempotencyKey = true, idempotencyKey
	return c
}

// answerOf makes one call and reads its answer, which raw is as it came.
func answerOf[T any](ctx context.Context, s *session, c call) (thing T, raw json.RawMessage, err error) {
	a, err := s.api()
	if err != nil {
		return thing, nil, err
	}
	r, err := a.send(ctx, c)
	if err != nil {
		return thing, nil, err
	}
	err = a.decode(r, &thing)
	return thing, r.body, err
}

// send makes the call, repeating it while the server says that nothing was done
// (or, for repeatable calls, that it cannot know) and the timeout allows.
func (a *api) send(ctx context.Context, c call) (*reply, error) {
	body, err := encodeBody(c.body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout+c.wait)
	defer cancel()
	var unknown *Failure // Of a try that may have been done: no later trouble takes that back.
	for try := 1; ; try++ {
		if a.person != nil {
			if err := a.person.renew(ctx); err != nil {
				return nil, err
			}
		}
		r, err := a.exchange(ctx, c, body)
		if err != nil {
			f := fromTransport(ctx, c.method, a.base.String(), err)
			if f.Code == wire.CodeUnknownOutcome {
				unknown = f
			}
			if unknown == nil || !c.repeatable || try >= triesMax || !sleep(ctx, pauseAfter(try)) {
				return nil, cmp.Or(unknown, f)
			}
			a.log.Debug("retry", "error", err, "try", try)
			continue
		}
		if r.status < 300 {
			return r, nil
		}
		if r.status < 400 {
			return nil, &Failure{Exit: ExitFail, Code: "REDIRECTED", Status: r.status, What: "the server sent a redirect",
				Why: "keys are never sent to another address", Fix: "set --server to " + cmp.Or(r.header.Get("Location"), "the new address")}
		}
		if r.status == http.StatusUnauthorized && a.person != nil && !a.person.asked {
			a.person.forget() // Cut off since it was made: because a role changed, say.
			continue
		}
		if r.status == http.StatusForbidden && a.person == nil && a.manage.Token != "" {
			a.key, a.namespace, a.manage = a.manage.Token, cmp.Or(a.namespace, a.manage.Namespace), profile{}
			a.log.Debug("using the profile's management key: its API key isn't allowed to do this")
			continue
		}
		f := fromReply(r, c.method)
		if f.Code == wire.CodeUnknownOutcome {
			unknown = f
		}
		pause, again, undone := retryPause(r, f, c, try)
		if !again || !sleep(ctx, pause) {
			if undone { // The try before may have been.
				f = cmp.Or(unknown, f)
			}
			return nil, f
		}
		a.log.Debug("retry", "status", r.status, "code", f.Code, "try", try, "pause", pause)
	}
}

// retryPause decides whether a refused call is worth repeating and when, and tells whether it was
// put off, which says nothing of an earlier try.
func retryPause(r *reply, f *Failure, c call, try int) (pause time.Duration, again, undone bool) {
	undone = r.status == http.StatusTooManyRequests && f.Code == wire.CodeOverloaded ||
		r.status == http.StatusServiceUnavailable && f.Code != wire.CodeUnknownOutcome && f.Code != wire.CodeUnhealthy
	if try >= triesMax || !undone && (!c.repeatable || f.Code != wire.CodeUnknownOutcome) {
		return 0, false, undone
	}
	if seconds, err := strconv.ParseFloat(r.header.Get("Retry-After"), 64); err == nil && seconds > 0 {
		return jitter(min(time.Duration(seconds*float64(time.Second)), 5*time.Second)), true, undone
	}
	return pauseAfter(try), true, undone
}

// pauseAfter grows with the tries.
func pauseAfter(try int) time.Duration { return jitter(min(50*time.Millisecond<<try, retryPauseMax)) }

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// lostError is a connection that broke after the call was sent and before the answer came.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }

func (e *lostError) Unwrap() error { return e.cause }

// lost tells a connection that broke from what was never sent, and from what isn't HTTP.
func lost(err error, sent bool) error {
	// The transport itself sends a call with a key again, and may then find nobody.
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED} {
		if sent && errors.Is(err, broken) {
			return &lostError{err}
		}
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *api) exchange(ctx context.Context, c call, body []byte) (*reply, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, c.method, a.base.String()+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	a.dress(req, c.idempotencyKey, len(body) > 0)
	began := time.Now()
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, lost(err, sent.Load())
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, replyBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", lost(err, true))
	}
	a.log.Debug("request", "method", c.method, "path", c.path, "status", resp.StatusCode, "took", time.Since(began))
	return &reply{status: resp.StatusCode, header: resp.Header, body: raw}, nil
}

func (a *api) dress(req *http.Request, idempotencyKey string, hasBody bool) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "corvo-cli/"+Version())
	if hasBody {
		req.Header.Set("Content-Type", "application/json")
	}
	if idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	if a.person != nil { // Its token names the namespace.
		req.Header.Set("Authorization", "Bearer "+a.person.token)
		return
	}
	if a.key != "" {
		req.Header.Set("X-API-Key", a.key)
	}
	if a.namespace != "" {
		req.Header.Set("X-Corvo-Namespace", a.namespace)
	}
}

func encodeBody(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return b, nil
	default:
		return marshal(b)
	}
}

// decode reads an answer into v; an answer that is not what the protocol says
// means that something else answered.
func (a *api) decode(r *reply, v any) error {
	if err := json.Unmarshal(r.body, v); err != nil {
		return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: a.base.String() + " isn't a Corvo server",
			Why: err.Error(), Fix: "check that --server or CORVO_URL is the address of a Corvo server or tenant", Status: r.status}
	}
	return nil
}

// pathf builds a path under /api/v1 with every argument escaped.
func pathf(format string, args ...string) string {
	escaped := make([]any, len(args))
	for i, a := range args {
		escaped[i] = url.PathEscape(a)
	}
	return "/api/v1" + strings.TrimSuffix(fmt.Sprintf(format, escaped...), "/")
}
