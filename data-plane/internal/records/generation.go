package records

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

func (q *QueueConfig) Generation() Generation { return Generation{q.Gen, q.Kept} }

// SweepMark says that objects of other generations than gen may be left of a queue
// that was deleted at a time.
type SweepMark struct {
	Gen uint64
	At  int64
}

func (s *SweepMark) Encode() []byte {
	w := newRecord(24)
	w.Uint(s.Gen)
	w.Int(s.At)
	return w.Buf
}

func DecodeSweepMark(v []byte) (SweepMark, error) {
	r, err := openRecord("sweep mark", v)
	if err != nil {
		return SweepMark{}, err
	}
	s := SweepMark{Gen: r.Uint(), At: r.Int()}
	return s, closeRecord("sweep mark", r)
}
