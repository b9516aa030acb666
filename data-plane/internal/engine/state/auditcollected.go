package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// auditCollected notes up to where the records are kept elsewhere, and removes old ones of
// those.
func (x *entry) auditCollected(c *command.AuditCollected) Result {
	mark := x.auditEnds(x.m.space.AuditMark())
	mark.Taken = max(mark.Taken, min(c.Through, mark.Last))
	for range auditDropMax {
		if mark.First == 0 || mark.First > mark.Taken || !x.dropOld(&mark) {
			break
		}
	}
	x.txn.Set(x.m.space.AuditMark(), mark.Encode())
	return Result{}
}
