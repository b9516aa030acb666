package metering

import "github.com/corvo-cloud/corvo/control-plane/internal/store"

// numbers of counts, to be compared and changed.
func numbers(c *store.Counts) []*int64 {
	return []*int64{&c.JobsEnqueued, &c.Executions, &c.PayloadBytes, &c.StoredByteHours, &c.EgressBytes, &c.StreamsPeak}
}

func each(a, b store.Counts, f func(a, b int64) int64) store.Counts {
	for i, n := range numbers(&a) {
		*n = f(*n, *numbers(&b)[i])
	}
	return a
}

func largest(a, b store.Counts) store.Counts {
	return each(a, b, func(a, b int64) int64 { return max(a, b) })
}

func plus(a, b store.Counts) store.Counts {
	return each(a, b, func(a, b int64) int64 { return a + b })
}

func minus(a, b store.Counts) store.Counts {
	return each(a, b, func(a, b int64) int64 { return a - b })
}

// less reports whether some number of a is smaller than b's.
func less(a, b store.Counts) bool { return largest(a, b) != a }

func possible(c store.Counts) bool {
	for _, n := range numbers(&c) {
		if *n < 0 || *n > numberMax {
			return false
		}
	}
	return true
}
