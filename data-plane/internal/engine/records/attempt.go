package records

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// AttemptError is one failed attempt.
type AttemptError struct {
	Attempt   uint32
	At        int64
	Error     string
	Backtrace string
	Worker    string // That held the lease.
}

func (a *AttemptError) Fields(f *codec.Fields) {
	f.Uint32(&a.Attempt)
	f.Int(&a.At)
	f.Text(&a.Error)
	f.Text(&a.Backtrace)
	f.Text(&a.Worker)
}

func (a *AttemptError) Encode() []byte { return encode(32+len(a.Error)+len(a.Backtrace), a) }

// DecodeAttemptError reads what AttemptError.Encode wrote.
func DecodeAttemptError(v []byte) (AttemptError, error) {
	return decode[AttemptError]("attempt error", v)
}
