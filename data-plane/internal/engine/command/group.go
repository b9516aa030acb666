package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Step is a job that another one's end calls for.
type Step struct {
	Queue   string
	Payload []byte // JSON; empty is none.
}

func (s *Step) Fields(f *codec.Fields) {
	f.Name(&s.Queue)
	f.Bytes(&s.Payload)
}

// Chain is what follows on a job.
type Chain struct {
	ID job.ChainID
	// Steps are all steps in their order; the job that carries the chain is the first.
	Steps     []Step
	OnFailure *Step // When a step is dead.
	OnExit    *Step // After the last step, or when a worker says exit.
	// GoOn: the step after a dead one runs all the same.
	GoOn bool
}

func (c *Chain) Fields(f *codec.Fields) {
	codec.ID(f, &c.ID)
	for i := range codec.Items(f, &c.Steps, 2) {
		c.Steps[i].Fields(f)
	}
	if f.Optional(c.OnFailure != nil) {
		codec.Alloc(f, &c.OnFailure).Fields(f)
	}
	if f.Optional(c.OnExit != nil) {
		codec.Alloc(f, &c.OnExit).Fields(f)
	}
	f.Bool(&c.GoOn)
}

// MakeBatch opens a batch; jobs join it when they are enqueued.
type MakeBatch struct {
	NS       job.Namespace
	ID       job.BatchID
	Callback *Step // The job to enqueue when all members have ended; nil: none.
}

func (c *MakeBatch) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	if f.Optional(c.Callback != nil) {
		codec.Alloc(f, &c.Callback).Fields(f)
	}
}

// SealBatch says that no more jobs join a batch; only then can it end.
type SealBatch struct {
	NS job.Namespace
	ID job.BatchID
}

func (c *SealBatch) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}
