package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://acme.corvo.example":        "https://acme.corvo.example",
		"https://acme.corvo.example/":       "https://acme.corvo.example",
		"http://127.0.0.1:8080/t/acme":      "http://127.0.0.1:8080/t/acme",
		"http://127.0.0.1:8080/t/acme/":     "http://127.0.0.1:8080/t/acme",
		" http://localhost:8080\n":          "http://localhost:8080",
		"127.0.0.1:8080":                    "http://127.0.0.1:8080",
		"[::1]:8080":                        "http://[::1]:8080",
		"localhost":                         "http://localhost",
		"demo.localhost:8080/t/demo":        "http://demo.localhost:8080/t/demo",
		"acme.corvo.example":                "https://acme.corvo.example",
		"10.0.0.7:8080":                     "https://10.0.0.7:8080",
		"localhost.evil.example":            "https://localhost.evil.example",
		"":                                  "error: no server address",
		"ftp://acme.corvo.example":          "error: scheme",
		"https://":                          "error: no host",
		"https://key@acme.corvo.example":    "error: credentials",
		"https://acme.corvo.example?x=1":    "error: query",
		"https://acme.corvo.example/#there": "error: fragment",
		"http://[::1":                       "error: parse",
	} {
		u, err := parseAddress(in)
		word, isError := strings.CutPrefix(want, "error: ")
		switch {
		case isError && (err == nil || !strings.Contains(err.Error(), word)):
			t.Errorf("%q: error %v, want a word on %q", in, err, word)
		case !isError && err != nil:
			t.Errorf("%q: %v", in, err)
		case !isError && u.String() != want:
			t.Errorf("%q: %s, want %s", in, u, want)
		}
	}
}

func TestNew_ExplicitWinsOverEnvironment(t *testing.T) {
	s := peertest.New(t, peertest.Options{Prefix: "/t/acme"})
	t.Setenv("CORVO_URL", s.URL())
	t.Setenv("CORVO_API_KEY", "from-environment")
	t.Setenv("CORVO_NAMESPACE", "staging")
	c, err := New(WithAPIKey("explicit"), WithLogger(quiet()), WithUserAgent("mine/1"))
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	defer c.Close()
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatalf("info: %v", err)
	}
	if _, err := c.Enqueue(t.Context(), sendEmail{}); err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	for _, h := range s.Headers() {
		for name, want := range map[string]string{
			"Authorization": "Bearer explicit", "X-Corvo-Namespace": "staging",
			"X-Corvo-Client-Name": clientName, "X-Corvo-Client-Version": Version, "User-Agent": "mine/1 corvo-go/" + Version,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	if _, err := New(WithAPIKey("key\n")); err == nil {
		t.Error("a key with a line break was taken")
	}
}

func TestEnqueue_OptionsTravel(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	spec := NewJob(sendEmail{To: "a"},
		ToQueue("bulk"), At(at), Unique("a@b", 90*time.Second), Priority(High), MaxRetries(7),
		Backoff(BackoffLinear, time.Second, time.Minute), Tags(map[string]string{"k": "v"}), IdempotencyKey("mine"))
	m, err := spec.message()
	if err != nil {
		t.Fatalf("message: %v", err)
	}
	o := m.GetOptions()
	switch {
	case m.GetQueue() != "bulk", m.GetPayloadJson() != `{"to":"a"}`, o.GetPriority() != "high", o.GetMaxRetries() != 7,
		o.GetRetryBackoff() != "linear", o.GetRetryBaseDelayMs() != 1000, o.GetRetryMaxDelayMs() != 60000,
		!o.GetScheduledAt().AsTime().Equal(at), o.GetUniqueKey() != "a@b", o.GetUniquePeriod() != 90,
		o.GetIdempotencyKey() != "mine", o.GetTags()["k"] != "v", o.GetTags()[KindTag] != "emails":
		t.Errorf("message %v", m)
	}
	plain, err := NewJob(sendEmail{}).message()
	if err != nil {
		t.Fatalf("message: %v", err)
	}
	if p := plain.GetOptions(); p.GetIdempotencyKey() == "" || p.GetTags() != nil || p.UniquePeriod != nil || p.MaxRetries != nil || p.GetScheduledAt() != nil {
		t.Errorf("a plain job says more than it must: %v", plain)
	}
	for _, c := range []struct {
		opts []EnqueueOption
		ms   *int64
		at   bool
	}{
		{[]EnqueueOption{Delay(time.Minute)}, new(int64(60_000)), false},
		{[]EnqueueOption{At(at), Delay(time.Nanosecond)}, new(int64(1)), false}, // The last one counts.
		{[]EnqueueOption{Delay(time.Minute), At(at)}, nil, true},
	} {
		o := &NewJob(sendEmail{}, c.opts...).opts
		if (o.DelayMs == nil) != (c.ms == nil) || c.ms != nil && o.GetDelayMs() != *c.ms || (o.GetScheduledAt() != nil) != c.at {
			t.Errorf("%d ms, at %v; want %v, a time %v", o.GetDelayMs(), o.GetScheduledAt(), c.ms, c.at)
		}
	}
	if q := NewJob(queued{}); q.queue != "letters" || q.opts.Tags[KindTag] != "letter.send" {
		t.Errorf("queue of the arguments: %+v", q)
	}
	if _, err := NewJob(unencodable{F: func() {}}).message(); err == nil {
		t.Error("arguments that are no JSON were taken")
	}
}

type queued struct{}

func (queued) Kind() string  { return "letter.send" }
func (queued) Queue() string { return "letters" }

type unencodable struct{ F func() }

func (unencodable) Kind() string { return "x" }

func TestEnqueue_RetriesWithOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]peertest.Faults{
		"nothing was done":    {Unavailable: 3},
		"outcome unknown":     {Unknown: 3},
		"both, one by one":    {Unavailable: 2, Unknown: 2},
		"the server says how": {Unavailable: 2, RetryAfter: "0.003"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Set(f)
			c := newClient(t, s)
			job, err := c.Enqueue(t.Context(), sendEmail{To: "a"})
			if err != nil {
				t.Fatalf("enqueue: %v", err)
			}
			if jobs := s.Jobs(); len(jobs) != 1 || jobs[0].ID != job.ID {
				t.Errorf("jobs %+v, want the one of the answer %+v", jobs, job)
			}
		})
	}
}

func TestEnqueue_RetriesWhenTheServerIsNotThere(t *testing.T) {
	t.Parallel()
	c, err := New(WithURL("http://127.0.0.1:1"), WithLogger(quiet()), WithRetries(Retries{Total: 200 * time.Millisecond, First: time.Millisecond}))
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	defer c.Close()
	_, err = c.Enqueue(t.Context(), sendEmail{})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeUnavailable || !e.Retryable || !errors.Is(err, ErrUnavailable) {
		t.Errorf("enqueue: %v", err)
	}
	if err := c.Retry(t.Context(), "job_1"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("retry: %v", err)
	}
}

func TestEnqueue_RefusalsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	c := newClient(t, s)
	_, err := c.EnqueueRaw(t.Context(), "-bad", nil)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || e.Retryable || e.RequestID != "req-7" ||
		len(e.Fields) != 1 || e.Fields[0].Name != "queue" || e.Reason != "VALIDATION_ERROR" {
		t.Errorf("error %+v", e)
	}
	if n := s.Calls("POST /corvo.v1.WorkerService/Enqueue"); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	for code, want := range map[connect.Code]error{
		connect.CodeUnauthenticated: ErrUnauthorized, connect.CodePermissionDenied: ErrForbidden,
		connect.CodeNotFound: ErrNotFound, connect.CodeFailedPrecondition: ErrConflict, connect.CodeResourceExhausted: ErrExhausted,
	} {
		s.Set(peertest.Faults{Code: code})
		before := s.Calls("POST /corvo.v1.WorkerService/Enqueue")
		if _, err := c.Enqueue(t.Context(), sendEmail{}); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", code, err, want)
		}
		if n := s.Calls("POST /corvo.v1.WorkerService/Enqueue") - before; n != 1 {
			t.Errorf("%v: %d calls, want 1", code, n)
		}
	}
}

func TestEnqueue_StopsWithItsContext(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{Unavailable: 1000})
	c := newClient(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	var e *Error
	if _, err := c.Enqueue(ctx, sendEmail{}); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
		t.Errorf("error %v, want the context's and the server's", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
}

func TestEnqueue_FallsBackToHTTP1(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{HTTP1Only: true})
	c := newClient(t, s)
	if _, err := c.Enqueue(t.Context(), sendEmail{}); err != nil {
		t.Fatalf("enqueue: %v", err)
	}
}

func TestEnqueue_UniqueKeyAnswersTheHolder(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	c := newClient(t, s)
	first, err := c.Enqueue(t.Context(), sendEmail{}, Unique("k", 0))
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	second, err := c.Enqueue(t.Context(), sendEmail{}, Unique("k", 0))
	if err != nil || !second.Duplicate || second.ID != first.ID || second.Status != "duplicate" {
		t.Errorf("second %+v, %v", second, err)
	}
}

func TestEnqueueBatch_AnswersInOrder(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{Unavailable: 1})
	c := newClient(t, s)
	out, err := c.EnqueueBatch(t.Context(), []*JobSpec{
		NewJob(sendEmail{To: "a"}), RawJob("raw", json.RawMessage(`{"n":1}`)), NewJob(sendEmail{To: "c"}, Delay(time.Hour)),
	})
	if err != nil || len(out) != 3 {
		t.Fatalf("batch: %v, %v", out, err)
	}
	if a, b, c := s.Job(out[0].ID), s.Job(out[1].ID), s.Job(out[2].ID); a.Payload != `{"to":"a"}` || b.Queue != "raw" || c.State != "scheduled" {
		t.Errorf("jobs %+v %+v %+v", a, b, c)
	}
	if _, err := c.EnqueueBatch(t.Context(), []*JobSpec{RawJob("raw", json.RawMessage(`{`))}); !errors.Is(err, ErrInvalid) {
		t.Errorf("batch with a bad payload: %v", err)
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{Prefix: "/t/acme"})
	c, ctx := newClient(t, s), t.Context()
	id := s.Add("emails", `{"to":"a"}`, map[string]string{"k": "v"})
	job, err := c.Job(ctx, id)
	if err != nil || job.ID != id || job.State != StatePending || job.State.Ended() || string(job.Payload) != `{"to":"a"}` || job.CreatedAt.IsZero() {
		t.Errorf("job %+v, %v", job, err)
	}
	if err := c.Pause(ctx, "emails"); err != nil {
		t.Errorf("pause: %v", err)
	}
	queues, err := c.Queues(ctx)
	if err != nil || len(queues) != 1 || !queues[0].Paused || queues[0].Pending != 1 {
		t.Errorf("queues %+v, %v", queues, err)
	}
	if err := c.Resume(ctx, "emails"); err != nil {
		t.Errorf("resume: %v", err)
	}
	if status, err := c.Cancel(ctx, id); err != nil || status != "cancelled" {
		t.Errorf("cancel: %q, %v", status, err)
	}
	if err := c.Retry(ctx, id); err != nil || s.Job(id).State != "pending" {
		t.Errorf("retry: %v", err)
	}
	s.Set(peertest.Faults{Unavailable: 2})
	if err := c.Delete(ctx, id); err != nil {
		t.Errorf("delete after two refusals: %v", err)
	}
	if _, err := c.Job(ctx, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted job: %v", err)
	}
	if info, err := c.Info(ctx); err != nil || info.ServerVersion != "1.2.3" {
		t.Errorf("info %+v, %v", info, err)
	}
	for _, bad := range []string{"", ".", ".."} {
		if _, err := c.Job(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("job %q: %v", bad, err)
		}
	}
	if err := c.Pause(ctx, "a/b c"); err != nil { // As one part of the path, or nothing answers it.
		t.Errorf("pause a queue with a slash: %v", err)
	}
}

func TestErrorFromHTTP(t *testing.T) {
	t.Parallel()
	body := `{"error":"the request has invalid fields; queue: is empty","code":"VALIDATION_ERROR","request_id":"r1",
		"fields":[{"field":"queue","message":"is empty"},{"field":"tags","message":"too many"}]}`
	e := errorFromHTTP(400, http.Header{}, []byte(body))
	if e.Code != CodeInvalid || e.RequestID != "r1" || len(e.Fields) != 2 || e.Retryable {
		t.Errorf("error %+v", e)
	}
	if text := e.Error(); strings.Count(text, "is empty") != 1 || !strings.Contains(text, "tags: too many") || !strings.Contains(text, "r1") {
		t.Errorf("text %q", text)
	}
	for _, c := range []struct {
		status int
		body   string
		code   Code
		retry  bool
	}{
		{503, `{"error":"x","code":"LEADER_UNAVAILABLE"}`, CodeUnavailable, true},
		{503, `{"error":"x","code":"UNKNOWN_OUTCOME"}`, CodeUnknownOutcome, true},
		{503, `<html>bad gateway</html>`, CodeUnknownOutcome, true},
		{503, `{"message":"no healthy upstream"}`, CodeUnknownOutcome, true},
		{502, ``, CodeUnknownOutcome, true},
		{429, `{"error":"x","code":"OVERLOADED","retry_after_ms":7}`, CodeExhausted, true},
		{409, `{"error":"x","code":"LEASE_LOST"}`, CodeLeaseLost, false},
		{400, `{"error":"x","code":"QUEUE_DRAINING"}`, CodeConflict, false},
		{413, `null`, CodeTooLarge, false},
		{418, `[]`, CodeInternal, false},
		{500, `{}`, CodeInternal, false},
	} {
		e := errorFromHTTP(c.status, http.Header{}, []byte(c.body))
		if e.Code != c.code || e.Retryable != c.retry || e.Message == "" {
			t.Errorf("%d %s: %+v", c.status, c.body, e)
		}
	}
	if e := errorFromHTTP(429, http.Header{"Retry-After": {"0.003"}}, nil); e.RetryAfter != 3*time.Millisecond {
		t.Errorf("retry after %s", e.RetryAfter)
	}
	if d := retryAfter(http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"100"}}); d != 100*time.Millisecond {
		t.Errorf("an RPC: retry after %s", d)
	}
	if e := errorFromHTTP(429, http.Header{"Retry-After": {time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)}}, nil); e.RetryAfter < 15*time.Second || e.RetryAfter > 20*time.Second {
		t.Errorf("retry after a date: %s", e.RetryAfter)
	}
}

func TestShouldRetry_OverloadIsNotAQuota(t *testing.T) {
	t.Parallel()
	if !shouldRetry(&Error{Code: CodeExhausted, RetryAfter: 5 * time.Millisecond}, true) {
		t.Error("back-pressure of 5 ms was taken for a refusal")
	}
	if shouldRetry(&Error{Code: CodeExhausted, RetryAfter: time.Second}, true) || shouldRetry(&Error{Code: CodeExhausted}, true) {
		t.Error("a quota was retried")
	}
	if shouldRetry(&Error{Code: CodeUnknownOutcome, Retryable: true}, false) {
		t.Error("a call that is not repeatable was repeated after an unknown outcome")
	}
}

func TestFullJitter_SpreadsFromZeroToABound(t *testing.T) {
	t.Parallel()
	const first, most = 50 * time.Millisecond, 2 * time.Second
	for try, bound := range map[int]time.Duration{0: first, 3: 8 * first, 6: most, 19: most, 20: most, 1000: most} {
		var low, high int
		for range 2000 {
			d := fullJitter(try, first, most)
			if d < 0 || d > bound {
				t.Fatalf("try %d: %s is outside 0..%s", try, d, bound)
			}
			if d < bound/4 {
				low++
			}
			if d > bound*3/4 {
				high++
			}
		}
		if low < 300 || high < 300 {
			t.Errorf("try %d: %d of 2000 in the lowest quarter, %d in the highest", try, low, high)
		}
	}
}

func TestSameOrigin_ForeignRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	c := newClient(t, s, WithHTTPClient(&http.Client{Transport: redirecting{}}))
	if _, err := c.Info(t.Context()); !errors.Is(err, errForeignRedirect) {
		t.Errorf("info: %v", err)
	}
}

// redirecting answers every request with a redirect to another host.
type redirecting struct{}

func (redirecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == "elsewhere.example" {
		return nil, errors.New("the redirect was followed")
	}
	return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"http://elsewhere.example/x"}}, Body: http.NoBody, Request: r}, nil
}
