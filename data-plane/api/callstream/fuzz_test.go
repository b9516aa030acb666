package callstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Whatever comes in place of a message, it is read or refused; what was read is written the same.
func FuzzMessage(f *testing.F) {
	m := message{texts: [3]string{"POST", "/a?b", "host"}, headers: http.Header{"A": {"1", "2"}, "B-C": {""}}}
	whole := append(m.append(nil), "body"...)
	for i := range whole {
		f.Add(whole[:i+1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		body, err := m.read(b)
		if err != nil {
			return
		}
		body2, err := again.read(append(m.append(nil), body...))
		if err != nil || body2 != body || again.texts != m.texts || fmt.Sprint(again.headers) != fmt.Sprint(m.headers) {
			t.Errorf("%v, then %v: %v", m, again, err)
		}
	})
}

// Whatever a client sends, a server answers calls and holds no more than it should.
func FuzzServer(f *testing.F) {
	m := message{texts: [3]string{"GET", "/", "host"}, headers: http.Header{"A": {"1"}}}
	call := end(m.append(begin(kindCall, 1, 0)))
	f.Add(slices.Concat(call, end(begin(kindCancel, 1, 0)), end(append(begin(kindMore, 1, 0), 5)), end(begin(kindPing, 0, 0)), end(begin(kindLeave, 0, 0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		go func() { _, _ = client.Write(b); _ = client.Close() }()
		s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(w, q.Body) }), slog.New(slog.DiscardHandler))
		s.serve(context.Background(), server, "peer", newReader(server))
		_ = server.Close()
	})
}

// Whatever a server sends, each call of a client ends.
func FuzzClient(f *testing.F) {
	m := message{texts: [3]string{"200"}, headers: http.Header{"A": {"1"}}}
	f.Add(end(append(m.append(begin(kindWhole, 1, 0)), "body"...)))
	f.Add(slices.Concat(end(m.append(begin(kindHead, 1, 0))), end(append(begin(kindData, 1, 0), "abc"...)), end((&message{}).append(begin(kindEnd, 1, 0)))))
	f.Add(slices.Concat(end(m.append(begin(kindHead, 1, 0))), end(begin(kindLeave, 0, 0)), end(begin(kindBroken, 1, 0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		c := &connection{in: frames{from: newReader(client)}, out: &pipe{conn: client}, open: make(map[uint64]*pending), over: make(chan struct{})}
		q, err := http.NewRequest("GET", "http://host/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		called := make(chan struct{})
		go func() {
			defer close(called)
			if resp, err := c.call(q); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		eventually.True(t, patience, "the call is under way", func() bool { return c.find(1) != nil })
		go func() { _, _ = server.Write(b); _ = server.Close() }()
		c.read()
		<-called
	})
}
