//go:build !linux

package acceptance

import "syscall"

// dieWithParent exists on Linux only; elsewhere cleanup has to do.
func dieWithParent() *syscall.SysProcAttr { return nil }
