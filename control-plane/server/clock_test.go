package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
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

// timeNode says what time it is, and counts calls that were signed in its time, and those
// that were not although the caller had known it before: nobody waits long for a node's
// first answer, so the first calls may go by the caller's own clock.
type timeNode struct {
	*httptest.Server

	good, bad atomic.Int64
}

func startTimeNode(t *testing.T, secrets *cellsecret.Secrets) *timeNode {
	t.Helper()
	prover, err := cellclock.NewProver(secrets)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := identity.NewSigner(secrets)
	if err != nil {
		t.Fatal(err)
	}
	k := new(timeNode)
	clock := prover.Handler(cellclock.NewMachineClock())
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == cellclock.Path {
			clock.ServeHTTP(w, r)
			return
		}
		switch _, err := signer.VerifyRequest(r, time.Now()); {
		case err == nil:
			k.good.Add(1)
		case k.good.Load() > 0:
			k.bad.Add(1)
		}
		http.Error(w, "no", http.StatusNotImplemented)
	}))
	k.Config.Protocols = new(http.Protocols)
	k.Config.Protocols.SetUnencryptedHTTP2(true)
	k.Start()
	t.Cleanup(k.Close)
	return k
}

func (s *stage) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// A control plane whose clock is wrong signs calls to its cell in the cell's time, and
// says that its clock is wrong.
func TestClock_AControlPlaneThatIsOffGoesByItsCellAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": 8 * time.Hour, "behind": -8 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &skewed{Clock: cellclock.NewMachineClock()}
			clock.by.Store(int64(by))
			var node *timeNode
			s := newStageOn(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"), func(c *Config) {
				node = startTimeNode(t, c.Cells[0].Secrets)
				c.Clock, c.Cells[0].URLs = clock, []string{node.URL}
			})
			s.run(t)
			eventually.True(t, 20*time.Second, "the cell is called", func() bool { return node.good.Load() > 0 })
			ready := func() string { return s.do(t, "GET", "/readyz", "").body }
			eventually.True(t, 20*time.Second, "/readyz says so", func() bool { return strings.Contains(ready(), "wrong clock: the clock is 8h0m0s "+name) })
			if text := ready(); !strings.HasPrefix(text, "ok\n") || !strings.Contains(text, "oldest_change_seconds 0\n") || !strings.Contains(text, "(cell cell-1)") {
				t.Errorf("readyz: %s", text)
			}
			eventually.True(t, 20*time.Second, "the log says so", func() bool { return strings.Contains(s.log.String(), "this machine's clock is wrong") })
			if d := time.Until(s.cellNow(t.Context(), "cell-1")); d > time.Minute || d < -time.Minute {
				t.Errorf("the cell's time is %s off", d)
			}
			clock.by.Store(int64(-by))
			before := node.good.Load()
			eventually.True(t, 20*time.Second, "the cell is called after a jump", func() bool { return node.good.Load() > before+3 })
			clock.by.Store(0)
			eventually.True(t, 20*time.Second, "nothing is wrong any more", func() bool { return !strings.Contains(ready(), "wrong clock") })
			if n := node.bad.Load(); n > 0 {
				t.Errorf("%d calls were signed in another time", n)
			}
		})
	}
}
