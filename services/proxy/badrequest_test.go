package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// No handler sees a path with a broken escape: net/http answers by itself, in plain text.
func TestProblemListener_UnreadableRequestsGetProblemDetails(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for what, request := range map[string]string{
		"a broken escape": "GET /api/v1/queues/%zz HTTP/1.1\r\nHost: corvo.test\r\n\r\n",
		"a cut escape":    "GET /acme/default/jobs/100% HTTP/1.1\r\nHost: corvo.test\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var said wire.Problem
		err = json.NewDecoder(res.Body).Decode(&said)
		if res.StatusCode != 400 || err != nil || said.Code != "VALIDATION_ERROR" || !strings.Contains(said.Error, "%25") || said.RequestID == "" {
			t.Errorf("%s: %d %v %+v", what, res.StatusCode, err, said)
		}
		if kind := res.Header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%s: content type %q", what, kind)
		}
	}
}

func TestServePublic_GoesOnAfterAnAcceptThatFailed(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- ServePublic(srv, faulttest.ShortOfMemory(ln), slog.New(slog.DiscardHandler)) }()
	resp, err := newClient(t, false).Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_ = srv.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("ended with %v", err)
	}
}
