package shard

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for less than the millisecond that is the grain of Go's timers.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// An interrupted nap is only shorter.
	_ = unix.Nanosleep(&ts, nil)
}
