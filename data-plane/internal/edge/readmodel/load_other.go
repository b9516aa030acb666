//go:build !linux

package readmodel

import "time"

// processorLoad is not known on this system.
func processorLoad() load { return func() (float64, float64, bool) { return 0, 0, false } }

// threadTime is wall-clock time, as if the work had a processor to itself.
func threadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
