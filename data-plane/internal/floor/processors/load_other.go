//go:build !linux

package processors

import "time"

// Watch is not known on this system.
func Watch() Load { return func() (float64, float64, bool) { return 0, 0, false } }

// ThreadTime is wall-clock time, as if the work had a processor to itself.
func ThreadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
