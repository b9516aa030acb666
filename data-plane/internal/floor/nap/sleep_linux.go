package nap

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sleep holds the calling thread for d, give or take what the kernel allows itself (50 µs).
func Sleep(d time.Duration) {
	for end := time.Now().Add(d); d > 0; d = time.Until(end) {
		ts := unix.NsecToTimespec(int64(d))
		if unix.Nanosleep(&ts, nil) == nil {
			return
		} // Else a signal interrupted it.
	}
}
