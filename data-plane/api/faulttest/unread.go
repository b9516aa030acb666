package faulttest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

// HTTP/2 frames (RFC 9113 6).
const (
	frameHeaders  = 1
	frameSettings = 4
	framePing     = 6
	flagAck       = 1
	flagEnds      = 1 | 4 // END_STREAM and END_HEADERS: a request without a body.
	frameHead     = 9
	firstWindow   = 4 // SETTINGS_INITIAL_WINDOW_SIZE.
)

// Unread asks for path n times over one HTTP/2 connection in clear text, and takes not a byte
// of any answer's body: no stream has a window. It answers pings, so the connection looks
// healthy. It ends with the test.
func Unread(t testing.TB, base, path string, n int) {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	said := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, []byte{0, firstWindow, 0, 0, 0, 0})...)
	// GET and http by their index in HPACK's table, then path and host as they are.
	head := append([]byte{0x82, 0x86}, literal(4, path)...)
	head = append(head, literal(1, host)...)
	for i := range n {
		said = append(said, frame(frameHeaders, flagEnds, uint32(1+2*i), head)...)
	}
	if _, err := conn.Write(said); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(done); stayAlive(conn) }()
}

// stayAlive answers what has to be answered, until the connection ends.
func stayAlive(conn net.Conn) {
	from := bufio.NewReader(conn)
	var head [frameHead]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		kind, acked := head[3], head[4]&flagAck != 0
		switch {
		case acked, kind != frameSettings && kind != framePing:
			continue
		case kind == frameSettings:
			body = nil
		}
		if _, err := conn.Write(frame(kind, flagAck, 0, body)); err != nil {
			return
		}
	}
}

func frame(kind, flags byte, stream uint32, body []byte) []byte {
	n := len(body)
	out := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(out, stream), body...)
}

// literal is a header whose name is in HPACK's table, with a value of at most 126 bytes.
func literal(name byte, value string) []byte {
	return append([]byte{name, byte(len(value))}, value...)
}
