package callstream

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/connections"
)

// writeTimeout ends a connection whose other side has stopped reading altogether: nothing of a piece
// of frameMax could be handed over.
const writeTimeout = 10 * time.Second

// pipe is the sending side of a connection. Whoever finds nobody writing writes his own frame:
// a single call waits for no other goroutine. What others add meanwhile is written together.
type pipe struct {
	conn net.Conn

	mu      sync.Mutex // Guards the rest.
	waiting []byte     // Frames for whoever writes.
	spare   []byte     // The buffer that isn't in use.
	writing bool
	last    bool // Nothing is to come.
	err     error
}

// send sends a frame behind those of earlier calls. An error may come too late to know whether
// it was sent, unless it wraps ErrNotSent. Whoever writes for others waits as long as they would.
func (p *pipe) send(frame []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, p.err)
	}
	p.waiting = append(p.waiting, frame...)
	if p.writing {
		return nil
	}
	p.writing = true
	p.write()
	if len(p.waiting) > 0 && p.err == nil {
		go p.drain() // Others don't keep this caller from its own answer.
		return nil
	}
	p.rest()
	return p.err
}

// drain writes until nothing waits.
func (p *pipe) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 && p.err == nil {
		p.write()
	}
	p.rest()
}

// rest: everything is written.
func (p *pipe) rest() {
	p.writing = false
	if !p.last || p.err != nil {
		return
	}
	p.err = io.EOF
	// What the other side sends to a closed connection would reset it, and take with it what was not
	// read there yet. So the other side closes, when it has read everything.
	if c, ok := p.conn.(interface{ CloseWrite() error }); !ok || c.CloseWrite() != nil {
		connections.Cut(p.conn)
	}
}

// finish ends the connection once everything is written.
func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = true
	if !p.writing {
		p.rest()
	}
}

// write writes what waits. It gives up the lock meanwhile.
func (p *pipe) write() {
	b := p.waiting
	p.waiting, p.spare = p.spare[:0], nil
	p.mu.Unlock()
	err := writePieces(p.conn, b)
	p.mu.Lock()
	if cap(b) > frameMax {
		b = nil // A burst isn't kept.
	}
	p.spare = b[:0]
	if err != nil {
		p.fail(err)
	}
}

// writePieces gives the other side time for each piece: what a burst left may take a slow link long.
func writePieces(conn net.Conn, b []byte) error {
	for len(b) > 0 {
		if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		n, err := conn.Write(b[:min(len(b), frameMax)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// fail lets every later send return err, and ends the reading side as well.
func (p *pipe) fail(err error) {
	if p.err == nil {
		p.err, p.waiting = err, nil
	}
	connections.Cut(p.conn)
}

// close ends the connection because of err.
func (p *pipe) close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(err)
}
