package command

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// What is late is cut, as the proxy does it, and has ended before anybody closes the database.
func TestControlFront_ALateRequestIsCutAndIsNoError(t *testing.T) {
	t.Parallel()
	came, ended := make(chan struct{}), make(chan struct{})
	front := newControlFront(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
		time.Sleep(50 * time.Millisecond) // As long as a transaction may take to be given up.
		close(ended)
	}), nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = front.Serve(ln) }() // Ends below.
	go func() {
		if resp, err := http.Get("http://" + ln.Addr().String()); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-came
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := front.end(ctx); err != nil {
		t.Errorf("a shutdown that was cut off is an error: %v", err)
	}
	select {
	case <-ended:
	default:
		t.Error("a request is still under way")
	}
}
