package records

import "fmt"

// Waiters says which rows of jobs that wait for one are there: those with the numbers
// from told up to made.
type Waiters struct{ Told, Made uint64 }

func (w Waiters) Count() uint64 { return w.Made - w.Told }

// toldMax bounds how many one firing tells; the rest comes with the next.
const toldMax = 256

// Next is how many of them the next firing tells.
func (w Waiters) Next() uint64 { return min(w.Count(), toldMax) }

func (w Waiters) Encode() []byte {
	r := newRecord(8)
	r.Uint(w.Told)
	r.Uint(w.Made)
	return r.Buf
}

func DecodeWaiters(v []byte) (Waiters, error) {
	r, err := openRecord("waiters", v)
	if err != nil {
		return Waiters{}, err
	}
	w := Waiters{Told: r.Uint(), Made: r.Uint()}
	if r.Err() == nil && w.Told >= w.Made {
		return Waiters{}, fmt.Errorf("%w: waiters %d to %d", ErrRecord, w.Told, w.Made)
	}
	return w, closeRecord("waiters", r)
}
