//go:build !linux

package keycloak_test

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
