package ratelimit

import (
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
)

// Rate is how often something may happen: Burst at once, and PerSecond from then on.
type Rate struct{ PerSecond, Burst float64 }

// bucketsMax bounds the memory of one Buckets. An entry that has filled up again says
// nothing and is dropped; if none has, any one is: whoever has that many networks is not
// held up by losing one.
const bucketsMax = 50_000

// Buckets count in memory, per key, for this process alone.
type Buckets struct {
	rate Rate

	mu  sync.Mutex
	all map[string]bucket // Guarded by mu.
}

// bucket is how much was left at a time.
type bucket struct {
	left float64
	at   time.Time
}

// NewBuckets makes Buckets of a rate.
func NewBuckets(r Rate) *Buckets { return &Buckets{rate: r, all: map[string]bucket{}} }

// Take takes one, or returns how long to wait until there is one.
func (b *Buckets) Take(key string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.left(key, now)
	if left < 1 {
		return b.until(left)
	}
	if _, known := b.all[key]; !known && len(b.all) >= bucketsMax {
		b.makeRoom(now)
	}
	b.all[key] = bucket{left: left - 1, at: now}
	return 0
}

// Wait returns how long Take would have to wait, and takes nothing.
func (b *Buckets) Wait(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.left(key, now); left < 1 {
		return b.until(left)
	}
	return 0
}

func (b *Buckets) left(key string, now time.Time) float64 {
	was, ok := b.all[key]
	if !ok {
		return b.rate.Burst
	}
	return min(b.rate.Burst, was.left+max(0, now.Sub(was.at).Seconds())*b.rate.PerSecond)
}

func (b *Buckets) until(left float64) time.Duration {
	return time.Duration((1 - left) / b.rate.PerSecond * float64(time.Second))
}

// makeRoom looks at some entries only: a call must not pay for all of them.
func (b *Buckets) makeRoom(now time.Time) {
	const looked = 64
	seen, any := 0, ""
	for key := range b.all {
		if b.left(key, now) >= b.rate.Burst {
			delete(b.all, key)
		}
		if any, seen = key, seen+1; seen == looked {
			break
		}
	}
	if len(b.all) >= bucketsMax {
		delete(b.all, any)
	}
}

// TooMany is the refusal of a call that must wait.
func TooMany(reason, what string, wait time.Duration) *fault.Error {
	refusal := fault.New(fault.Exhausted, reason, "too many %s; try again in %s", what, words(wait.Round(time.Second)))
	refusal.RetryAfter = max(wait, time.Millisecond)
	return refusal
}

// Anonymous limits callers of whom only the address is known. Their calls are counted in
// memory, before anything is asked of the database: for one customer of a network and
// for the network around.
type Anonymous struct{ narrow, wide *Buckets }

// Rates of calls without a credential: an office behind one address types, signs up and
// signs in without meeting them. The wide one is for whoever moves inside a network.
var (
	anonymousNarrow = Rate{PerSecond: 10, Burst: 300}
	anonymousWide   = Rate{PerSecond: 40, Burst: 1200}
)

// NewAnonymous limits at the usual rates.
func NewAnonymous() *Anonymous {
	return &Anonymous{narrow: NewBuckets(anonymousNarrow), wide: NewBuckets(anonymousWide)}
}

// Take counts a call from an address; its refusal, or nil.
func (s *Anonymous) Take(addr string, now time.Time) *fault.Error {
	wait := s.narrow.Take(Peer(addr), now)
	if wait == 0 {
		wait = s.wide.Take(Network(addr), now)
	}
	if wait == 0 {
		return nil
	}
	return TooMany("TOO_MANY_REQUESTS", "requests from your network", wait)
}

// Check refuses like Take, and counts nothing: what is counted is only known afterwards,
// as with credentials that turn out to be none.
func (s *Anonymous) Check(addr string, now time.Time) *fault.Error {
	if wait := s.narrow.Wait(Peer(addr), now); wait > 0 {
		return TooMany("TOO_MANY_REQUESTS", fmt.Sprintf("requests with invalid credentials from %s", Peer(addr)), wait)
	}
	return nil
}

// recentMax bounds Recent.
const recentMax = 20_000

// Recent remembers some of what was added.
type Recent struct {
	mu  sync.Mutex
	all map[string]struct{} // Guarded by mu.
}

// NewRecent makes an empty one.
func NewRecent() *Recent { return &Recent{all: map[string]struct{}{}} }

// Add remembers a key, and forgets another if there is no room.
func (r *Recent) Add(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.all[key]; known {
		return
	}
	for other := range r.all {
		if len(r.all) < recentMax {
			break
		}
		delete(r.all, other)
	}
	r.all[key] = struct{}{}
}

// Has reports whether a key is remembered.
func (r *Recent) Has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.all[key]
	return known
}
