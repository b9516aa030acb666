package records

import "github.com/corvo-cloud/corvo/data-plane/internal/job"

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

func (l *Lock) Encode() []byte {
	w := newRecord(40)
	w.ID(l.Owner)
	w.ID(l.By)
	w.Int(l.Expires)
	w.Byte(byte(l.State))
	w.Bool(l.Duplicate)
	w.Uint(l.Gen)
	return w.Buf
}

func DecodeLock(v []byte) (Lock, error) {
	r, err := openRecord("lock", v)
	if err != nil {
		return Lock{}, err
	}
	l := Lock{Owner: r.ID(), By: r.ID(), Expires: r.Int(), State: job.State(r.Byte()), Duplicate: r.Bool(), Gen: r.Uint()}
	return l, closeRecord("lock", r)
}

// lockName is the value of a lock's due row.
func EncodeLockName(queue, key string) []byte {
	w := newRecord(4 + len(queue) + len(key))
	w.Text(queue)
	w.Text(key)
	return w.Buf
}

func DecodeLockName(v []byte) (queue, key string, err error) {
	r, err := openRecord("lock name", v)
	if err != nil {
		return "", "", err
	}
	queue, key = r.Name(), r.Text()
	return queue, key, closeRecord("lock name", r)
}
