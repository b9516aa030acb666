package shard

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep sleeps for less than the millisecond that is the grain of Go's timers.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// An interrupted sleep is only shorter.
	_ = unix.Nanosleep(&ts, nil)
}
