// Package ratelimit limits how often a client may make an expensive call. What is worth a
// row (an email, say) is counted in fixed windows in the database, shared by all control
// planes and kept over restarts. Calls that must not reach the database at all are counted
// in memory, per process.
//
// No bucket is shared by all clients: a flood uses up the limit of its own network only.
//
// It must not know what is counted. Surprising: refused calls count too, so that retrying
// in a loop does not help. The counts must therefore be committed although the call is
// refused: the refusal is store.CommitDespite.
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
	// What is shown to people: "sign-ups for this email address". Help, optional, says what
	// to do instead.
	What, Help string
}

// Count adds one to each limit until one is exceeded, which is a refusal. Limits
// after the one that refuses are not counted. List the caller's own limits first and shared
// ones last, or a single caller could use up a shared limit.
func Count(ctx context.Context, tx *store.Tx, now time.Time, limits ...Limit) error {
	for _, l := range limits {
		if l.Max <= 0 {
			continue
		}
		window := now.Truncate(l.Window)
		n, err := tx.CountRate(ctx, l.Bucket, window)
		if err != nil {
			return fmt.Errorf("count %s: %w", l.What, err)
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
		return store.CommitDespite(refusal)
	}
	return nil
}

// EmailLimits are how many emails are mailed to addresses that anybody may give; 0: no limit.
// None is shared by all, and none lets a stranger keep somebody out.
type EmailLimits struct {
	// PeerPerHour is of one client, NetworkPerHour of the network around it.
	PeerPerHour, NetworkPerHour int
	// EmailPerHour is of one network for one address, PerAddress for one address in
	// AddressWindow, whoever asks.
	EmailPerHour, PerAddress int
	AddressWindow            time.Duration
}

// Limits are those of one email. The words say what people read that there were too many
// of: from their network, from it for the address, and for the address.
func (l EmailLimits) Limits(room, peer, email string, words [3]string) []Limit {
	network := Network(peer)
	return []Limit{
		{Bucket: room + ".peer:" + Peer(peer), Window: time.Hour, Max: l.PeerPerHour, What: words[0]},
		{Bucket: room + ".network:" + network, Window: time.Hour, Max: l.NetworkPerHour, What: words[0]},
		{Bucket: room + ".email:" + network + " " + email, Window: time.Hour, Max: l.EmailPerHour, What: words[1]},
		{Bucket: room + ".address:" + email, Window: l.AddressWindow, Max: l.PerAddress, What: words[2], Help: "the link in the newest email still works"},
	}
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
