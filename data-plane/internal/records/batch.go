package records

import "github.com/corvo-cloud/corvo/data-plane/internal/job"

// Batch is a set of jobs whose common end calls back. What the callback carries may be
// large and stands in a record of its own, as long as it is needed: this one is written
// with every member that joins or ends.
//
// Invariants: Open and Counts are the numbers of member rows with those outcomes. A
// batch that is sealed and has no open member has fired, and one that has fired stays
// as it is, whatever its members do after that.
type Batch struct {
	CreatedAt  int64
	FinishedAt int64  // When it fired; 0 if it has not.
	Callback   string // The queue of its callback; "" if it has none.
	CallbackID job.ID // Zero: not made.
	Sealed     bool
	Total      uint64
	Open       uint64
	Counts     [OutcomeSlots]uint64 // By Outcome; slot 0 is unused.
}

// OutcomeSlots is the size of a table by Outcome.
const OutcomeSlots = int(OutcomeDeleted) + 1

// Fired reports whether the batch has ended.
func (b *Batch) Fired() bool { return b.FinishedAt != 0 }

func (b *Batch) Encode() []byte {
	w := newRecord(64)
	w.Int(b.CreatedAt)
	w.Int(b.FinishedAt)
	w.Text(b.Callback)
	w.ID(b.CallbackID)
	w.Bool(b.Sealed)
	w.Uint(b.Total)
	w.Uint(b.Open)
	for _, n := range b.Counts {
		w.Uint(n)
	}
	return w.Buf
}

func DecodeBatch(v []byte) (Batch, error) {
	r, err := openRecord("batch", v)
	if err != nil {
		return Batch{}, err
	}
	b := Batch{
		CreatedAt: r.Time(), FinishedAt: r.Time(), Callback: r.Name(), CallbackID: r.ID(), Sealed: r.Bool(), Total: r.Uint(), Open: r.Uint(),
	}
	for i := range b.Counts {
		b.Counts[i] = r.Uint()
	}
	return b, closeRecord("batch", r)
}

func EncodeCallback(payload []byte) []byte {
	w := newRecord(8 + len(payload))
	w.Bytes(payload)
	return w.Buf
}

func DecodeCallback(v []byte) ([]byte, error) {
	r, err := openRecord("callback", v)
	if err != nil {
		return nil, err
	}
	payload := r.Bytes()
	return payload, closeRecord("callback", r)
}
