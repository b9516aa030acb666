//go:build !linux

package readmodel

// processorLoad is not known on this system.
func processorLoad() load { return func() (float64, float64, bool) { return 0, 0, false } }
