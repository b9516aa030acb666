package records

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// AttemptError is one failed attempt.
type AttemptError struct {
	Attempt   uint32
	At        int64
	Cause     AttemptCause
	Error     string // As the worker reported it.
	Backtrace string
	Worker    string // That held the lease.
}

// AttemptCause says what ended an attempt. Stored: append only.
type AttemptCause uint8

const (
	WorkerFailed AttemptCause = iota
	LeaseRanOut
	IterationRanOut
	attemptCausesEnd
)

var attemptCauses = [attemptCausesEnd]string{
	LeaseRanOut: "lease expired: the worker did not renew it in time", IterationRanOut: "iteration timed out",
}

func (c AttemptCause) String() string { return attemptCauses[c] }

// Text is what went wrong, for people.
func (a *AttemptError) Text() string {
	if a.Cause != WorkerFailed {
		return a.Cause.String()
	}
	return a.Error
}

func (a *AttemptError) Fields(f *codec.Fields) {
	f.Uint32(&a.Attempt)
	f.Int(&a.At)
	codec.Enum(f, &a.Cause, attemptCausesEnd)
	f.Text(&a.Error)
	f.Text(&a.Backtrace)
	f.Text(&a.Worker)
}

func (a *AttemptError) Encode() []byte { return encode(32+len(a.Error)+len(a.Backtrace), a) }

// DecodeAttemptError reads what AttemptError.Encode wrote.
func DecodeAttemptError(v []byte) (AttemptError, error) {
	return decode[AttemptError]("attempt error", v)
}
