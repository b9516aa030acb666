package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// benchServer is a server over a shard in memory.
func benchServer(b *testing.B, auth Authenticator) *Server {
	b.Helper()
	return New(quiet(), time.Now, newRouter(Placement{Local: startLocal(b).Service, Index: 1}), auth, Options{Transport: http.DefaultTransport})
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func BenchmarkEnqueueHTTP(b *testing.B) {
	body := []byte(`{"queue":"mail","payload":{"to":"someone@example.com","subject":"hello","body":"a payload of about one hundred bytes, as the numbers want"},"priority":"high"}`)
	signedHeaders := make(http.Header)
	if err := newSigner(b).Sign(signedHeaders, signed(nsA, "admin"), "/api/v1/enqueue"); err != nil {
		b.Fatal(err)
	}
	for name, auth := range map[string]Authenticator{"open": NewOpen(nsA), "signed": NewSigned(newSigner(b), time.Now, inCell, nil, quiet())} {
		b.Run(name, func(b *testing.B) {
			s := benchServer(b, auth)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/api/v1/enqueue", bytes.NewReader(body))
				for k, v := range signedHeaders {
					r.Header[k] = v
				}
				s.ServeHTTP(&discard{h: make(http.Header)}, r)
			}
		})
	}
}

// BenchmarkStream is the wire alone: frames of one enqueue over one connection.
func BenchmarkStream(b *testing.B) {
	for _, pipelined := range []bool{false, true} {
		b.Run(map[bool]string{false: "lockstep", true: "pipelined"}[pipelined], func(b *testing.B) {
			srv := httptest.NewUnstartedServer(benchServer(b, NewOpen(nsA)))
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
			srv.Start()
			defer srv.Close()
			tr := forward.NewTransport(forward.TransportOptions{})
			defer tr.CloseIdleConnections()
			c := corvov1connect.NewWorkerServiceClient(&http.Client{Transport: tr}, srv.URL)
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				s := c.StreamLifecycle(b.Context())
				for id := uint64(1); pb.Next(); id++ {
					if err := s.Send(&frameIn{RequestId: id, Pipelined: pipelined, Enqueues: enqueues("q")}); err != nil {
						b.Error(err)
						return
					}
					if _, err := s.Receive(); err != nil {
						b.Error(err)
						return
					}
				}
				_ = s.CloseRequest()
				_ = s.CloseResponse()
			})
		})
	}
}

func BenchmarkFrame(b *testing.B) {
	s := benchServer(b, NewOpen(nsA))
	r := httptest.NewRequest("POST", "/", nil)
	who, _ := s.auth.Authenticate(r)
	st := (&call{s: s, w: httptest.NewRecorder(), r: r, who: who, start: time.Now()}).stream(nil)
	defer st.Close()
	ids := make([]string, 64)
	for i := range ids {
		ids[i] = job.ID{byte(i)}.String()
	}
	req := &frameIn{Acks: acks(ids...), FetchCount: 64, Queues: []string{"q"}}
	b.ReportAllocs()
	for b.Loop() {
		st.Answer(req)
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
