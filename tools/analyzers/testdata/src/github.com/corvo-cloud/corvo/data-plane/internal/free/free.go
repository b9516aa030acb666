// Package free is outside apply and may look at the clock.
package free

import "time"

func age(since map[string]time.Time) {
	for _, t := range since {
		go time.Since(t)
	}
}

var _ = age
