package records

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// ChainStatus is what became of a chain. Stored: append only.
type ChainStatus uint8

const (
	ChainRunning   ChainStatus = iota
	ChainCompleted             // After its last step.
	ChainExited                // A worker left out the remaining steps.
	ChainFailed                // A step is dead.
	ChainCancelled             // A step was cancelled or deleted.
	chainStatusesEnd
)

var chainStatusNames = [...]string{"running", "completed", "exited", "failed", "cancelled"}

func (s ChainStatus) String() string {
	if s < chainStatusesEnd {
		return chainStatusNames[s]
	}
	return "unknown"
}

// ChainState is how far a chain has come.
//
// Invariant: of the jobs in Jobs all but the last have ended in a way that called for
// the next one. Only the last can take the chain further, so a step is made once.
type ChainState struct {
	CreatedAt  int64
	FinishedAt int64 // 0 while it runs.
	Status     ChainStatus
	Steps      int      // That the chain has.
	Jobs       []job.ID // Of the steps made so far, in their order.
	OnFailure  job.ID   // Zero: not made.
	OnExit     job.ID   // Zero: not made.
	ExitReason string
}

func (s *ChainState) Fields(f *codec.Fields) {
	f.Natural(&s.CreatedAt)
	f.Natural(&s.FinishedAt)
	codec.Enum(f, &s.Status, chainStatusesEnd)
	steps := uint32(s.Steps)
	f.Uint32(&steps)
	s.Steps = int(steps)
	codec.IDs(f, &s.Jobs)
	codec.ID(f, &s.OnFailure)
	codec.ID(f, &s.OnExit)
	f.Text(&s.ExitReason)
}

func (s *ChainState) Encode() []byte { return encode(64+16*len(s.Jobs)+len(s.ExitReason), s) }

// DecodeChainState reads what ChainState.Encode wrote.
func DecodeChainState(v []byte) (ChainState, error) {
	s, err := decode[ChainState]("chain state", v)
	if err == nil && (len(s.Jobs) == 0 || len(s.Jobs) > s.Steps) {
		return ChainState{}, fmt.Errorf("%w: chain state: %d jobs of %d steps", ErrRecord, len(s.Jobs), s.Steps)
	}
	return s, err
}

// EncodeChain is the bytes of the record.
func EncodeChain(c *command.Chain) []byte { return encode(64, c) }

// DecodeChain reads what EncodeChain wrote.
func DecodeChain(v []byte) (*command.Chain, error) {
	c, err := decode[command.Chain]("chain", v)
	return &c, err
}
