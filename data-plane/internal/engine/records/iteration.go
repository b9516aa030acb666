package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
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

func (i *Iteration) Fields(f *codec.Fields) {
	codec.Byte(f, &i.Status)
	f.Natural(&i.At)
	f.Bytes(&i.Checkpoint)
	f.Bytes(&i.Result)
	f.Text(&i.HoldReason)
	i.Usage.Fields(f)
	f.Text(&i.Provider)
	f.Text(&i.Model)
	command.Position(f, &i.Lease)
}

func (i *Iteration) Encode() []byte { return encode(96+len(i.Checkpoint)+len(i.Result), i) }

// DecodeIteration reads what Iteration.Encode wrote.
func DecodeIteration(n uint32, v []byte) (Iteration, error) {
	i, err := decode[Iteration]("iteration", v)
	i.Number = n
	return i, err
}
