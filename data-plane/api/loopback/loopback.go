// Package loopback owns the addresses on this machine at which tests of any module let servers
// listen that go away and come back.
//
// It must not know who listens. Surprising: Linux answers at all of 127.0.0.0/8, and gives only
// ports of 127.0.0.1 to outgoing connections, which may then have one that a server left.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"runtime"
)

// Host is an address of this machine that hardly anybody else has, so that a port of it is free
// when its server comes back. Other systems than Linux have only 127.0.0.1.
func Host() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}
