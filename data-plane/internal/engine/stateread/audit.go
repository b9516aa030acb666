package stateread

import (
	"bytes"
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// AuditPage is some audit records of a group, oldest first.
type AuditPage struct {
	Records []records.AuditRecord
	// Last is the number of the newest record of the group, Taken up to where a control
	// plane said that it keeps them.
	Last, Taken uint64
}

// ReadAudit reads the records behind a number.
func ReadAudit(g *statedb.Group, after uint64, limit int) (p AuditPage, err error) {
	space := keys.In(g.Prefix())
	mark, there, err := Get(g, space.AuditMark(), records.DecodeAuditEnds)
	if err != nil || !there {
		return p, err
	}
	p.Last, p.Taken = mark.Last, mark.Taken
	from, to := space.AuditFrom(after + 1)
	err = g.Scan(from, to, func(key, value []byte) (bool, error) {
		number, err := space.AuditNumber(key)
		if err != nil {
			return false, err
		}
		rec, err := records.DecodeAudit(number, bytes.Clone(value)) // Its detail outlives the call.
		p.Records = append(p.Records, rec)
		return err == nil && len(p.Records) < limit, err
	})
	return p, err
}

// ReadAuditOf reads the records of one namespace before a number of its own, newest
// first; 0 begins with the newest.
func ReadAuditOf(g *statedb.Group, ns job.Namespace, before uint64, limit int) (out []records.AuditRecord, err error) {
	if before == 0 {
		before = 1<<64 - 1
	}
	view := g.View()
	defer func() { err = errors.Join(err, view.Close()) }()
	space := keys.In(g.Prefix())
	from, to := space.AuditsOf(ns, before)
	err = view.ScanBack(from, to, func(_, value []byte) (bool, error) {
		number, err := records.DecodeNumber(value)
		if err != nil {
			return false, err
		}
		v, err := view.Get(space.Audit(number))
		if err != nil {
			return false, err
		}
		rec, err := records.DecodeAudit(number, v)
		out = append(out, rec)
		return err == nil && len(out) < limit, err
	})
	return out, err
}
