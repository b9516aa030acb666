package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// Every node would refuse the whole request, and the proxy would take the nodes for
// dead.
func TestStrict_TooManyHeadersAre431AndNoNodeIsLost(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	for name, client := range map[string]*http.Client{"HTTP/1": r.http1, "h2c": r.h2c} {
		for what, fill := range map[string]func(http.Header){
			"900 headers": func(h http.Header) {
				for i := range 900 {
					h.Set(fmt.Sprintf("X-A-%d", i), "b")
				}
			},
			"one of 21 KiB": func(h http.Header) { h.Set("X-A", strings.Repeat("b", 21<<10)) },
		} {
			a := r.ask(client, "GET", "/api/v1/queues", "", func(req *http.Request) { withKey(r.acme.key)(req); fill(req.Header) })
			if a.status != 431 || !strings.Contains(a.body, `"code":"HEADERS_TOO_LARGE"`) {
				t.Errorf("%s, %s: %d %s", name, what, a.status, a.body)
			}
		}
		fits := r.ask(client, "GET", "/api/v1/queues", "", func(req *http.Request) {
			withKey(r.acme.key)(req)
			for i := range 180 {
				req.Header.Set(fmt.Sprintf("X-A-%d", i), "b")
			}
		})
		if fits.status != 200 {
			t.Errorf("%s: 180 headers: %d %s", name, fits.status, fits.body)
		}
	}
	for _, n := range *r.proxy.nodes.list.Load() {
		if !n.answers.Load() {
			t.Errorf("node %s was taken for lost", n.id)
		}
	}
}

// A connection whose client opens and resets many requests is closed.
func TestStrict_AConnectionOfResetsIsEnded(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.up[0].faults.Decide(func(string, int) faulttest.Fate { return faulttest.Fate{Hang: true} })
	var dialled atomic.Int64
	client := newClient(t, true)
	transport, _ := client.Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	give := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", r.base+"/api/v1/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		withKey(r.acme.key)(req)
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	for n := 0; dialled.Load() < 2; n++ {
		if n > 4*resetsMax {
			t.Fatalf("%d requests were given up on one connection", n)
		}
		give()
	}
}

// A chunked body may have come with a length, too: nothing after it counts as a request.
func TestStrict_NothingFollowsABodyInChunks(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	key := "X-API-Key: " + r.acme.key.Reveal() + "\r\n"
	got := raw(t, r, "POST /api/v1/a HTTP/1.1\r\nHost: x\r\n"+key+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
		"GET /api/v1/hidden HTTP/1.1\r\nHost: x\r\n"+key+"\r\n")
	if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.Contains(got, "Connection: close") || r.up[0].served.Load() > 1 {
		t.Errorf("%d requests were served: %s", r.up[0].served.Load(), got)
	}
}

func TestStrict_EveryRefusalSaysNosniff(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for _, path := range []string{"/api/v1/queues", "/nowhere", "/api/v1//x", "/healthz", "/t/acme/api/v1/enqueue", "/corvo.v1.WorkerService/Enqueue"} {
		if a := r.ask(r.http1, "GET", path, "", nil); a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
}

// A stream with a bad key is refused before the client sends anything.
func TestStream_ABadKeyFailsAtTheOpen(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for name, client := range map[string]*http.Client{"HTTP/1": r.http1, "h2c": r.h2c} {
		for _, kind := range []string{"application/grpc", "application/connect+proto", "application/grpc-web+proto"} {
			body, frames := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), "POST", r.base+"/corvo.v1.WorkerService/StreamLifecycle", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("Te", "trailers")
			req.Header.Set("X-API-Key", "corvo_dp_nonsense")
			done := make(chan string, 1)
			go func() {
				resp, err := client.Do(req)
				if err != nil {
					done <- err.Error()
					return
				}
				data, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if kind == "application/grpc" && client == r.h2c && (resp.Header.Get("Grpc-Status") != "16" || len(resp.Trailer) > 0) {
					t.Errorf("a client that waits for headers takes it for open: %v, then %v", resp.Header, resp.Trailer)
				}
				done <- fmt.Sprint(resp.StatusCode, resp.Header, resp.Trailer, string(data))
			}()
			select {
			case got := <-done:
				if !strings.Contains(strings.ToLower(got), "unauthenticated") && !strings.Contains(got, "Grpc-Status:[16]") && !strings.Contains(got, "grpc-status: 16") {
					t.Errorf("%s %s: %s", name, kind, got)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s %s: no answer before the first frame", name, kind)
			}
			_ = frames.Close()
		}
	}
}
