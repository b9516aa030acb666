package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// raw sends bytes on a new connection and returns everything until the server
// closes it or falls silent.
func raw(t *testing.T, r *rig, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	data, _ := io.ReadAll(conn) // Ends by the deadline where the server keeps the connection.
	return string(data)
}

func TestWire_AmbiguousRequestsReachNoNodeTwice(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	key := "X-API-Key: " + r.acme.key.Reveal() + "\r\n"
	hidden := "GET /api/v1/hidden HTTP/1.1\r\nHost: x\r\n" + key + "\r\n"
	for name, c := range map[string]struct {
		text   string
		status string // Of the first answer.
		served int64  // Requests that may reach the node.
	}{
		"content length and transfer encoding": {
			// Allowed by RFC 9112 6.1 if the length is ignored and the connection closed.
			"POST /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "", 2,
		},
		"two content lengths": {
			"POST /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 0\r\nContent-Length: 9\r\n\r\n", "400", 0,
		},
		"unknown transfer encoding": {
			"POST /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "Transfer-Encoding: xchunked\r\n\r\n", "501", 0,
		},
		"two hosts": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\nHost: y\r\n" + key + "Connection: close\r\n\r\n", "400", 0,
		},
		"no host": {
			"GET /api/v1/a HTTP/1.1\r\n" + key + "Connection: close\r\n\r\n", "400", 0,
		},
		"folded header": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "X-A: b\r\n X-Corvo-Grants: ____________________9w\r\nConnection: close\r\n\r\n", "200", 1,
		},
		"space before colon": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "X-Corvo-Grants : ____________________9w\r\nConnection: close\r\n\r\n", "400", 0,
		},
		"carriage return in a header": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "X-A: b\rX-Corvo-Grants: ____________________9w\r\nConnection: close\r\n\r\n", "400", 0,
		},
		"absolute form, other tenant": {
			"GET http://beta." + testDomain + "/api/v1/a HTTP/1.1\r\nHost: acme." + testDomain + "\r\n" + key + "Connection: close\r\n\r\n", "403", 0,
		},
		"connect": {
			"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + key + "Connection: close\r\n\r\n", "400", 0,
		},
		"upgrade to h2c is ignored": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", "200", 1,
		},
		"host is not a header value": {
			"GET /api/v1/a HTTP/1.1\r\nHost: a b\r\n" + key + "Connection: close\r\n\r\n", "400", 0,
		},
		"huge header": {
			"GET /api/v1/a HTTP/1.1\r\nHost: x\r\n" + key + "X-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "431", 0,
		},
	} {
		before := r.up[0].served.Load()
		got := raw(t, r, c.text)
		if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) {
			t.Errorf("%s: %.200q", name, got)
		}
		if n := r.up[0].served.Load() - before; n > c.served {
			t.Errorf("%s: %d requests reached the node", name, n)
		}
		if strings.Contains(got, "Switching Protocols") || strings.Contains(got, `"Principal":"cell:`) {
			t.Errorf("%s: %.200q", name, got)
		}
	}
}

func TestWire_SlowHeadersAreGivenUp(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/v1/a HTTP/1.1\r\nHost: x\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(readHeaderTimeout + 3*time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatalf("the connection stayed: %v", err)
	}
}

// A body that stops half-way holds a connection of the client, nothing of a node,
// and ends.
func TestWire_StuckClientsAreEnded(t *testing.T) {
	t.Parallel()
	clock := &movableClock{}
	r := startRig(t, rigOptions{options: func(o *Options) { o.Now = clock.now }})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v1/a HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: 10\r\n\r\nabc", r.acme.key.Reveal())
	waiting := func() bool {
		r.proxy.calls.mu.Lock()
		defer r.proxy.calls.mu.Unlock()
		for c := range r.proxy.calls.open {
			if c.readingSince.Load() != 0 {
				return true
			}
		}
		return false
	}
	eventually.True(t, patience, "the body is waited for", waiting)
	before := r.up[0].served.Load()
	clock.ahead.Store(int64(stuckAfter + time.Second))
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if r.up[0].served.Load() != before {
		t.Error("half a body reached the node")
	}
}

// A client that reads nothing is ended, and with it the node's side.
func TestWire_ClientThatReadsNothingIsEnded(t *testing.T) {
	t.Parallel()
	clock := &movableClock{}
	r := startRig(t, rigOptions{options: func(o *Options) { o.Now = clock.now }})
	ended := make(chan struct{})
	r.up[0].does(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	resp := r.open(r.h2c, "/api/v1/events")
	defer resp.Body.Close()
	var since int64
	eventually.True(t, patience, "the write is stuck", func() bool {
		r.proxy.calls.mu.Lock()
		defer r.proxy.calls.mu.Unlock()
		for c := range r.proxy.calls.open {
			was := since
			since = c.writingSince.Load()
			return since != 0 && since == was && time.Since(time.Unix(0, since)) > 50*time.Millisecond
		}
		return false
	})
	clock.ahead.Store(int64(stuckAfter + time.Second))
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the node still sends")
	}
	eventually.True(t, patience, "the handler is free", func() bool {
		r.proxy.calls.mu.Lock()
		defer r.proxy.calls.mu.Unlock()
		return len(r.proxy.calls.open) == 0
	})
}
