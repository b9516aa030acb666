package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// A held job waits for a person. Its record says why, and in the end who decided;
// it stays with the job, so that one can read later what was decided.

// Decision ends a hold. Stored: append only.
type Decision uint8

const (
	Undecided Decision = iota
	Approved
	Rejected
)

var decisions = [...]string{"", "approved", "rejected"}

func (d Decision) String() string {
	if int(d) < len(decisions) {
		return decisions[d]
	}
	return "unknown"
}

// Hold is why a job is or was held, and what was decided.
type Hold struct {
	Reason string
	By     string // Who asked; "" if a rule did.
	At     int64
	// Until is when the wait is over at the latest, 0 for never; then the job is
	// approved if ApproveAtLast, else rejected.
	Until         int64
	ApproveAtLast bool
	Policy        job.PolicyID // That asked for it; zero if none did.
	Approvers     []string     // Who may decide; empty: everybody who may operate.

	Decision  Decision
	DecidedBy string // "" if the time was over.
	Comment   string
	DecidedAt int64
}

func (h *Hold) Fields(f *codec.Fields) {
	f.Text(&h.Reason)
	f.Text(&h.By)
	f.Natural(&h.At)
	f.Natural(&h.Until)
	f.Bool(&h.ApproveAtLast)
	codec.ID(f, &h.Policy)
	f.Texts(&h.Approvers)
	codec.Byte(f, &h.Decision)
	f.Text(&h.DecidedBy)
	f.Text(&h.Comment)
	f.Natural(&h.DecidedAt)
}

func (h *Hold) Encode() []byte { return encode(64+len(h.Reason)+len(h.Comment), h) }

// DecodeHold reads what Hold.Encode wrote.
func DecodeHold(v []byte) (Hold, error) { return decode[Hold]("hold", v) }
