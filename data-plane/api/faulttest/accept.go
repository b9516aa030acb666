package faulttest

import (
	"net"
	"sync/atomic"
	"syscall"
)

// ShortOfMemory is a listener for which the kernel has no memory at its first accept.
func ShortOfMemory(l net.Listener) net.Listener { return &shortOfMemory{Listener: l} }

type shortOfMemory struct {
	net.Listener
	failed atomic.Bool
}

// Accept implements net.Listener.
func (l *shortOfMemory) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOBUFS}
	}
	return l.Listener.Accept()
}
