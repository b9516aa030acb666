//go:build !linux

package nap

import "time"

// Sleep sleeps for d, as finely as the timers of this system do.
func Sleep(d time.Duration) { time.Sleep(d) }
