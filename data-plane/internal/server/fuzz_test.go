package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// FuzzEndpoints sends any body to any route: no panic, no 5xx, and nothing done
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
	router := newRouter(Placement{})
	s := New(quiet(), time.Now, router, NewOpen(nsA), Options{Transport: http.DefaultTransport})
	f.Fuzz(func(t *testing.T, n uint8, id string, body []byte) {
		rt := routes[int(n)%len(routes)]
		jobs := newMemory()
		router.set(Placement{Local: instant{jobs}})
		segment := strings.NewReplacer("/", "%2F", "?", "%3F", "#", "%23", "%", "%25", " ", "%20").Replace(id)
		target := strings.NewReplacer("{id}", segment, "{name}", segment).Replace(rt.Pattern)
		r, err := http.NewRequest(rt.Method, "http://x"+target, strings.NewReader(string(body)))
		if err != nil {
			return // Not an address.
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		calls, _ := jobs.counts()
		switch {
		case w.Code >= 500 && w.Code != http.StatusNotImplemented:
			t.Fatalf("%s %s %q: %d %s", rt.Method, target, body, w.Code, w.Body)
		case w.Code >= 400 && calls > 0:
			t.Fatalf("%s %s %q: refused with %d, but did %d things", rt.Method, target, body, w.Code, calls)
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
	router := newRouter(Placement{})
	s := New(quiet(), time.Now, router, NewOpen(nsA), Options{Transport: http.DefaultTransport})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req frameIn
		if proto.Unmarshal(b, &req) != nil && protojson.Unmarshal(b, &req) != nil {
			return
		}
		router.set(Placement{Local: instant{newMemory()}})
		who, _ := s.auth.Authenticate(httptest.NewRequest("POST", "/", nil))
		c := &call{s: s, w: httptest.NewRecorder(), r: httptest.NewRequest("POST", "/", nil), who: who, start: time.Now()}
		st := s.newStream(c, nil)
		st.ending.Store(true)
		close(st.ended) // No pauses.
		defer st.cancel()
		r := st.answer(&req)
		if r.msg.GetRequestId() != req.GetRequestId() {
			t.Fatalf("reply %d to %d", r.msg.GetRequestId(), req.GetRequestId())
		}
		if strings.Contains(r.msg.GetError(), "internal error") {
			t.Fatalf("%v: %s", &req, r.msg.GetError())
		}
		if n := len(req.GetAcks()); n <= 512 && len(r.msg.GetAckOutcomes()) != n {
			t.Fatalf("%d outcomes of %d acks", len(r.msg.GetAckOutcomes()), n)
		}
	})
}
