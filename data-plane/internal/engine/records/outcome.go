package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Outcome is how a job ended, as others see it. Stored: append only.
type Outcome uint8

const (
	NoOutcome Outcome = iota // It has not ended.
	OutcomeCompleted
	OutcomeDead
	OutcomeCancelled
	OutcomeDeleted
	OutcomesEnd
)

var outcomeNames = [...]string{"", "completed", "dead", "cancelled", "deleted"}

func (o Outcome) String() string {
	if o < OutcomesEnd {
		return outcomeNames[o]
	}
	return "unknown"
}

// OutcomeOf is how a job of a state ended.
func OutcomeOf(s job.State) Outcome {
	switch s {
	case job.Completed:
		return OutcomeCompleted
	case job.Dead:
		return OutcomeDead
	case job.Cancelled:
		return OutcomeCancelled
	default:
		return NoOutcome
	}
}

func outcomeField(f *codec.Fields, o *Outcome) { codec.Enum(f, o, OutcomesEnd) }

// EncodeOutcome is the bytes of the record.
func EncodeOutcome(o Outcome) []byte { return encodeOne(2, outcomeField, o) }

// DecodeOutcome reads what EncodeOutcome wrote.
func DecodeOutcome(v []byte) (Outcome, error) { return decodeOne("outcome", outcomeField, v) }
