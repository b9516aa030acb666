package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Iteration is one finished iteration of an agent job.
type Iteration struct {
	Number          uint32
	Status          command.AgentStatus // AgentContinue, AgentDone or AgentHold.
	At              int64
	Checkpoint      []byte
	Result          []byte
	HoldReason      string
	Usage           Meter
	Provider, Model string // That were reported last.
	Lease           keys.Position
}

func (i *Iteration) Encode() []byte {
	w := newRecord(96 + len(i.Checkpoint) + len(i.Result))
	w.Byte(byte(i.Status))
	w.Int(i.At)
	w.Bytes(i.Checkpoint)
	w.Bytes(i.Result)
	w.Text(i.HoldReason)
	i.Usage.write(&w)
	w.Text(i.Provider)
	w.Text(i.Model)
	command.EncodePosition(&w, i.Lease)
	return w.Buf
}

func DecodeIteration(n uint32, v []byte) (Iteration, error) {
	r, err := openRecord("iteration", v)
	if err != nil {
		return Iteration{}, err
	}
	i := Iteration{
		Number: n, Status: command.AgentStatus(r.Byte()), At: r.Time(), Checkpoint: r.Bytes(), Result: r.Bytes(), HoldReason: r.Text(),
		Usage: readMeter(r), Provider: r.Text(), Model: r.Text(), Lease: command.DecodePosition(r),
	}
	return i, closeRecord("iteration", r)
}
