package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

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

func (b *Batch) Fields(f *codec.Fields) {
	f.Natural(&b.CreatedAt)
	f.Natural(&b.FinishedAt)
	f.Name(&b.Callback)
	codec.ID(f, &b.CallbackID)
	f.Bool(&b.Sealed)
	f.Uint(&b.Total)
	f.Uint(&b.Open)
	for i := range b.Counts {
		f.Uint(&b.Counts[i])
	}
}

func (b *Batch) Encode() []byte { return encode(64, b) }

// DecodeBatch reads what Batch.Encode wrote.
func DecodeBatch(v []byte) (Batch, error) { return decode[Batch]("batch", v) }

// EncodeCallback is the bytes of the record.
func EncodeCallback(payload []byte) []byte {
	return encodeOne(8+len(payload), (*codec.Fields).Bytes, payload)
}

// DecodeCallback reads what EncodeCallback wrote.
func DecodeCallback(v []byte) ([]byte, error) { return decodeOne("callback", (*codec.Fields).Bytes, v) }
