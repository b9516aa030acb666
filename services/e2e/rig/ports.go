package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

const (
	portsFrom = 12000
	portsTo   = 32000 // Outgoing connections begin at 32768.
	portTries = 1000
)

// taken is what this process has given away: a port that is free now may be meant
// for a node that has not started yet.
var taken sync.Map

// Addresses are loopback addresses with free ports that stay free while their
// process is down.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range portTries {
		if len(out) == n {
			return out
		}
		address := fmt.Sprintf("127.0.0.1:%d", portsFrom+rand.IntN(portsTo-portsFrom))
		if free(address) {
			out = append(out, address)
		}
	}
	t.Fatalf("found %d of %d free ports", len(out), n)
	return nil
}

func free(address string) bool {
	if _, given := taken.LoadOrStore(address, true); given {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
