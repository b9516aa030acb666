package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Clients that open connections and say nothing keep nobody out, and cut no call that waits.
func TestConnections_IdleOnesMakeRoomAndWaitingCallsStay(t *testing.T) {
	t.Parallel()
	const most = 64
	r := startRig(t, rigOptions{options: func(o *Options) { o.Limits.ConnectionsMax = most }})
	var parked atomic.Int64
	answer := make(chan struct{})
	r.up[0].does(func(w http.ResponseWriter, _ *http.Request) {
		parked.Add(1)
		<-answer
		w.WriteHeader(http.StatusNoContent)
	})
	host := strings.TrimPrefix(r.base, "http://")
	dial := func() net.Conn {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	waiting := dial()
	body := `{"queues":["q"],"worker_id":"w","timeout":60}`
	if _, err := fmt.Fprintf(waiting, "POST /api/v1/fetch HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s", host, r.acme.key.Reveal(), len(body), body); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, patience, "the fetch is parked", func() bool { return parked.Load() == 1 })
	for range 4 * most {
		dial()
	}
	eventually.True(t, patience, "the silent ones are bounded", func() bool {
		open, closed := r.proxy.connections.Counts()
		return open <= most && closed > 3*most
	})
	r.state.apply(r.up[0].node()) // A proxy confirms a change at once.
	eventually.True(t, patience, "the cell knows", func() bool {
		r.state.mu.Lock()
		defer r.state.mu.Unlock()
		said := r.state.confirmed[r.proxy.id]
		return said.GetConnections() > 0 && said.GetConnectionsClosed() > 3*most
	})
	close(answer)
	resp, err := http.ReadResponse(bufio.NewReader(waiting), nil)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("the call that waited: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

// Connections of both protocols, in clear text and over TLS, are idle once their calls are
// answered, and the only ones to give way.
func TestConnections_IdleIsSeenInEveryProtocol(t *testing.T) {
	t.Parallel()
	const most, clients = 8, 40
	cert, pool := selfSigned(t)
	for _, secure := range []bool{false, true} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %v HTTP/2 %v", secure, h2), func(t *testing.T) {
				t.Parallel()
				r := startRig(t, rigOptions{options: func(o *Options) {
					o.Limits.ConnectionsMax = most
					if secure {
						o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
					}
				}})
				if secure {
					r.base = strings.Replace(r.base, "http://", "https://", 1)
				}
				for range clients {
					var protocols http.Protocols
					protocols.SetHTTP1(!h2)
					protocols.SetHTTP2(h2 && secure)
					protocols.SetUnencryptedHTTP2(h2 && !secure)
					tr := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "acme." + testDomain, MinVersion: tls.VersionTLS12}}
					t.Cleanup(tr.CloseIdleConnections)
					a := r.ask(&http.Client{Transport: tr}, http.MethodGet, "/api/v1/queues", "", withKey(r.acme.key))
					if a.status != http.StatusOK {
						t.Fatalf("%d", a.status)
					}
				}
				if open, closed := r.proxy.connections.Counts(); open > most || closed < clients-most {
					t.Errorf("%d open, %d closed", open, closed)
				}
			})
		}
	}
}
