package node

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
)

// Bodies of calls that wait for their turn fill their own windows and not that of the
// connection, which a proxy uses for all tenants.
func TestServer_BodiesThatWaitHoldNobody(t *testing.T) {
	t.Parallel()
	const waiting, size = 100, 1 << 20
	release, held := make(chan struct{}), make(chan struct{}, waiting)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/waits" {
			held <- struct{}{}
			<-release
		}
		_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's error.
	})
	srv := newHTTPServer(handler, nil, connections.New(100_000, nil), slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }() // It ends with Close.
	t.Cleanup(func() { _ = srv.Close() })
	transport := forward.NewTransport(forward.TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	post := func(path string, body []byte, limit time.Duration) error {
		client := &http.Client{Transport: transport, Timeout: limit}
		resp, err := client.Post("http://"+l.Addr().String()+path, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	var all sync.WaitGroup
	for range waiting {
		all.Go(func() {
			if err := post("/waits", make([]byte, size), time.Minute); err != nil {
				t.Errorf("a call that waited: %v", err)
			}
		})
	}
	for i := range waiting {
		select {
		case <-held:
		case <-time.After(20 * time.Second):
			t.Fatalf("only %d of %d calls came", i, waiting)
		}
	}
	if err := post("/next", make([]byte, 100<<10), 5*time.Second); err != nil {
		t.Errorf("beside %d bodies that nobody reads: %v", waiting, err)
	}
	close(release)
	all.Wait()
}
