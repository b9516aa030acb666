package records

// AttemptError is one failed attempt.
type AttemptError struct {
	Attempt   uint32
	At        int64
	Error     string
	Backtrace string
	Worker    string // That held the lease.
}

func (a *AttemptError) Encode() []byte {
	w := newRecord(32 + len(a.Error) + len(a.Backtrace))
	w.Uint(uint64(a.Attempt))
	w.Int(a.At)
	w.Text(a.Error)
	w.Text(a.Backtrace)
	w.Text(a.Worker)
	return w.Buf
}

func DecodeAttemptError(v []byte) (AttemptError, error) {
	r, err := openRecord("attempt error", v)
	if err != nil {
		return AttemptError{}, err
	}
	a := AttemptError{Attempt: r.Uint32(), At: r.Int(), Error: r.Text(), Backtrace: r.Text(), Worker: r.Text()}
	return a, closeRecord("attempt error", r)
}
