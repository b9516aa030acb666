package records

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// AuditRecord is one administrative act.
type AuditRecord struct {
	Number uint64 // In the group; a record and its number never part.
	Of     uint64 // In the namespace, without gaps.
	NS     job.Namespace
	At     int64
	By     string
	Peer   string
	Act    string
	Type   string
	Target string
	Detail []byte // JSON object, or empty.
	// Affected things, and those that were left as they are. Of ActCut: records.
	Affected, Refused uint64
	Op                job.ID
	// Interrupted: nobody said that the act was done.
	Interrupted bool
}

func (a *AuditRecord) Encode() []byte {
	w := newRecord(96 + len(a.Target) + len(a.Detail))
	w.Uint(a.Of)
	w.ID(a.NS)
	w.Int(a.At)
	for _, t := range []string{a.By, a.Peer, a.Act, a.Type, a.Target} {
		w.Text(t)
	}
	w.Bytes(a.Detail)
	w.Uint(a.Affected)
	w.Uint(a.Refused)
	w.ID(a.Op)
	w.Bool(a.Interrupted)
	return w.Buf
}

func DecodeAudit(number uint64, v []byte) (AuditRecord, error) {
	r, err := openRecord("audit record", v)
	if err != nil {
		return AuditRecord{}, err
	}
	a := AuditRecord{Number: number, Of: r.Uint(), NS: r.ID(), At: r.Int()}
	for _, t := range []*string{&a.By, &a.Peer, &a.Act, &a.Type, &a.Target} {
		*t = r.Text()
	}
	a.Detail, a.Affected, a.Refused = append([]byte(nil), r.Bytes()...), r.Uint(), r.Uint()
	a.Op, a.Interrupted = r.ID(), r.Bool()
	return a, closeRecord("audit record", r)
}

// AuditEnds is where a row of numbers begins and ends: first to last, both there.
type AuditEnds struct {
	First, Last, Bytes uint64
	Taken              uint64 // Of the group: kept elsewhere up to here.
}

func (e *AuditEnds) Encode() []byte {
	w := newRecord(24)
	for _, n := range []uint64{e.First, e.Last, e.Bytes, e.Taken} {
		w.Uint(n)
	}
	return w.Buf
}

func DecodeAuditEnds(v []byte) (e AuditEnds, err error) {
	r, err := openRecord("audit mark", v)
	if err != nil {
		return e, err
	}
	e = AuditEnds{r.Uint(), r.Uint(), r.Uint(), r.Uint()}
	return e, closeRecord("audit mark", r)
}

func EncodeOpenAct(rec *AuditRecord, touched int64) []byte {
	w := newRecord(16)
	w.Int(touched)
	w.Bytes(rec.Encode())
	return w.Buf
}

func DecodeOpenAct(v []byte) (rec *AuditRecord, touched int64, err error) {
	r, err := openRecord("open act", v)
	if err != nil {
		return nil, 0, err
	}
	touched = r.Int()
	inner := r.Bytes()
	if err := closeRecord("open act", r); err != nil {
		return nil, 0, err
	}
	a, err := DecodeAudit(0, inner)
	return &a, touched, err
}

func EncodeNumber(n uint64) []byte {
	w := codec.Writer{}
	w.Uint(n)
	return w.Buf
}

func DecodeNumber(v []byte) (uint64, error) {
	r := codec.NewReader(v)
	n := r.Uint()
	if err := r.Close(); err != nil {
		return 0, fmt.Errorf("%w: number of an audit record: %w", ErrRecord, err)
	}
	return n, nil
}
