//go:build !linux

package bench

import "time"

func (c *child) start() error {
	if err := c.cmd.Start(); err != nil {
		close(c.exited)
		return err
	}
	go func() { // Ends with the child; Close and Kill wait for it.
		defer close(c.exited)
		_ = c.cmd.Wait() // How it ended shows in what it was asked for.
	}()
	return nil
}

// ownCPU is not measured here.
func ownCPU() time.Duration { return 0 }
