package rig

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Balancer spreads connections over addresses, as a TCP balancer in front of proxies
// does: it does not look at the bytes, and tries the next address when one does not
// accept a connection.
type Balancer struct {
	Address string

	backends []string
	next     atomic.Int64
	listener net.Listener
	carrying sync.WaitGroup
}

// StartBalancer runs until the test ends.
func StartBalancer(t testing.TB, backends ...string) *Balancer {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &Balancer{Address: l.Addr().String(), backends: backends, listener: l}
	b.carrying.Go(b.accept)
	t.Cleanup(func() {
		_ = l.Close() // Ends accept; connections end with their processes.
	})
	return b
}

func (b *Balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.carrying.Go(func() { b.carry(client) })
	}
}

func (b *Balancer) carry(client net.Conn) {
	defer client.Close()
	first := int(b.next.Add(1))
	for i := range b.backends {
		backend, err := net.DialTimeout("tcp", b.backends[(first+i)%len(b.backends)], time.Second)
		if err != nil {
			continue
		}
		defer backend.Close()
		var both sync.WaitGroup
		both.Go(func() { copyHalf(backend, client) })
		both.Go(func() { copyHalf(client, backend) })
		both.Wait()
		return
	}
}

// copyHalf copies one direction, and passes on its end.
func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from) // An error is an end like another.
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // Closed by the other side already, or soon.
	}
}
