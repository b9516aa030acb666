package queue

import (
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// hides reports whether the caller may not see what the jobs of a queue carry: payloads,
// results, checkpoints, progress and the texts of errors. Whoever fetches a job has it all.
func (c *Caller) hides(queue string) bool { return !c.Rights.Queue(permission.PayloadRead, queue) }

// redactJob leaves that something failed, and when, but not what it said.
func redactJob(v *wire.Job) {
	v.Payload, v.Progress, v.Checkpoint, v.Result = nil, nil, nil, nil
	for i := range v.Errors {
		v.Errors[i].Error, v.Errors[i].Backtrace = "", ""
	}
	v.Redacted = true
}

func (c *Caller) redactRow(v *wire.JobRow) {
	if c.hides(v.Queue) {
		v.LastError, v.Redacted = "", true
	}
}

func redactTimeline(v *wire.Timeline) {
	for i := range v.Events {
		v.Events[i].Error = ""
	}
	v.Redacted = true
}

func redactIterations(list []wire.Iteration) {
	for i := range list {
		list[i].Checkpoint, list[i].Result, list[i].Redacted = nil, nil, true
	}
}

func (c *Caller) redactSchedule(v *wire.Schedule) {
	if c.hides(v.Queue) {
		v.Payload, v.Redacted = nil, true
	}
}
