package reconcile

import (
	"context"
	"errors"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// mailRows makes one piece of work of each email.
func (l *Loop) mailRows(rows []store.Outbox) (out []func(context.Context)) {
	for _, r := range rows {
		out = append(out, func(ctx context.Context) { l.sendOne(ctx, r) })
	}
	return out
}

// sendOne sends an email and then removes its row: an email may arrive twice, but it
// arrives.
func (l *Loop) sendOne(ctx context.Context, row store.Outbox) {
	err := l.mail(ctx, row)
	if err != nil && l.o.MailLocked(err) {
		l.park(ctx, row, l.o.LockedFor, err)
		return
	}
	refused := err != nil && l.o.MailRefused(err)
	if err != nil && !refused {
		l.fail(ctx, row, false, err)
		return
	}
	if refused {
		l.health.fail(l.o.Now(), err)
		l.o.Log.ErrorContext(ctx, "an email was permanently refused and dropped", "outbox", row.ID, "tenant", row.TenantID, "subject", row.Subject, "error", err)
	}
	if done := l.finish(ctx, []store.Outbox{row}, nil); done != nil {
		l.fail(ctx, row, false, errors.Join(done, err))
	}
}
