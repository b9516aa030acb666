package queue

import (
	"testing"
	"time"
)

func BenchmarkIDs(b *testing.B) {
	ids, now := newIDSource(), time.Now()
	for b.Loop() {
		ids.next(now)
	}
}
