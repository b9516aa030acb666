package records

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// EndedMark is the note that a namespace was ended, at a time.
type EndedMark struct {
	At    int64
	Swept bool // Nothing but this is left of it.
}

func (m *EndedMark) Fields(f *codec.Fields) {
	f.Natural(&m.At)
	f.Bool(&m.Swept)
}

func (m EndedMark) Encode() []byte { return encode(12, &m) }

// DecodeEndedMark reads what EndedMark.Encode wrote.
func DecodeEndedMark(v []byte) (EndedMark, error) { return decode[EndedMark]("ended mark", v) }
