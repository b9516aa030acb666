package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// Step is a job that another one's end calls for.
type Step struct {
	Queue   string
	Payload []byte // JSON; empty is none.
}

func (s *Step) encode(w *codec.Writer) {
	w.Text(s.Queue)
	w.Bytes(s.Payload)
}

func (s *Step) decode(r *codec.Reader) { s.Queue, s.Payload = r.Name(), r.Bytes() }

func encodeStep(w *codec.Writer, s *Step) {
	w.Bool(s != nil)
	if s != nil {
		s.encode(w)
	}
}

func decodeStep(r *codec.Reader) *Step {
	if !r.Bool() {
		return nil
	}
	s := new(Step)
	s.decode(r)
	return s
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

// EncodeChain and DecodeChain are shared with the records of state.
func EncodeChain(w *codec.Writer, c *Chain) {
	w.ID(c.ID)
	w.Uint(uint64(len(c.Steps)))
	for i := range c.Steps {
		c.Steps[i].encode(w)
	}
	encodeStep(w, c.OnFailure)
	encodeStep(w, c.OnExit)
	w.Bool(c.GoOn)
}

// DecodeChain reads what EncodeChain wrote.
func DecodeChain(r *codec.Reader) *Chain {
	c := &Chain{ID: r.ID()}
	if n := r.Count(2); n > 0 {
		c.Steps = make([]Step, n)
		for i := range c.Steps {
			c.Steps[i].decode(r)
		}
	}
	c.OnFailure, c.OnExit, c.GoOn = decodeStep(r), decodeStep(r), r.Bool()
	return c
}

// MakeBatch opens a batch; jobs join it when they are enqueued.
type MakeBatch struct {
	NS       job.Namespace
	ID       job.BatchID
	Callback *Step // The job to enqueue when all members have ended; nil: none.
}

func (c *MakeBatch) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	encodeStep(w, c.Callback)
}

func (c *MakeBatch) decode(r *codec.Reader) { c.NS, c.ID, c.Callback = r.ID(), r.ID(), decodeStep(r) }

// SealBatch says that no more jobs join a batch; only then can it end.
type SealBatch struct {
	NS job.Namespace
	ID job.BatchID
}

func (c *SealBatch) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
}

func (c *SealBatch) decode(r *codec.Reader) { c.NS, c.ID = r.ID(), r.ID() }
