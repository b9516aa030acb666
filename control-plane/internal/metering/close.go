package metering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// tenantsPerClose bounds a transaction: others wait for the writer of SQLite.
	tenantsPerClose = 2000
	// SilentFor is how long a proxy may be unheard before hours close without it: it has ended,
	// or what it tells later is a correction.
	SilentFor = 10 * time.Minute
	// keptHours of readings are kept after their closing; longer than they take corrections.
	keptHours = horizon + 5*24
	// deletedAtOnce bounds a transaction.
	deletedAtOnce = 5000
)

// Hour is the number of the hour that a time is in.
func Hour(t time.Time) int64 { return t.Unix() / 3600 }

// Start is when an hour begins.
func Start(hour int64) time.Time { return time.Unix(hour*3600, 0).UTC() }

// Complete is the first hour of which some source may still tell something. A shard that was
// never heard, and one that is silent, hold every hour; a proxy that is silent holds none.
func Complete(sources []store.UsageSource, shards []uint32, now time.Time) int64 {
	to := now
	for _, n := range shards {
		var told time.Time
		for _, s := range sources {
			if s.Source == fmt.Sprintf("%s%d", shardPrefix, n) && !s.Ended {
				told = s.CompleteTo
			}
		}
		if told.Before(to) {
			to = told
		}
	}
	for _, s := range sources {
		if !strings.HasPrefix(s.Source, shardPrefix) && now.Sub(s.HeardAt) < SilentFor && s.CompleteTo.Before(to) {
			to = s.CompleteTo
		}
	}
	if len(shards) == 0 || to.IsZero() {
		return 0
	}
	return Hour(to)
}

// lateAfter is how far a source may be behind, and hours may be open, before somebody should
// look: sources tell every few seconds.
const lateAfter = 5 * time.Minute

// Late are the sources of a cell that keep hours from closing; see Complete.
func Late(sources []store.UsageSource, now time.Time) (out []store.UsageSource) {
	for _, s := range sources {
		holds := !s.Ended
		if !strings.HasPrefix(s.Source, shardPrefix) {
			holds = now.Sub(s.HeardAt) < SilentFor
		}
		if holds && now.Sub(s.CompleteTo) > lateAfter {
			out = append(out, s)
		}
	}
	return out
}

// LateClosing reports whether the last hour that ended should be closed and isn't.
func LateClosing(at store.UsageClosing, now time.Time) bool {
	return at.Hour < Hour(now.Add(-lateAfter-SilentFor))
}

// Close closes the next hour of a cell that ends before an hour, for some of its tenants. It
// reports whether there is more to close.
func Close(ctx context.Context, tx *store.Tx, cell string, before int64, now time.Time) (more bool, _ error) {
	at, err := Closing(ctx, tx, cell, before)
	if err != nil || at.Hour >= before {
		return false, err
	}
	tenants, err := tx.UsageTenantsOf(ctx, cell, at.Hour, at.TenantsTo, tenantsPerClose)
	if err != nil {
		return false, err
	}
	hour, after := at.Hour, at.TenantsTo
	if len(tenants) < tenantsPerClose {
		at.Hour, at.TenantsTo = at.Hour+1, ""
	} else {
		at.TenantsTo = tenants[len(tenants)-1]
	}
	at.ClosedAt = now
	// The position is written first: of two that close at once, one waits here and begins anew,
	// instead of finding the other's rows.
	if err := tx.PutUsageClosing(ctx, at); err != nil {
		return false, err
	}
	if len(tenants) > 0 {
		_, err = tx.CloseUsage(ctx, cell, hour, after, tenants[len(tenants)-1], now)
	}
	return at.Hour < before, err
}

// Closing is where closing goes on; at first with the first hour that was told of.
func Closing(ctx context.Context, tx *store.Tx, cell string, before int64) (store.UsageClosing, error) {
	at, err := tx.GetUsageClosing(ctx, cell)
	if !errors.Is(err, store.ErrNotFound) {
		return at, err
	}
	at = store.UsageClosing{Cell: cell, Hour: before}
	first, err := tx.FirstUsageHour(ctx, cell)
	if errors.Is(err, store.ErrNotFound) {
		return at, nil
	}
	at.Hour = min(first, before)
	return at, err
}

// Forget deletes some readings that are too old to be corrected, and reports whether there may
// be more.
func Forget(ctx context.Context, tx *store.Tx, cell string) (more bool, _ error) {
	at, err := tx.GetUsageClosing(ctx, cell)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := tx.DeleteUsageReadings(ctx, cell, at.Hour-keptHours, deletedAtOnce)
	return n == deletedAtOnce, err
}
