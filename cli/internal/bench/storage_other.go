//go:build !linux

package bench

import "runtime"

// storageOf is not known here.
func storageOf(string) (name string, memory bool) { return "", false }

func kernelOf() string { return runtime.GOOS }
