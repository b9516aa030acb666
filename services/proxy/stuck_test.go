package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

const soonStuck = 200 * time.Millisecond

// listening serves h as a public listener does.
func listening(t *testing.T, h http.Handler) (srv *http.Server, base string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	srv = &http.Server{Handler: h, Protocols: &p}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return srv, "http://" + ln.Addr().String()
}

// endsOrdered fails unless the server has nothing under way any more, soon.
func endsOrdered(t *testing.T, srv *http.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Errorf("a client that reads nothing holds up the shutdown: %v", err)
	}
}

func TestEndStuck_AHandlerWhoseClientReadsNothingIsFree(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]func(t *testing.T, base string){
		"HTTP/2": func(t *testing.T, base string) { faulttest.Unread(t, base, "/", 1) },
		"HTTP/1": func(t *testing.T, base string) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			srv, base := listening(t, strict(EndStuck(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, 64<<20)) // More than two kernels buffer.
				ended <- err
			}), soonStuck), soonStuck))
			asks(t, base)
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the client took everything")
				}
			case <-time.After(patience):
				t.Fatal("the handler still waits for a client that reads nothing")
			}
			endsOrdered(t, srv)
		})
	}
}

// A small answer is still in a buffer when its handler returns.
func TestStrict_ASmallAnswerThatIsNotReadEndsToo(t *testing.T) {
	t.Parallel()
	handled := make(chan struct{}, 1)
	srv, base := listening(t, strict(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "small")
		handled <- struct{}{}
	}), soonStuck))
	faulttest.Unread(t, base, "/", 1)
	<-handled
	endsOrdered(t, srv)
}

func TestEndStuck_AStreamMayBeSilentForLong(t *testing.T) {
	t.Parallel()
	_, base := listening(t, strict(EndStuck(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 2 {
			_, _ = io.WriteString(w, "data: 1\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(3 * soonStuck) // The time is what is tested.
		}
		_, _ = io.WriteString(w, "data: 2\n")
	}), soonStuck), soonStuck))
	for _, h2 := range []bool{false, true} {
		var p http.Protocols
		p.SetHTTP1(!h2)
		p.SetUnencryptedHTTP2(h2)
		tr := &http.Transport{Protocols: &p, MaxConnsPerHost: 1}
		t.Cleanup(tr.CloseIdleConnections)
		for range 2 { // The second request comes long after the first one's last deadline was set.
			resp, err := (&http.Client{Transport: tr}).Get(base)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(text) != "data: 1\ndata: 1\ndata: 2\n" {
				t.Errorf("HTTP/2 %v: read %q, %v", h2, text, err)
			}
		}
	}
}

// The deadline of one answer is not that of the next one on the same connection.
func TestStrict_TheNextRequestHasAllItsTime(t *testing.T) {
	t.Parallel()
	_, base := listening(t, strict(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			time.Sleep(2 * soonStuck) // The time is what is tested.
		}
		_, _ = io.WriteString(w, "done")
	}), soonStuck))
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	for _, path := range []string{"/", "/late"} {
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != "done" {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
}
