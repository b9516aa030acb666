package records

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// Generation says which jobs and locks that carry the name of a queue are there:
// those made in the queue's own generation, and of those before, back to kept, what
// workers held when the queue was cleared and still hold. A job of theirs takes the
// new generation with its next transition.
type Generation struct {
	Own  uint64
	Kept uint64 // As in QueueConfig.
}

// Has reports whether a job of a generation is there.
func (g Generation) Has(of uint64, leased bool) bool {
	return of == g.Own || leased && g.Keeps(of)
}

// Keeps reports whether a generation passed by clearing, without its queue.
func (g Generation) Keeps(of uint64) bool {
	return of == g.Own || g.Kept != 0 && of >= g.Kept-1 && of < g.Own
}

// Generation is the queue's own, and what it kept.
func (q *QueueConfig) Generation() Generation { return Generation{q.Gen, q.Kept} }

// SweepMark says that objects of other generations than gen may be left of a queue
// that was deleted at a time.
type SweepMark struct {
	Gen uint64
	At  int64
}

func (s *SweepMark) Fields(f *codec.Fields) {
	f.Uint(&s.Gen)
	f.Int(&s.At)
}

func (s *SweepMark) Encode() []byte { return encode(24, s) }

// DecodeSweepMark reads what SweepMark.Encode wrote.
func DecodeSweepMark(v []byte) (SweepMark, error) { return decode[SweepMark]("sweep mark", v) }
