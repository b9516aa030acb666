package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Hold stops a job until a person decides, or asks its worker to let go of it first.
type Hold struct {
	NS     job.Namespace
	ID     job.ID
	Reason string
	By     string // Who asked.
}

func (c *Hold) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	f.Text(&c.Reason)
	f.Text(&c.By)
}

// Decide ends the hold of a job: it runs, or it is dead.
type Decide struct {
	NS      job.Namespace
	ID      job.ID
	Approve bool
	Comment string
	By      string // Who decided.
}

func (c *Decide) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	f.Bool(&c.Approve)
	f.Text(&c.Comment)
	f.Text(&c.By)
}

// Move puts a job that no worker holds into another queue.
type Move struct {
	NS    job.Namespace
	ID    job.ID
	Queue string
}

func (c *Move) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	f.Name(&c.Queue)
}

// Prioritize gives a job that waits another priority.
type Prioritize struct {
	NS       job.Namespace
	ID       job.ID
	Priority job.Priority
}

func (c *Prioritize) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	codec.Byte(f, &c.Priority)
}

// RequeueMax bounds the jobs of one Requeue.
const RequeueMax = 512

// Requeue retries those of the jobs that are dead in the queue when it is applied.
type Requeue struct {
	NS    job.Namespace
	Queue string
	Jobs  []job.ID
}

func (c *Requeue) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
	codec.IDs(f, &c.Jobs)
}

// Cancel ends a job, or asks its worker to let go.
type Cancel struct {
	NS job.Namespace
	ID job.ID
}

func (c *Cancel) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// Retry makes a finished job pending again, with fresh counters, or one that waits for its
// time pending now, with its own.
type Retry struct {
	NS job.Namespace
	ID job.ID
}

func (c *Retry) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// Delete removes a job that no worker holds.
type Delete struct {
	NS job.Namespace
	ID job.ID
}

func (c *Delete) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}
