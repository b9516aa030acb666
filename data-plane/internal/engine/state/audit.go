package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// act is an Audit whose commands are being applied.
type act struct {
	said              *command.Audit
	left              int
	affected, refused uint64
}

func newAct(c *command.Audit, rest int) *act { return &act{said: c, left: min(int(c.Covers), rest)} }

func (a *act) count(c command.Command, res *Result) {
	if res.Refusal != Accepted {
		a.refused++
		return
	}
	switch c := c.(type) {
	case *command.Enqueue:
		// The first answer again: the first call is in the log.
		if res.Replayed || res.Duplicate {
			a.refused++
			return
		}
		a.affected++
	case *command.ClearQueue:
		a.affected += uint64(res.Removed)
	case *command.Requeue:
		a.affected += uint64(res.Requeued)
		a.refused += uint64(len(c.Jobs)) - uint64(res.Requeued)
	default:
		a.affected++
	}
}

func (x *entry) recordAct(a *act) {
	rec := records.AuditRecord{
		NS: a.said.NS, At: x.now, By: a.said.By, Owner: a.said.Owner, Peer: a.said.Peer, Act: a.said.Act, Type: a.said.Type, Target: a.said.Target,
		Detail: a.said.Detail, Affected: a.affected, Refused: a.refused, Op: a.said.Op,
	}
	if a.said.Op.IsZero() {
		if a.refused > 0 && a.affected == 0 {
			return
		}
		x.writeAudit(&rec)
		return
	}
	x.recordPart(&rec, a.said.Done)
}

// recordPart adds a part of an act to what is known of it.
func (x *entry) recordPart(rec *records.AuditRecord, done bool) {
	key := x.m.space.AuditOpen(rec.NS, rec.Op)
	open, touched := x.openAct(key)
	if open != nil {
		rec.At = open.At
		rec.Affected += open.Affected
		rec.Refused += open.Refused
	}
	if done {
		x.txn.Delete(key)
		if rec.Affected == 0 {
			return
		}
		x.writeAudit(rec)
		return
	}
	if touched == 0 {
		x.addDue(keys.Due{At: x.now + auditOpenFor, Kind: keys.DueAudit, NS: rec.NS, ID: rec.Op}, nil)
	}
	x.txn.Set(key, records.EncodeOpenAct(rec, x.now))
}

func (x *entry) openAct(key []byte) (rec *records.AuditRecord, touched int64) {
	v, there := find(x, key, "open act", asIs)
	if !there {
		return nil, 0
	}
	rec, touched, err := records.DecodeOpenAct(v)
	statedb.Check(err)
	return rec, touched
}

// fireAudit records an act of which nothing was heard for a while: whoever worked on it
// is gone.
func (x *entry) fireAudit(d keys.Due) Result {
	x.txn.Delete(x.m.space.Due(d))
	key := x.m.space.AuditOpen(d.NS, d.ID)
	rec, touched := x.openAct(key)
	if rec == nil {
		return Result{Refusal: WrongState}
	}
	if until := touched + auditOpenFor; until > x.now {
		x.addDue(keys.Due{At: until, Kind: keys.DueAudit, NS: d.NS, ID: d.ID}, nil)
		return Result{}
	}
	x.txn.Delete(key)
	if rec.Affected == 0 {
		return Result{}
	}
	rec.Interrupted = true
	x.writeAudit(rec)
	return Result{}
}
