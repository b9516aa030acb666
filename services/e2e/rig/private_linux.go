package rig

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// RunPrivate runs one test of this binary in a process that has a network and mounts of its
// own, with a variable of the environment and more flags. Whatever that test makes of
// either ends with it. It needs root, and skips the test without.
func RunPrivate(t testing.TB, test, variable string, flags ...string) (out []byte, exit int) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	for _, tool := range []string{"ip", "tc", "nsenter", "mkfs.ext4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
		}
	}
	self := must(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"-test.run=^" + test + "$", "-test.v", "-test.timeout=1h"}, flags...)...)
	cmd.Env = append(os.Environ(), variable)
	cmd.SysProcAttr = dieWithParent()
	// Not clone flags: with these, mounts of the new namespace are no one else's.
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: this needs namespaces of its own; run it as root: %v", err)
	}
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out, cmd.ProcessState.ExitCode()
}
