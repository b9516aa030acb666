package proxy

import (
	"fmt"
	"net"
	"net/http"
)

// plainRefusal is what net/http itself answers to an HTTP/1 request that it cannot
// parse, such as one with a broken % in its path. No handler sees such a request.
const plainRefusal = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"

var refuseUnread = refuse(http.StatusBadRequest, "VALIDATION_ERROR",
	"the request can't be read: check the URL, where % must be written as %25, and the headers")

// ProblemListener replaces net/http's own refusals on ln by problem details. Under TLS
// it changes nothing, because it sees only ciphertext.
func ProblemListener(ln net.Listener) net.Listener { return problemListener{ln} }

type problemListener struct{ net.Listener }

// Accept implements net.Listener.
func (l problemListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err // Unwrapped: http.Server asks what kind it is.
	}
	return problemConn{conn}, nil
}

type problemConn struct{ net.Conn }

// Write implements net.Conn. Answers of handlers have a date, so none is taken for net/http's.
func (c problemConn) Write(p []byte) (int, error) {
	if string(p) != plainRefusal {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(unreadAnswer()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite is called by http.Server to end the connection of a refused request.
func (c problemConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func unreadAnswer() []byte {
	id := NewRequestID()
	body := refuseUnread.problem(id)
	return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"+
		"X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s", len(body), id, body)
}
