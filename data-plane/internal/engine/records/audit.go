package records

import (
	"bytes"

	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// AuditRecord is one administrative act.
type AuditRecord struct {
	Number uint64 // In the group; a record and its number never part.
	Of     uint64 // In the namespace, without gaps.
	NS     job.Namespace
	At     int64
	By     string
	Owner  string // Whom a key belongs to.
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

func (a *AuditRecord) Fields(f *codec.Fields) {
	f.Uint(&a.Of)
	codec.ID(f, &a.NS)
	f.Int(&a.At)
	for _, t := range []*string{&a.By, &a.Owner, &a.Peer, &a.Act, &a.Type, &a.Target} {
		f.Text(t)
	}
	f.Bytes(&a.Detail)
	f.Uint(&a.Affected)
	f.Uint(&a.Refused)
	codec.ID(f, &a.Op)
	f.Bool(&a.Interrupted)
}

func (a *AuditRecord) Encode() []byte { return encode(96+len(a.Target)+len(a.Detail), a) }

// DecodeAudit reads what AuditRecord.Encode wrote.
func DecodeAudit(number uint64, v []byte) (AuditRecord, error) {
	a, err := decode[AuditRecord]("audit record", v)
	a.Number, a.Detail = number, bytes.Clone(a.Detail)
	return a, err
}

// AuditEnds is where a row of numbers begins and ends: first to last, both there.
type AuditEnds struct {
	First, Last, Bytes uint64
	Taken              uint64 // Of the group: kept elsewhere up to here.
}

func (e *AuditEnds) Fields(f *codec.Fields) {
	for _, n := range []*uint64{&e.First, &e.Last, &e.Bytes, &e.Taken} {
		f.Uint(n)
	}
}

func (e *AuditEnds) Encode() []byte { return encode(24, e) }

// DecodeAuditEnds reads what AuditEnds.Encode wrote.
func DecodeAuditEnds(v []byte) (AuditEnds, error) { return decode[AuditEnds]("audit mark", v) }

// openAct is an act of which not all parts were done, and when one was last.
type openAct struct {
	touched int64
	record  []byte
}

func (o *openAct) Fields(f *codec.Fields) {
	f.Int(&o.touched)
	f.Bytes(&o.record)
}

// EncodeOpenAct is the bytes of the record.
func EncodeOpenAct(rec *AuditRecord, touched int64) []byte {
	return encode(16, &openAct{touched, rec.Encode()})
}

// DecodeOpenAct reads what EncodeOpenAct wrote.
func DecodeOpenAct(v []byte) (rec *AuditRecord, touched int64, err error) {
	o, err := decode[openAct]("open act", v)
	if err != nil {
		return nil, 0, err
	}
	a, err := DecodeAudit(0, o.record)
	return &a, o.touched, err
}

// EncodeNumber is the bytes of the record.
func EncodeNumber(n uint64) []byte {
	w := codec.Writer{}
	w.Uint(n)
	return w.Buf
}

// DecodeNumber reads what EncodeNumber wrote.
func DecodeNumber(v []byte) (uint64, error) {
	r := codec.NewReader(v)
	n := r.Uint()
	if err := r.Close(); err != nil {
		return 0, fmt.Errorf("%w: number of an audit record: %w", ErrRecord, err)
	}
	return n, nil
}
