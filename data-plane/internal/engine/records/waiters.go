package records

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Waiters says which rows of jobs that wait for one are there: those with the numbers
// from told up to made.
type Waiters struct{ Told, Made uint64 }

// Count is how many jobs wait.
func (w Waiters) Count() uint64 { return w.Made - w.Told }

// toldMax bounds how many one firing tells; the rest comes with the next.
const toldMax = 256

// Next is how many of them the next firing tells.
func (w Waiters) Next() uint64 { return min(w.Count(), toldMax) }

func (w *Waiters) Fields(f *codec.Fields) {
	f.Uint(&w.Told)
	f.Uint(&w.Made)
}

func (w Waiters) Encode() []byte { return encode(8, &w) }

// DecodeWaiters reads what Waiters.Encode wrote.
func DecodeWaiters(v []byte) (Waiters, error) {
	w, err := decode[Waiters]("waiters", v)
	if err == nil && w.Told >= w.Made {
		return Waiters{}, fmt.Errorf("%w: waiters %d to %d", ErrRecord, w.Told, w.Made)
	}
	return w, err
}
