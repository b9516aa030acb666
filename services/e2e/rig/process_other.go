//go:build !linux

package rig

import "syscall"

// dieWithParent exists on Linux only; elsewhere cleanup has to do.
func dieWithParent() *syscall.SysProcAttr { return nil }
