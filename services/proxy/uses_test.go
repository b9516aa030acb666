package proxy

import (
	"net/http"
	"testing"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// told is what a node was told of keys, and forgets it.
func (u *upstream) told() []*cellv1.KeyUse {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	uses := u.uses
	u.uses = nil
	return uses
}

// agesUse makes the last use of acme's key one that is to be told again.
func (r *rig) agesUse() {
	key, _ := r.proxy.view.current().keys.get(r.acme.key.ID())
	key.uses[0].atNS.Add(-int64(usedEvery))
}

func TestUses_TwoNodesAreToldOfAKeyOnceInSomeMinutesHoweverOftenItIsUsed(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	want := func(what string, uses int) {
		t.Helper()
		r.proxy.calls.inUse(r.proxy.uses, r.proxy.now())
		r.proxy.tellOnce(t.Context())
		for _, u := range r.up {
			told := u.told()
			if len(told) != uses {
				t.Errorf("%s: node %s was told of %d uses, want %d", what, u.id, len(told), uses)
			}
			for _, use := range told {
				digest := r.acme.key.Digest()
				if at := time.Since(time.Unix(0, use.GetAtNs())); use.GetKeyId() != r.acme.key.ID() || string(use.GetDigest()) != string(digest[:]) || at < 0 || at > time.Minute {
					t.Errorf("%s: told %v", what, use)
				}
			}
		}
	}
	use := func(status int, edit func(*http.Request)) {
		t.Helper()
		if got := r.ask(r.http1, http.MethodGet, "/api/v1/queues", "", edit); got.status != status {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	want("before it was used", 0)
	use(http.StatusUnauthorized, withKey(withID(t, generate(t), r.acme.key)))
	want("refused", 0)
	use(http.StatusOK, withKey(r.acme.key))
	use(http.StatusOK, withKey(r.acme.key))
	want("used", 1)
	use(http.StatusOK, withKey(r.acme.key))
	want("used again at once", 0)

	for _, u := range r.up {
		u.state.mu.Lock()
		u.forgetful = true
		u.state.mu.Unlock()
	}
	r.agesUse()
	use(http.StatusOK, withKey(r.acme.key))
	want("while no node takes it", 0)
	for _, u := range r.up {
		u.state.mu.Lock()
		u.forgetful = false
		u.state.mu.Unlock()
	}
	want("as soon as they do", 1)
}

// A worker's stream is opened once, and may last for months.
func TestUses_AStreamThatIsOpenKeepsItsKeyInUse(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	s := r.worker(r.acme.key).StreamLifecycle(t.Context())
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); err != nil {
		t.Fatal(err)
	}
	r.proxy.tellOnce(t.Context())
	first := r.up[0].told()
	r.agesUse()
	r.proxy.calls.inUse(r.proxy.uses, r.proxy.now())
	r.proxy.tellOnce(t.Context())
	if later := r.up[0].told(); len(first) != 1 || len(later) != 1 || later[0].GetAtNs() <= first[0].GetAtNs() {
		t.Errorf("told %v, and later %v", first, later)
	}
	_ = s.CloseRequest()
	_ = s.CloseResponse()
}

// Noting a use is on the path of every request.
func TestUses_NotingOneAllocatesNothing(t *testing.T) { // Not in parallel: others allocate.
	u, of, now := newUses(), &use{keyID: "key_000000000001"}, time.Now()
	u.note(of, now)
	if n := testing.AllocsPerRun(1000, func() { u.note(of, now.Add(time.Second)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNoteUse(b *testing.B) {
	u, of, now := newUses(), &use{keyID: "key_000000000001"}, time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			u.note(of, now)
		}
	})
}
