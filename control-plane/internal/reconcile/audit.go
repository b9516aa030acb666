package reconcile

import (
	"context"
	"errors"

	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
)

const auditLease = "audit"

// tendAudit chains entries that an older control plane wrote, signs the heads that are due
// and deletes what is older than the retention. One loop at a time does it.
func (l *Loop) tendAudit(ctx context.Context) error {
	if l.o.Audit == nil {
		return nil
	}
	mine, err := l.mine(ctx, auditLease, 2*l.o.Scan)
	if err != nil || !mine {
		return err
	}
	if chained, err := audit.Chain(ctx, l.store); err != nil {
		return err
	} else if chained > 0 {
		l.o.Log.InfoContext(ctx, "chained entries of audit logs", "entries", chained)
	}
	signed := l.o.Audit.SignHeads(ctx)
	if audit.IsBroken(signed) {
		l.o.Log.ErrorContext(ctx, "an audit log was changed in the database; its heads aren't signed", "error", signed)
	}
	deleted, err := l.o.Audit.Expire(ctx, l.o.AuditRetention)
	if deleted > 0 {
		l.o.Log.InfoContext(ctx, "deleted old entries of audit logs", "entries", deleted)
	}
	return errors.Join(signed, err)
}
