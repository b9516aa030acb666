package server

import (
	"bytes"
	"sync"
)

// lines keeps what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer // Guarded by mu.
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
