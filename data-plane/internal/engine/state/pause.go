package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// pause stops or resumes handing out a queue's jobs; a queue that is resumed takes
// jobs again, too. Pausing a queue that has never been used makes it exist: an
// operator may prepare it.
func (x *entry) pause(c *command.Pause) Result {
	q := x.queue(c.NS, c.Queue)
	made := !q.hasConfig
	x.exist(q)
	draining := q.config.Draining && c.Paused
	if !made && q.config.Paused == c.Paused && q.config.Draining == draining {
		return Result{}
	}
	q.config.Paused, q.config.Draining = c.Paused, draining
	x.queueEvent(pauseEvent(c.Paused), q)
	return Result{}
}
