package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
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
func (x *entry) writeAudit(rec *records.AuditRecord) {
	mark := x.auditEnds(x.m.space.AuditMark())
	book := x.auditEnds(x.m.space.AuditBook(rec.NS))
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
		x.cutAudit(rec.NS, &mark, &book)
	}
	x.txn.Set(x.m.space.AuditBook(rec.NS), book.Encode())
	x.txn.Set(x.m.space.AuditMark(), mark.Encode())
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
func (x *entry) cutAudit(ns job.Namespace, mark, book *records.AuditEnds) {
	old := x.popAudit(ns, mark, book)
	if old == nil || old.Number <= mark.Taken {
		return
	}
	cut := *old
	if cut.Act == ActCut && book.First < book.Last { // It moves on to the next.
		if old = x.popAudit(ns, mark, book); old == nil {
			return
		}
		cut.Number, cut.Of = old.Number, old.Of
		cut.Affected++
	} else {
		cut = records.AuditRecord{Number: old.Number, Of: old.Of, NS: ns, At: old.At, Act: ActCut, Type: "audit", Affected: 1}
	}
	book.First = cut.Of
	x.putAudit(&cut, mark, book)
}

// popAudit removes the oldest record of a namespace; nil if it is not there.
func (x *entry) popAudit(ns job.Namespace, mark, book *records.AuditEnds) *records.AuditRecord {
	key := x.m.space.AuditOf(ns, book.First)
	number, there := find(x, key, "number of an audit record", records.DecodeNumber)
	book.First++
	if !there {
		return nil
	}
	x.txn.Delete(key)
	rec, size := x.audit(number)
	if rec == nil {
		return nil
	}
	x.txn.Delete(x.m.space.Audit(number))
	mark.Bytes -= size
	book.Bytes -= size
	return rec
}

func (x *entry) audit(number uint64) (rec *records.AuditRecord, size uint64) {
	v, there := find(x, x.m.space.Audit(number), "audit record", asIs)
	if !there {
		return nil, 0
	}
	return new(statedb.Must(records.DecodeAudit(number, v))), uint64(len(v))
}

// dropOld removes the oldest record of the group, unless it is recent, and goes one
// number on.
func (x *entry) dropOld(mark *records.AuditEnds) (dropped bool) {
	rec, size := x.audit(mark.First)
	if rec != nil {
		if rec.At > x.now-auditKeep {
			return false
		}
		book := x.auditEnds(x.m.space.AuditBook(rec.NS))
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
	return true
}

func (x *entry) auditEnds(key []byte) records.AuditEnds {
	ends, _ := find(x, key, "audit mark", records.DecodeAuditEnds)
	return ends
}
