package records

// EndedMark is the note that a namespace was ended, at a time.
type EndedMark struct {
	At    int64
	Swept bool // Nothing but this is left of it.
}

func (m EndedMark) Encode() []byte {
	w := newRecord(12)
	w.Int(m.At)
	w.Bool(m.Swept)
	return w.Buf
}

func DecodeEndedMark(v []byte) (EndedMark, error) {
	r, err := openRecord("ended mark", v)
	if err != nil {
		return EndedMark{}, err
	}
	m := EndedMark{At: r.Time(), Swept: r.Bool()}
	return m, closeRecord("ended mark", r)
}
