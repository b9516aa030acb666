package proxy

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
)

// skewed is a machine whose wall clock is off.
type skewed struct {
	cellclock.Clock

	by atomic.Int64
}

func (s *skewed) Now() (time.Time, time.Duration) {
	wall, mono := s.Clock.Now()
	return wall.Add(time.Duration(s.by.Load())), mono
}

// A wrong clock of the proxy is invisible to customers: the nodes' time decides what has expired.
func TestClock_AProxyWhoseClockIsOffGoesByThatOfTheNodes(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, m := &skewed{Clock: cellclock.NewMachineClock()}, newMint(t)
			clock.by.Store(int64(by))
			r := startRig(t, rigOptions{nodes: 3, options: func(o *Options) { o.Clock = clock }})
			ended, _ := newTenant(t, "acme", 0) // Another key of the same tenant.
			ended.record.NotAfterNs = time.Now().Add(-time.Minute).UnixNano()
			r.apply(m.change(), keyChange(ended.record))
			look := func(when string) {
				t.Helper()
				if got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", withToken(m.token(r.acme, "default", nil))); got.status != 200 {
					t.Errorf("%s: a good token: %d %s", when, got.status, got.body)
				}
				if got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", withKey(ended.key)); got.status != 401 {
					t.Errorf("%s: a key that ended a minute ago: %d %s", when, got.status, got.body)
				}
			}
			look("from the start")
			clock.by.Store(0)
			look("set right")
			clock.by.Store(int64(-by))
			look("jumped")
		})
	}
}

// Until a node has answered with the time, no key is refused as expired.
func TestClock_BeforeTheTimeIsKnownNothingHasExpired(t *testing.T) {
	t.Parallel()
	c := cellclock.NewTime(nil)
	if c.Known() {
		t.Fatal("known before anybody was asked")
	}
	for _, ref := range []*refusal{refuseExpired, refuseTokenExpired} {
		if !ref.ofTime {
			t.Errorf("%q is for a clock to say", ref.message)
		}
	}
	if refuseClock.status != 503 {
		t.Errorf("status %d", refuseClock.status)
	}
}
