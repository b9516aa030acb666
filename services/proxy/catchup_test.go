package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func generateKind(t testing.TB, kind string) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(apikey.Kind(kind))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNewKey_IsNotRefusedWhileItIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	r.proxy.LookPatiently()
	fresh, rotated := generate(t), withID(t, generate(t), r.acme.key)
	freshDigest, oldDigest, newDigest := fresh.Digest(), r.acme.key.Digest(), rotated.Digest()
	r.state.muted.Store(true)
	time.AfterFunc(30*time.Millisecond, func() { r.state.muted.Store(false) })
	r.state.apply(
		keyChange(&cellv1.Key{Id: fresh.ID(), TenantId: r.acme.id, Digests: [][]byte{freshDigest[:]}, Grants: granted("admin")}),
		keyChange(&cellv1.Key{Id: rotated.ID(), TenantId: r.acme.id, Digests: [][]byte{oldDigest[:], newDigest[:]}, Grants: granted("admin")}),
		&cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: r.acme.namespace("added")}},
	)
	var asked sync.WaitGroup
	for name, k := range map[string]apikey.Key{"new key": fresh, "new secret": rotated} {
		asked.Go(func() {
			if got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", withKey(k)); got.status != 200 {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		})
	}
	asked.Go(func() {
		got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", both(withKey(r.acme.key), header("X-Corvo-Namespace", "added")))
		if got.status != 200 {
			t.Errorf("new namespace: %d %s", got.status, got.body)
		}
	})
	asked.Wait()
}

func TestUnknownKeys_ManyDoNotQueryTheCellMoreOften(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	before, start := r.state.asked.Load(), time.Now()
	var callers sync.WaitGroup
	var refused atomic.Int64
	for range 16 {
		callers.Go(func() {
			for range 40 {
				if r.ask(r.h2c, "GET", "/api/v1/queues", "", withKey(generate(t))).status == 401 {
					refused.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if refused.Load() != 16*40 {
		t.Errorf("%d of %d refused", refused.Load(), 16*40)
	}
	most := int64(time.Since(start)/lagCheckEvery) + 2
	if asked := r.state.asked.Load() - before; asked > most || asked == 0 {
		t.Errorf("the cell was asked %d times in %v, want at most %d", asked, time.Since(start), most)
	}
}

func TestUnknownKey_IsRefusedInTimeWhenTheCellDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.state.muted.Store(true)
	r.state.apply(cutoffChange(r.acme.id, testUser, time.Now())) // Never reaches the proxy.
	start := time.Now()
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(generate(t))); got.status != 401 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if took := time.Since(start); took > 20*lagCheckMax { // A busy machine; the cell would never answer.
		t.Errorf("it took %v", took)
	}
}

func TestLookouts_ANewcomerIsNotAnsweredByAnOlderQuestion(t *testing.T) {
	t.Parallel()
	asking, answer := make(chan struct{}), make(chan error)
	l := newLagChecks(func(context.Context) error { asking <- struct{}{}; return <-answer })
	l.max = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(ctx) }()
	defer func() { cancel(); <-ended }()

	first, second := make(chan bool, 1), make(chan bool, 1)
	go func() { first <- l.caughtUp(ctx) }()
	<-asking
	go func() { second <- l.caughtUp(ctx) }()
	eventually.True(t, patience, "the second waits", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.waiting == 2 })
	answer <- nil
	if !<-first {
		t.Error("the first was not answered")
	}
	<-asking
	answer <- errors.New("no")
	if <-second {
		t.Error("the second got the first's answer")
	}
}

func TestLookouts_NumberOfWaitingRequestsIsBounded(t *testing.T) {
	t.Parallel()
	l := newLagChecks(func(context.Context) error { return nil })
	for range lagCheckWaitersMax {
		if l.join() == nil {
			t.Fatal("refused below the bound")
		}
	}
	if l.caughtUp(t.Context()) {
		t.Error("one too many was let in")
	}
}

func TestConfirm_FollowsTheStateAndTellsWhenTheProxyServes(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	said := func() *cellv1.ConfirmWatchRequest {
		r.state.mu.Lock()
		defer r.state.mu.Unlock()
		return r.state.confirmed[r.proxy.id]
	}
	eventually.True(t, patience, "it says that it serves", func() bool { c := said(); return c.GetReady() && c.GetIndex() == r.state.index })
	r.apply(keyChange(r.acme.record))
	eventually.True(t, patience, "it confirms a change", func() bool { return said().GetIndex() == r.state.index })
	r.proxy.ending.Store(true)
	eventually.True(t, patience, "it says that it leaves", func() bool { return !said().GetReady() })
}

// Its nodes must not wait for it to come back, so the last word is sent also when its watch is over.
func TestConfirm_AProxyThatEndsSaysSo(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	said := func() *cellv1.ConfirmWatchRequest {
		r.state.mu.Lock()
		defer r.state.mu.Unlock()
		return r.state.confirmed[r.proxy.id]
	}
	eventually.True(t, patience, "it says that it serves", func() bool { return said().GetReady() })
	r.proxy.ending.Store(true)
	r.proxy.stop()
	r.proxy.loops.Wait()
	if said().GetReady() {
		t.Error("it ended, and its node still counts on it")
	}
}

// Without a node that answers it is not ready, but lets callers in by what it has.
func TestConfirm_CountsWhileNoNodeAnswers(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.up[0].kill()
	eventually.True(t, patience, "it is not ready", func() bool { return !r.proxy.Ready() })
	if !r.proxy.confirmation(1).GetReady() {
		t.Error("what it lets in is not waited for")
	}
}

func TestConfirm_OnlyAfterOpenCallsWereEnded(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.sayThenWait("data: first\n\n")
	lines, done := r.events(withKey(r.acme.key))
	defer done()
	r.proxy.calls.mu.Lock() // What ends calls waits for this.
	r.acme.record.Revoked = true
	r.state.apply(keyChange(r.acme.record))
	eventually.True(t, patience, "the state is taken", func() bool { return r.proxy.view.current().index == r.state.index })
	if at, _ := r.proxy.applied.now(); at == r.state.index {
		t.Error("confirmed before the revoked key's call was ended")
	}
	r.proxy.calls.mu.Unlock()
	eventually.True(t, patience, "it is confirmed", func() bool { at, _ := r.proxy.applied.now(); return at == r.state.index })
	for {
		if _, err := lines.ReadByte(); err != nil {
			break
		}
	}
}
