//go:build !linux

package shard

import "time"

// nap sleeps; the grain of the timer decides how long.
func nap(d time.Duration) { time.Sleep(d) }
