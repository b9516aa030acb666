package records

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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

func (s *ChainState) Encode() []byte {
	w := newRecord(64 + 16*len(s.Jobs) + len(s.ExitReason))
	w.Int(s.CreatedAt)
	w.Int(s.FinishedAt)
	w.Byte(byte(s.Status))
	w.Uint(uint64(s.Steps))
	w.Uint(uint64(len(s.Jobs)))
	for _, id := range s.Jobs {
		w.ID(id)
	}
	w.ID(s.OnFailure)
	w.ID(s.OnExit)
	w.Text(s.ExitReason)
	return w.Buf
}

func DecodeChainState(v []byte) (ChainState, error) {
	r, err := openRecord("chain state", v)
	if err != nil {
		return ChainState{}, err
	}
	s := ChainState{CreatedAt: r.Time(), FinishedAt: r.Time(), Status: ChainStatus(r.Enum(byte(chainStatusesEnd))), Steps: int(r.Uint32())}
	s.Jobs = make([]job.ID, r.Count(16))
	for i := range s.Jobs {
		s.Jobs[i] = r.ID()
	}
	s.OnFailure, s.OnExit, s.ExitReason = r.ID(), r.ID(), r.Text()
	if r.Err() == nil && (len(s.Jobs) == 0 || len(s.Jobs) > s.Steps) {
		return ChainState{}, fmt.Errorf("%w: chain state: %d jobs of %d steps", ErrRecord, len(s.Jobs), s.Steps)
	}
	return s, closeRecord("chain state", r)
}

func EncodeChain(c *command.Chain) []byte {
	w := newRecord(64)
	command.EncodeChain(&w, c)
	return w.Buf
}

func DecodeChain(v []byte) (*command.Chain, error) {
	r, err := openRecord("chain", v)
	if err != nil {
		return nil, err
	}
	c := command.DecodeChain(r)
	return c, closeRecord("chain", r)
}
