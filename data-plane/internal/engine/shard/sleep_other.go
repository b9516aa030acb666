//go:build !linux

package shard

import "time"

// sleep sleeps; the grain of the timer decides how long.
func sleep(d time.Duration) { time.Sleep(d) }
