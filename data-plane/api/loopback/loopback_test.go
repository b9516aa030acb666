package loopback

import (
	"net"
	"testing"
)

func TestHost_IsOfThisMachine(t *testing.T) {
	t.Parallel()
	for range 100 {
		ln, err := net.Listen("tcp", net.JoinHostPort(Host(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}
