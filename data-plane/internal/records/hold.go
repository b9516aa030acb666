package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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

func (h *Hold) Encode() []byte {
	w := newRecord(64 + len(h.Reason) + len(h.Comment))
	w.Text(h.Reason)
	w.Text(h.By)
	w.Int(h.At)
	w.Int(h.Until)
	w.Bool(h.ApproveAtLast)
	w.ID(h.Policy)
	w.Uint(uint64(len(h.Approvers)))
	for _, a := range h.Approvers {
		w.Text(a)
	}
	w.Byte(byte(h.Decision))
	w.Text(h.DecidedBy)
	w.Text(h.Comment)
	w.Int(h.DecidedAt)
	return w.Buf
}

func DecodeHold(v []byte) (Hold, error) {
	r, err := openRecord("hold", v)
	if err != nil {
		return Hold{}, err
	}
	h := Hold{Reason: r.Text(), By: r.Text(), At: r.Time(), Until: r.Time(), ApproveAtLast: r.Bool(), Policy: r.ID()}
	h.Approvers = decodeTexts(r)
	h.Decision, h.DecidedBy, h.Comment, h.DecidedAt = Decision(r.Byte()), r.Text(), r.Text(), r.Time()
	return h, closeRecord("hold", r)
}

func decodeTexts(r *codec.Reader) []string {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.Text()
	}
	return out
}
