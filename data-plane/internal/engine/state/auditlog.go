package state

import (
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Who administered what. A record is written by the entry that does the act, and stays
// after a control plane has taken it, so that one that was restored finds it again. What
// bounds it is bytes: the oldest records go first, and if nobody had taken them, a record
// stands in their place that says how many there were.

const (
	// AuditNamespaceBytesMax and AuditGroupBytesMax bound what is kept.
	AuditNamespaceBytesMax = 1 << 20
	AuditGroupBytesMax     = 64 << 20
	// auditKeep is how long records stay that were taken.
	auditKeep = int64(48 * time.Hour)
	// auditKeepMin records of a namespace stay, however full the group is.
	auditKeepMin = 16
	// auditDropMax bounds the old records that one command removes.
	auditDropMax = 1024
	// auditOpenFor is how long the record of an act waits for its next part.
	auditOpenFor = int64(time.Minute)

	// ActCut is the act of a record that stands for others.
	ActCut = "audit.cut"
)

// writeAudit numbers a record and stores it, and lets the oldest go if there are too many.
func (x *entry) writeAudit(rec *records.AuditRecord) error {
	mark, err := x.auditEnds(x.m.space.AuditMark())
	if err != nil {
		return err
	}
	book, err := x.auditEnds(x.m.space.AuditBook(rec.NS))
	if err != nil {
		return err
	}
	mark.Last++
	book.Last++
	if mark.First == 0 {
		mark.First = mark.Last
	}
	if book.First == 0 {
		book.First = book.Last
	}
	rec.Number, rec.Of = mark.Last, book.Last
	x.putAudit(rec, &mark, &book)
	// A full group costs whoever writes their own records, never another namespace's.
	for book.First < book.Last && (book.Bytes > AuditNamespaceBytesMax || mark.Bytes > AuditGroupBytesMax && book.Last-book.First >= auditKeepMin) {
		if err := x.cutAudit(rec.NS, &mark, &book); err != nil {
			return err
		}
	}
	x.txn.Set(x.m.space.AuditBook(rec.NS), book.Encode())
	x.txn.Set(x.m.space.AuditMark(), mark.Encode())
	return nil
}

func (x *entry) putAudit(rec *records.AuditRecord, mark, book *records.AuditEnds) {
	v := rec.Encode()
	mark.Bytes += uint64(len(v))
	book.Bytes += uint64(len(v))
	x.txn.Set(x.m.space.Audit(rec.Number), v)
	x.txn.Set(x.m.space.AuditOf(rec.NS, rec.Of), records.EncodeNumber(rec.Number))
}

// cutAudit lets the oldest records of a namespace go. If nobody had taken them, the last
// one of them becomes a record that says so.
func (x *entry) cutAudit(ns job.Namespace, mark, book *records.AuditEnds) error {
	old, err := x.popAudit(ns, mark, book)
	if err != nil || old == nil || old.Number <= mark.Taken {
		return err
	}
	cut := *old
	if cut.Act == ActCut && book.First < book.Last { // It moves on to the next.
		if old, err = x.popAudit(ns, mark, book); err != nil || old == nil {
			return err
		}
		cut.Number, cut.Of = old.Number, old.Of
		cut.Affected++
	} else {
		cut = records.AuditRecord{Number: old.Number, Of: old.Of, NS: ns, At: old.At, Act: ActCut, Type: "audit", Affected: 1}
	}
	book.First = cut.Of
	x.putAudit(&cut, mark, book)
	return nil
}

// popAudit removes the oldest record of a namespace; nil if it is not there.
func (x *entry) popAudit(ns job.Namespace, mark, book *records.AuditEnds) (*records.AuditRecord, error) {
	key := x.m.space.AuditOf(ns, book.First)
	number, there, err := stateread.Get(x.txn, key, records.DecodeNumber)
	book.First++
	if err != nil || !there {
		return nil, err
	}
	x.txn.Delete(key)
	rec, size, err := x.audit(number)
	if err != nil || rec == nil {
		return nil, err
	}
	x.txn.Delete(x.m.space.Audit(number))
	mark.Bytes -= size
	book.Bytes -= size
	return rec, nil
}

func (x *entry) audit(number uint64) (*records.AuditRecord, uint64, error) {
	v, err := x.txn.Get(x.m.space.Audit(number))
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	rec, err := records.DecodeAudit(number, v)
	return &rec, uint64(len(v)), err
}

// dropOld removes the oldest record of the group, unless it is recent, and goes one
// number on.
func (x *entry) dropOld(mark *records.AuditEnds) (dropped bool, err error) {
	rec, size, err := x.audit(mark.First)
	if err != nil {
		return false, err
	}
	if rec != nil {
		if rec.At > x.now-auditKeep {
			return false, nil
		}
		book, err := x.auditEnds(x.m.space.AuditBook(rec.NS))
		if err != nil {
			return false, err
		}
		if book.First == rec.Of { // Else the namespace was emptied, and counts anew.
			book.First++
			book.Bytes -= size
			x.txn.Set(x.m.space.AuditBook(rec.NS), book.Encode())
		}
		x.txn.Delete(x.m.space.AuditOf(rec.NS, rec.Of))
		x.txn.Delete(x.m.space.Audit(rec.Number))
		mark.Bytes -= size
	}
	mark.First++
	return true, nil
}

func (x *entry) auditEnds(key []byte) (records.AuditEnds, error) {
	ends, _, err := stateread.Get(x.txn, key, records.DecodeAuditEnds)
	return ends, err
}
