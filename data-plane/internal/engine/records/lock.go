package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Lock is the record of a unique lock or of an idempotency key.
type Lock struct {
	Owner   job.ID
	By      job.ID // Stands in the due row; differs from Owner when the answer was a duplicate.
	Expires int64
	// First answer of an idempotent enqueue.
	State     job.State
	Duplicate bool
	Gen       uint64 // See Head: a lock of another generation is not in force.
}

func (l *Lock) Fields(f *codec.Fields) {
	codec.ID(f, &l.Owner)
	codec.ID(f, &l.By)
	f.Int(&l.Expires)
	codec.Byte(f, &l.State)
	f.Bool(&l.Duplicate)
	f.Uint(&l.Gen)
}

func (l *Lock) Encode() []byte {
	f := newRecord(40)
	l.Fields(&f)
	return f.Written()
}

// DecodeLock reads what Lock.Encode wrote.
func DecodeLock(v []byte) (l Lock, err error) {
	f := openRecord(v)
	l.Fields(&f)
	return l, closeRecord("lock", &f)
}

// lockName is the value of a lock's due row.
type lockName struct{ queue, key string }

func (l *lockName) Fields(f *codec.Fields) {
	f.Name(&l.queue)
	f.Text(&l.key)
}

// EncodeLockName is the bytes of the record.
func EncodeLockName(queue, key string) []byte {
	return encode(4+len(queue)+len(key), &lockName{queue, key})
}

// DecodeLockName reads what EncodeLockName wrote.
func DecodeLockName(v []byte) (queue, key string, err error) {
	l, err := decode[lockName]("lock name", v)
	return l.queue, l.key, err
}
