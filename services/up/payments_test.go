package up

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// A page for one person must not end the service for all.
func TestServeLocal_GoesOnAfterAnAcceptThatFailed(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{log: slog.New(slog.DiscardHandler), failed: make(chan error, 1)}
	s.life, s.end = context.WithCancel(t.Context())
	s.serveLocal("page", faulttest.ShortOfMemory(ln), http.NotFoundHandler())
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatalf("%v; the service ends with %v", err, <-s.failed)
	}
	_ = resp.Body.Close()
	s.end()
	s.loops.Wait()
}
