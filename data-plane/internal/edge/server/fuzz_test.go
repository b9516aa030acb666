package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

// impatient is a clock on which every fetch has waited long enough.
func impatient() func() time.Time {
	var calls atomic.Int64
	began := time.Now()
	return func() time.Time { return began.Add(time.Duration(calls.Add(1)) * queue.WaitMax) }
}

// FuzzEndpoints sends any body to any route: no panic, no 5xx, and no job made
// when the answer is a refusal.
func FuzzEndpoints(f *testing.F) {
	routes := Routes()
	for i := range routes {
		for _, body := range []string{
			"", "{}", "[]", `{"queue":"q","payload":{"a":[1]},"tags":{"k":"v"},"max_retries":3,"scheduled_at":"2030-01-01T00:00:00Z"}`,
			`{"jobs":[{"queue":"q"}]}`, `{"queues":["q"],"count":3,"wait":0,"lease":"60s"}`, `{"acks":[{"job_id":"` + jobNumber(1).String() + `"}]}`,
			`{"jobs":{"` + jobNumber(1).String() + `":{"progress":1}}}`, `{"error":"x","release":true}`,
			`{"requestId":"1","queues":["q"],"fetchCount":1,"enqueues":[{"queue":"q"}]}`,
			`{"timeout":1e300,"wait":-1,"lease":"-1s"}`, `{"retry_base_delay_ms":9223372036854775807}`,
		} {
			f.Add(uint8(i), jobNumber(1).String(), []byte(body))
		}
	}
	jobs := startLocal(f)
	s := New(quiet(), impatient(), newRouter(jobs.place()), NewOpen(nsA), Options{Transport: http.DefaultTransport})
	s.events = noEvents
	f.Fuzz(func(t *testing.T, n uint8, id string, body []byte) {
		rt := routes[int(n)%len(routes)]
		before := len(jobs.ids())
		segment := strings.NewReplacer("/", "%2F", "?", "%3F", "#", "%23", "%", "%25", " ", "%20").Replace(id)
		target := strings.NewReplacer("{id}", segment, "{name}", segment).Replace(rt.Pattern)
		r, err := http.NewRequest(rt.Method, "http://x"+target, strings.NewReader(string(body)))
		if err != nil {
			return // Not an address.
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		made := len(jobs.ids()) - before
		switch {
		case w.Code >= 500 && w.Code != http.StatusNotImplemented:
			t.Fatalf("%s %s %q: %d %s", rt.Method, target, body, w.Code, w.Body)
		case w.Code >= 400 && made > 0:
			t.Fatalf("%s %s %q: refused with %d, but made %d jobs", rt.Method, target, body, w.Code, made)
		}
		if _, err := io.ReadAll(w.Body); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzFrame handles any frame, as protobuf and as JSON.
func FuzzFrame(f *testing.F) {
	seed := &frameIn{
		RequestId: 1, Queues: []string{"q"}, FetchCount: 1, Acks: acks("x", jobNumber(1).String()), Enqueues: enqueues("q", "/"),
		Cancels: []uint64{1}, WaitMs: proto.Int64(-1), LeaseDuration: -5,
	}
	bin, _ := proto.Marshal(seed)
	text, _ := protojson.Marshal(seed)
	f.Add(bin)
	f.Add(text)
	jobs := startLocal(f)
	s := New(quiet(), impatient(), newRouter(jobs.place()), NewOpen(nsA), Options{Transport: http.DefaultTransport})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req frameIn
		if proto.Unmarshal(b, &req) != nil && protojson.Unmarshal(b, &req) != nil {
			return
		}
		who, _ := s.auth.Authenticate(httptest.NewRequest("POST", "/", nil))
		c := &call{s: s, w: httptest.NewRecorder(), r: httptest.NewRequest("POST", "/", nil), who: who, start: time.Now()}
		st := c.stream(nil)
		st.End() // No pauses.
		defer st.Close()
		r := st.Answer(&req)
		if r.Msg.GetRequestId() != req.GetRequestId() {
			t.Fatalf("reply %d to %d", r.Msg.GetRequestId(), req.GetRequestId())
		}
		if strings.Contains(r.Msg.GetError(), "internal error") {
			t.Fatalf("%v: %s", &req, r.Msg.GetError())
		}
		if n := len(req.GetAcks()); n <= 512 && len(r.Msg.GetAckOutcomes()) != n {
			t.Fatalf("%d outcomes of %d acks", len(r.Msg.GetAckOutcomes()), n)
		}
	})
}

// FuzzQueries sends any query string to any route that reads one, with any body: no
// panic, no 5xx, and no job made when the answer is a refusal.
func FuzzQueries(f *testing.F) {
	var routes []Route
	for _, rt := range Routes() {
		if rt.query != nil && !rt.events {
			routes = append(routes, rt)
		}
	}
	for i := range routes {
		for _, q := range []string{
			"", "priority=high&unique_key=u&unique_period=60&max_retries=3&scheduled_at=2030-01-01T00:00:00Z&tags=a:b,c:d&idempotency_key=k",
			"queue=q&state=pending,active&tag=a:b&order=asc&limit=3&cursor=AA", "confirm=true", "created_after=2030-01-01T00:00:00Z",
			"%zz", "a;b", "tags=%ff:%00", "max_retries=%2B1", "expire_after=-1s&group=g", "limit=9223372036854775808",
		} {
			f.Add(uint8(i), q, []byte(`{"a":1}`))
			f.Add(uint8(i), q, []byte("text \x00 \xff"))
		}
	}
	jobs := startLocal(f)
	s := New(quiet(), impatient(), newRouter(jobs.place()), NewOpen(nsA), Options{Transport: http.DefaultTransport})
	f.Fuzz(func(t *testing.T, n uint8, query string, body []byte) {
		rt := routes[int(n)%len(routes)]
		before := len(jobs.ids())
		target := strings.NewReplacer("{id}", jobNumber(1).String(), "{name}", "q").Replace(rt.Pattern)
		r := httptest.NewRequest(rt.Method, "http://x"+target, bytes.NewReader(body))
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		made := len(jobs.ids()) - before
		switch {
		case w.Code >= 500 && w.Code != http.StatusNotImplemented:
			t.Fatalf("%s %s?%q: %d %s", rt.Method, target, query, w.Code, w.Body)
		case w.Code >= 400 && made > 0:
			t.Fatalf("%s %s?%q: refused with %d, but made %d jobs", rt.Method, target, query, w.Code, made)
		case !utf8.Valid(w.Body.Bytes()):
			t.Fatalf("%s %s?%q answers what is no text: %q", rt.Method, target, query, w.Body)
		}
	})
}

// FuzzEventFilter reads any filter of events.
func FuzzEventFilter(f *testing.F) {
	f.Add("queues=a,b&job_ids="+jobNumber(1).String()+"&types=started", "7")
	f.Add("last_event_id=18446744073709551616", "")
	f.Fuzz(func(t *testing.T, query, header string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		var d shape.Decoder
		in := eventFilter(&d, q, header)
		if d.Err() == nil && in.After == nil && (header != "" || q.Get("last_event_id") != "") {
			t.Fatalf("%q %q: the place to begin at was lost", query, header)
		}
	})
}

// FuzzWebhookBody: whatever is posted becomes a payload that every reader accepts, or is
// refused.
func FuzzWebhookBody(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"a":1,"a":2}`, "a=b&c=d", "\xff", "\u2028\x00", `"\ud800"`, strings.Repeat("[", 200), "00 \n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, err := webhookJSON(b)
		if err != nil || payload == nil {
			return
		}
		if err := shape.Check(payload); err != nil {
			t.Fatalf("%q became %q: %v", b, payload, err)
		}
		if !json.Valid(b) && shape.Unquote(payload) != string(b) { // Text keeps its line end: a signature may be over it.
			t.Fatalf("%q became %q", b, payload)
		}
	})
}
