//go:build !linux

package readmodel

import "time"

// processorLoad is not known on this system.
func processorLoad() load { return func() (float64, float64, bool) { return 0, 0, false } }

// threadTime is the clock's: work is paid for as if it had a processor for itself.
func threadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
