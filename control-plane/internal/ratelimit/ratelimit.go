// Package flood owns how often somebody may do what costs us something. What is worth a
// row (a letter, say) is counted in fixed windows in the database, so that all control
// planes count together and a restart forgets nothing. What must not even reach the
// database is counted in memory, per process.
//
// No bucket is shared by everybody: a flood uses up what its own network may do, and shuts
// nothing for others.
//
// It must not know what is counted. Surprising: what is refused counts too, so that
// hammering does not help, and the counts must therefore be committed although the call
// is refused; the caller returns nil from its transaction and the refusal afterwards.
package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
)

// Limit is how often something may happen in a window.
type Limit struct {
	// Bucket names what is counted, with a prefix of the room that counts.
	Bucket string
	Window time.Duration
	Max    int
	// What is for people: "sign-ups for this email address". Help is a way on; optional.
	What, Help string
}

// Count adds one to each limit until one is passed, and gives its refusal; nil if none
// is. What one limit refuses is not held against those after it: so name what is the
// caller's own first, and last what all share, or one caller could use that up for all.
func Count(ctx context.Context, tx store.Tx, now time.Time, limits ...Limit) (*fault.Error, error) {
	for _, l := range limits {
		if l.Max <= 0 {
			continue
		}
		window := now.Truncate(l.Window)
		n, err := tx.CountRate(ctx, l.Bucket, window)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", l.What, err)
		}
		if n <= l.Max {
			continue
		}
		wait := window.Add(l.Window).Sub(now).Round(time.Second) + time.Second
		refusal := fault.New(fault.Exhausted, "TOO_MANY_REQUESTS",
			"too many %s: the limit is %d in %s; try again in %s", l.What, l.Max, words(l.Window), words(wait))
		refusal.RetryAfter = wait
		if l.Help != "" {
			refusal.Message += "; " + l.Help
		}
		return refusal, nil
	}
	return nil, nil
}

// Peer is the bucket of a client's address.
func Peer(addr string) string { return clientnet.Narrow(addr) }

// Network is the bucket of the network around a client's address.
func Network(addr string) string { return clientnet.Wide(addr) }

// words writes a duration as people say it.
func words(d time.Duration) string {
	switch {
	case d <= time.Second:
		return "a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int((d + time.Minute - 1).Minutes()))
	}
	return fmt.Sprintf("%d hours", int((d + time.Hour - 1).Hours()))
}
