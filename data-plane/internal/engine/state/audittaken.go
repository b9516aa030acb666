package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// auditTaken notes up to where the records are kept elsewhere, and removes old ones of
// those.
func (x *entry) auditTaken(c *command.AuditTaken) (Result, error) {
	mark, err := x.auditEnds(x.m.space.AuditMark())
	if err != nil {
		return Result{}, err
	}
	mark.Taken = max(mark.Taken, min(c.Through, mark.Last))
	for range auditDropMax {
		if mark.First == 0 || mark.First > mark.Taken {
			break
		}
		if dropped, err := x.dropOld(&mark); err != nil {
			return Result{}, err
		} else if !dropped {
			break
		}
	}
	x.txn.Set(x.m.space.AuditMark(), mark.Encode())
	return Result{}, nil
}
