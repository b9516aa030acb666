package callstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// BenchmarkCall is 50 callers that ask for an echo, over a connection for calls and over HTTP/2.
func BenchmarkCall(b *testing.B) {
	echo := func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		_, _ = w.Write(body)
	}
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	h2.Config.Protocols = new(http.Protocols)
	h2.Config.Protocols.SetUnencryptedHTTP2(true)
	h2.Start()
	defer h2.Close()
	over := &http.Transport{Protocols: h2.Config.Protocols}
	defer over.CloseIdleConnections()
	r := newRig(b, echo)
	for name, c := range map[string]struct {
		url string
		t   http.RoundTripper
	}{"callstream": {r.http.URL, r.transport}, "http2": {h2.URL, over}} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(25)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				payload := bytes.Repeat([]byte("x"), 200)
				for pb.Next() {
					q, err := http.NewRequest("POST", c.url+"/api/v1/enqueue", bytes.NewReader(payload))
					if err != nil {
						b.Error(err)
						return
					}
					for i := range 12 {
						q.Header.Set("X-Corvo-Header-"+strconv.Itoa(i), strconv.Itoa(int(time.Now().UnixNano())))
					}
					resp, err := c.t.RoundTrip(q)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		})
	}
}
