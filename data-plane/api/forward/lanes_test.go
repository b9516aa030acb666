package forward

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestLanes_StreamsAndCallsShareNoConnection(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // Guards from.
	from := map[string]string{}
	_, target := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.URL.Path] = r.RemoteAddr
	}))
	lanes := NewLanes(TransportOptions{})
	t.Cleanup(lanes.CloseIdleConnections)
	send := func(path string, length int64) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.String()+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		resp, err := lanes.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, round := range [...]string{"/1", "/2"} {
		send("/call"+round, 4)
		send("/stream"+round, -1)
	}
	if from["/call/1"] == from["/stream/1"] {
		t.Errorf("a call and a stream share a connection: %v", from)
	}
	if from["/call/1"] != from["/call/2"] || from["/stream/1"] != from["/stream/2"] {
		t.Errorf("a lane does not keep its connection: %v", from)
	}
}
