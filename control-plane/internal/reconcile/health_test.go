package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// The age of the oldest change is reported, however often the cell refused it.
func TestHealth_ReportsTheOldestChangeThatNoCellAccepted(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.cell.before = func() error { return refuse(connect.CodeInvalidArgument, "INVALID_ARGUMENT") }
	o := r.options()
	o.ParkAfter, o.Scan = 1, 20*time.Millisecond
	began := r.now()
	r.signUp(t)
	l, _ := r.start(t, o)
	eventually.True(t, patience, "all parked", func() bool { return l.Health().Parked == 3 })
	if h := l.Health(); h.OldestChange.IsZero() || h.OldestChange.Before(began.Add(-time.Second)) || h.OldestChange.After(r.now()) {
		t.Errorf("the oldest change waits since %v, want %v", h.OldestChange, began)
	}
}

var errLocked = errors.New("sealed with a key that is not here")

// An email that cannot be decrypted is parked visibly, and sent when it can be.
func TestMail_ALockedEmailIsParkedAndSentWhenTheKeyIsBack(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.mail = func(store.Outbox) error { return errLocked }
	o := r.options()
	o.Scan, o.LockedFor = 20*time.Millisecond, time.Minute
	o.MailLocked = func(err error) bool { return errors.Is(err, errLocked) }
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertOutbox(ctx, r.outbox(store.OutboxMail, "sign-in", r.now()))
	})
	l, stop := r.start(t, o)
	eventually.True(t, patience, "parked", func() bool { return l.Health().Parked == 1 })
	if n := strings.Count(r.log.String(), "was parked"); n != 1 {
		t.Errorf("said %d times: %s", n, r.log.String())
	}
	stop()
	r.mail = nil // The next process has the key.
	r.ahead.Add(int64(time.Minute))
	r.start(t, o)
	select {
	case <-r.sent:
	case <-time.After(patience):
		t.Fatal("the email was never sent")
	}
}
