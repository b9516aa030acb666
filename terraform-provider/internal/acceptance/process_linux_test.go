package acceptance

import "syscall"

// dieWithParent kills a process when the test binary dies, however it does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
