package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func oneByOne(rows []store.Outbox) [][]store.Outbox { return slices.Collect(slices.Chunk(rows, 1)) }

// send sends emails.
func (l *Loop) send(ctx context.Context, rows []store.Outbox) {
	for _, r := range rows {
		l.sendOne(ctx, r)
	}
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
	// Also if the time is over, or this process ends: else it would be sent again.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if done := l.finish(noting, []store.Outbox{row}, nil); done != nil {
		l.fail(ctx, row, false, errors.Join(done, err))
	}
}
