package connections

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Backoff after an accept that failed.
const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// Patient returns ln as a listener of which Accept fails only once it is closed. A server ends at
// the first accept that fails, and net/http at most of them; but what makes one fail passes, as
// memory that the kernel lacks, a rule of the firewall or a network that is down do: see accept(2).
func Patient(ln net.Listener, logger *slog.Logger) net.Listener {
	return &patient{Listener: ln, logger: logger, closed: make(chan struct{})}
}

type patient struct {
	net.Listener
	logger *slog.Logger
	once   sync.Once // Guards the closing of closed.
	closed chan struct{}
}

// Accept implements net.Listener.
func (p *patient) Accept() (net.Conn, error) {
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		conn, err := p.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) || p.isClosed() {
			return conn, err
		}
		p.logger.Error("a listener can't accept", "address", p.Addr().String(), "err", err, "retry_in", backoff)
		select {
		case <-p.closed:
			return nil, net.ErrClosed
		case <-time.After(backoff):
		}
	}
}

func (p *patient) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Close implements net.Listener.
func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}
