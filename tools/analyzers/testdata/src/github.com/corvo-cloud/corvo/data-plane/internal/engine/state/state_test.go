package state

import "time"

// Tests may look at the clock.
var started = time.Now()
