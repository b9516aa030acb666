// Package fair divides what is scarce among those who want it, by weight: Budget an amount
// that is taken and given back, Queue the order in which waiting things get their turn.
//
// Both are work-conserving: who is alone may have everything, and who uses little gets it
// at once however much others ask for. They know no tenants, calls or clocks: a key is
// whatever the caller divides by, and its weight is what a function says.
package fair

// weightOf is the weight of a key: at least 1.
func weightOf[K comparable](weight func(K) int64, k K) int64 {
	if weight == nil {
		return 1
	}
	return min(max(weight(k), 1), weightMax)
}

// weightMax keeps products of weights and amounts far from overflowing.
const weightMax = 1 << 16
