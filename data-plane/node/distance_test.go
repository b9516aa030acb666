package node_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// lateConn is a node's end of a connection that delays everything.
type lateConn struct {
	net.Conn
	by *atomic.Int64 // Nanoseconds.
}

func (c lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		time.Sleep(time.Duration(c.by.Load())) // The distance, not a wait for something.
	}
	return n, err
}

type lateListener struct {
	net.Listener
	by *atomic.Int64 // Nanoseconds.
}

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lateConn{c, l.by}, nil
}

// With nodes too far apart no leader lasts. Connections open at once, as through a proxy
// beside the node, so only the answers show the distance.
func TestDistance_ANodeWithoutALeaderSaysThatTheOthersAreTooFarAway(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	var late atomic.Int64
	late.Store(int64(400 * time.Millisecond))
	r.Change = func(_ int, c *node.Config) { c.Raft = lateListener{c.Raft, &late} }
	r.startAndForm()
	var said string
	eventually.True(t, patience, "the reason at /readyz", func() bool {
		res, err := http.Get(r.Places[0].APIURL + "/readyz")
		if err != nil {
			return false
		}
		body, err := io.ReadAll(res.Body)
		if said = string(body); err != nil || res.Body.Close() != nil {
			return false
		}
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(said, "a group has no leader: a round trip to n") &&
			strings.Contains(said, "a heartbeat of 500ms allows 125ms; start all nodes with --heartbeat ")
	})
	if strings.Contains(said, "to n1 takes") {
		t.Errorf("n1 is far from itself: %s", said)
	}
	late.Store(0)
	r.Ready()
}
