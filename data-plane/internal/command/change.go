package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// Together says that the next Count commands of the entry are one: if any enqueue
// among them is refused, all are, with the same refusal.
type Together struct{ Count uint32 }

func (c *Together) encode(w *codec.Writer) { w.Uint(uint64(c.Count)) }
func (c *Together) decode(r *codec.Reader) { c.Count = r.Uint32() }

// Hold stops a job until a person decides, or asks its worker to let go of it first.
type Hold struct {
	NS     job.Namespace
	ID     job.ID
	Reason string
	By     string // Who asked.
}

func (c *Hold) encode(w *codec.Writer) {
	encodeTarget(w, c.NS, c.ID)
	w.Text(c.Reason)
	w.Text(c.By)
}

func (c *Hold) decode(r *codec.Reader) {
	c.NS, c.ID, c.Reason, c.By = r.ID(), r.ID(), r.Text(), r.Text()
}

// Decide ends the hold of a job: it runs, or it is dead.
type Decide struct {
	NS      job.Namespace
	ID      job.ID
	Approve bool
	Comment string
	By      string // Who decided.
}

func (c *Decide) encode(w *codec.Writer) {
	encodeTarget(w, c.NS, c.ID)
	w.Bool(c.Approve)
	w.Text(c.Comment)
	w.Text(c.By)
}

func (c *Decide) decode(r *codec.Reader) {
	c.NS, c.ID, c.Approve, c.Comment, c.By = r.ID(), r.ID(), r.Bool(), r.Text(), r.Text()
}

// Move puts a job that no worker holds into another queue.
type Move struct {
	NS    job.Namespace
	ID    job.ID
	Queue string
}

func (c *Move) encode(w *codec.Writer) {
	encodeTarget(w, c.NS, c.ID)
	w.Text(c.Queue)
}

func (c *Move) decode(r *codec.Reader) { c.NS, c.ID, c.Queue = r.ID(), r.ID(), r.Name() }

// Prioritize gives a job that waits another priority.
type Prioritize struct {
	NS       job.Namespace
	ID       job.ID
	Priority job.Priority
}

func (c *Prioritize) encode(w *codec.Writer) {
	encodeTarget(w, c.NS, c.ID)
	w.Byte(byte(c.Priority))
}

func (c *Prioritize) decode(r *codec.Reader) {
	c.NS, c.ID, c.Priority = r.ID(), r.ID(), job.Priority(r.Byte())
}

// RequeueMax bounds the jobs of one Requeue.
const RequeueMax = 512

// Requeue retries those of the jobs that are dead in the queue when it is applied.
type Requeue struct {
	NS    job.Namespace
	Queue string
	Jobs  []job.ID
}

func (c *Requeue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
	EncodeIDs(w, c.Jobs)
}

func (c *Requeue) decode(r *codec.Reader) {
	c.NS, c.Queue, c.Jobs = r.ID(), r.Name(), DecodeIDs(r)
}

// ClearQueue removes, at once for everybody who asks, all jobs of a queue that no
// worker holds. What they leave in the store is removed by Sweep, piece by piece.
type ClearQueue struct {
	NS    job.Namespace
	Queue string
}

func (c *ClearQueue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
}

func (c *ClearQueue) decode(r *codec.Reader) { c.NS, c.Queue = r.ID(), r.Name() }
