package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	sweepLease = "sweep"
	// Expired links are kept for a while, so that a person who clicks one is told that
	// it has expired, not that it does not exist.
	keepLinks = 7 * 24 * time.Hour
	// keepAnswers is how long a call may be repeated.
	keepAnswers = 24 * time.Hour
	// keepRates is longer than the longest window that is counted.
	keepRates = 48 * time.Hour
	// A temporary key is revoked once no clock of a cell takes it, and its record is kept for
	// those who ask about it the next day.
	temporaryKeyGrace = time.Minute
	keepTemporaryKeys = 48 * time.Hour
)

// sweep removes what has expired. One loop at a time does it.
func (l *Loop) sweep(ctx context.Context) error {
	now := l.o.Now()
	mine, err := l.mine(ctx, sweepLease, 2*l.o.Scan)
	if err != nil || !mine {
		return err
	}
	for what, remove := range map[string]func(tx *store.Tx) (int, error){
		"sessions":         func(tx *store.Tx) (int, error) { return tx.DeleteSessionsBefore(ctx, now) },
		"sign-ups":         func(tx *store.Tx) (int, error) { return tx.DeleteSignupsBefore(ctx, now.Add(-keepLinks)) },
		"tokens":           func(tx *store.Tx) (int, error) { return tx.DeleteTokensBefore(ctx, now.Add(-keepLinks)) },
		"device logins":    func(tx *store.Tx) (int, error) { return tx.DeleteDeviceLoginsBefore(ctx, now.Add(-keepLinks)) },
		"answers":          func(tx *store.Tx) (int, error) { return tx.DeleteAnswersBefore(ctx, now.Add(-keepAnswers)) },
		"rates":            func(tx *store.Tx) (int, error) { return tx.DeleteRatesBefore(ctx, now.Add(-keepRates)) },
		"exchanged tokens": func(tx *store.Tx) (int, error) { return tx.DeleteTrustTokensBefore(ctx, now) },
		// The scan tells their cells.
		"ended temporary keys": func(tx *store.Tx) (int, error) { return tx.EndTemporaryKeys(ctx, now.Add(-temporaryKeyGrace)) },
		"old temporary keys":   func(tx *store.Tx) (int, error) { return tx.DeleteTemporaryKeysBefore(ctx, now.Add(-keepTemporaryKeys)) },
	} {
		n, failed := store.Get(ctx, l.store.Service, remove)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("sweep %s: %w", what, failed))
		} else if n > 0 {
			l.o.Log.DebugContext(ctx, "deleted expired rows", "what", what, "rows", n)
		}
	}
	return err
}
