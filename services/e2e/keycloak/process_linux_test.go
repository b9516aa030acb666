package keycloak_test

import "syscall"

// dieWithParent kills Keycloak when the test binary dies, however it does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
