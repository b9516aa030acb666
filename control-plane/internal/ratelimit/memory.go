package ratelimit

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
)

// Rate is how often something may happen: Burst at once, and PerSecond from then on.
type Rate struct {
	PerSecond float64
	Burst     int
}

// bucketsMax bounds the memory of one Buckets. An entry that has filled up again says
// nothing and is dropped; if none has, any one is: whoever has that many networks is not
// held up by losing one.
const bucketsMax = 50_000

// Buckets count in memory, per key, for this process alone.
type Buckets struct {
	rate Rate

	mu  sync.Mutex
	all map[string]*rate.Limiter // Guarded by mu.
}

// NewBuckets makes Buckets of a rate.
func NewBuckets(r Rate) *Buckets { return &Buckets{rate: r, all: map[string]*rate.Limiter{}} }

// Take takes one, or returns how long to wait until there is one.
func (b *Buckets) Take(key string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[key] == nil {
		if len(b.all) >= bucketsMax {
			b.makeRoom(now)
		}
		b.all[key] = rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.Burst)
	}
	if b.all[key].AllowN(now, 1) {
		return 0
	}
	return b.wait(key, now)
}

// Wait returns how long Take would have to wait, and takes nothing.
func (b *Buckets) Wait(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(key, now)
}

func (b *Buckets) wait(key string, now time.Time) time.Duration {
	l, ok := b.all[key]
	if !ok {
		return 0
	}
	return max(0, time.Duration((1-l.TokensAt(now))/b.rate.PerSecond*float64(time.Second)))
}

// makeRoom looks at some entries only: a call must not pay for all of them.
func (b *Buckets) makeRoom(now time.Time) {
	const looked = 64
	seen, any := 0, ""
	for key := range b.all {
		if b.all[key].TokensAt(now) >= float64(b.rate.Burst) {
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
