package bench

import (
	"runtime"
	"syscall"
	"time"
)

// start runs the child so that it dies with us, also when we are killed. The
// kernel ties that to the thread that forked, which therefore must live as long
// as the child.
func (c *child) start() error {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() { // Ends with the child; Close and Kill wait for it.
		runtime.LockOSThread()
		defer close(c.exited)
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // How it ended shows in what it was asked for.
		}
	}()
	return <-started
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
