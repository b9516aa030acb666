//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// isolate gives a command a process group of its own: Ctrl-C at the terminal
// then reaches this worker alone, and ending the command ends its children.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup ends what is left of a command that has started.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // Nothing may be left.
}
