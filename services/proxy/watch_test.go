package proxy

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// movableClock is a clock that a test can set ahead.
type movableClock struct{ ahead atomic.Int64 }

func (c *movableClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func generate(t testing.TB) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestStaleState_KnownKeysWorkAndUnknownAreAskedToRetry(t *testing.T) {
	t.Parallel()
	clock := &movableClock{}
	r := startRig(t, rigOptions{options: func(o *Options) { o.Now = clock.now }})
	status := func(k apikey.Key) answer { return r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(k)) }
	stranger, wrong := generate(t), withID(t, generate(t), r.acme.key)
	revoked, changes := newTenant(t, "gone", 3)
	revoked.record.Revoked = true
	r.apply(changes...)
	r.state.muted.Store(true)
	heard := r.proxy.view.heard.Load()
	eventually.True(t, patience, "heartbeats end", func() bool {
		was := heard
		heard = r.proxy.view.heard.Load()
		time.Sleep(120 * time.Millisecond) // Twice the heartbeat.
		return was == heard
	})
	if got := status(stranger); got.status != 401 {
		t.Errorf("fresh, unknown: %d", got.status)
	}
	// Far enough for the state, not for the signatures: the nodes' clock stays.
	r.proxy.view.heard.Store(clock.now().Add(-61 * time.Second).UnixNano())
	for name, k := range map[string]apikey.Key{"unknown": stranger, "wrong secret": wrong} {
		got := status(k)
		if got.status != 503 || !strings.Contains(got.body, `"AUTH_STATE_STALE"`) || got.header.Get("Retry-After") == "" {
			t.Errorf("stale, %s: %d %s", name, got.status, got.body)
		}
	}
	if got := status(r.acme.key); got.status != 200 {
		t.Errorf("stale, known: %d %s", got.status, got.body)
	}
	if got := status(revoked.key); got.status != 401 {
		t.Errorf("stale, revoked: %d", got.status)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", nil); got.status != 401 {
		t.Errorf("stale, none: %d", got.status)
	}
	_, err := r.worker(stranger).GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("stale, RPC: %v", err)
	}
	r.state.muted.Store(false)
	eventually.True(t, patience, "fresh again", func() bool { return status(stranger).status == 401 })
}

func TestStart_WithoutAnyStateNoKeyIsRefusedForGood(t *testing.T) {
	t.Parallel()
	state := newCellState()
	state.muted.Store(true)
	up := startUpstream(t, "n1", state)
	r := &rig{t: t, state: state}
	r.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), Nodes: []string{up.url}})
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(generate(t))); got.status != 503 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.ask(r.http1, "GET", "/readyz", "", nil); got.status != 503 || !strings.Contains(got.body, `"code":"UNHEALTHY"`) {
		t.Errorf("readyz: %d", got.status)
	}
	if got := r.ask(r.http1, "GET", "/healthz", "", nil); got.status != 200 {
		t.Errorf("healthz: %d", got.status)
	}
}

func TestRestart_ServesFromDiskWhileTheMetaGroupIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRig(t, rigOptions{options: func(o *Options) { o.DataDir = dir }})
	eventually.True(t, patience, "the state is on disk", func() bool {
		// Not by openStateFiles: there is one owner of the directory.
		state, err := (&stateFiles{dir: dir, log: slog.New(slog.DiscardHandler)}).load()
		return err == nil && state.GetIndex() == r.state.index
	})
	end(t, r.proxy)
	r.state.muted.Store(true) // Nodes serve, their watch says nothing.
	r2 := &rig{t: t, state: r.state, acme: r.acme, beta: r.beta, up: r.up}
	r2.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), DataDir: dir, Nodes: []string{r.up[0].url}})
	eventually.True(t, patience, "ready", r2.proxy.Ready)
	if got := r2.ask(r2.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)); got.status != 200 || got.seen.Identity.TenantName != "acme" {
		t.Errorf("known: %d %s", got.status, got.body)
	}
	open(t, r2)
	if got := r2.ask(r2.http1, "GET", "/api/v1/queues", "", withKey(generate(t))); got.status != 503 {
		t.Errorf("unknown: %d", got.status)
	}
	k := proto.CloneOf(r.acme.record)
	k.Revoked = true
	r.state.apply(keyChange(k))
	r.state.muted.Store(false)
	eventually.True(t, patience, "the revocation arrives", func() bool {
		return r2.ask(r2.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)).status == 401
	})
}

func end(t *testing.T, p *Proxy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestWatch_NodeDeathDelaysNoRevocation(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 3})
	for i := range 2 {
		r.up[i].kill()
		k := proto.CloneOf(r.acme.record)
		k.Revoked = i == 0
		start := time.Now()
		r.state.apply(keyChange(k))
		want := map[bool]int{true: 401, false: 200}[k.GetRevoked()]
		eventually.True(t, time.Second, "the change is followed", func() bool {
			return r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)).status == want
		})
		t.Logf("after %v", time.Since(start))
	}
}

func TestWatch_NodeThatIsNotReadyIsLeft(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 3})
	watched := func() map[string]bool {
		r.proxy.watchedMu.Lock()
		defer r.proxy.watchedMu.Unlock()
		return maps.Clone(r.proxy.watched)
	}
	eventually.True(t, patience, "two nodes are watched", func() bool { return len(watched()) == watchers })
	var left *upstream
	for _, u := range r.up {
		if watched()[u.url] {
			left = u
		}
	}
	left.ready.Store(false)
	eventually.True(t, patience, "it is left for another", func() bool { now := watched(); return len(now) == watchers && !now[left.url] })
}

func TestView_OlderStateIsNeverTaken(t *testing.T) {
	t.Parallel()
	v, now := newView(), time.Now()
	tenant, changes := newTenant(t, "acme", 0)
	revoked := proto.CloneOf(tenant.record)
	revoked.Revoked = true
	v.take(&cellv1.WatchResponse{Index: 5, State: (&snapshot{}).with(changes, 5).state()}, now)
	v.take(&cellv1.WatchResponse{Index: 7, Changes: []*cellv1.Change{keyChange(revoked)}}, now)
	later := now.Add(time.Minute)
	if behind := v.take(&cellv1.WatchResponse{Index: 6, State: (&snapshot{}).with(changes, 6).state()}, later); !behind {
		t.Error("an older state was taken for current")
	}
	if behind := v.take(&cellv1.WatchResponse{Index: 6}, later); !behind {
		t.Error("an older heartbeat was taken for current")
	}
	v.take(&cellv1.WatchResponse{Index: 7, Changes: []*cellv1.Change{keyChange(tenant.record)}}, later) // A repetition.
	if rec, _ := v.current().keys.get(tenant.key.ID()); !rec.proto.GetRevoked() {
		t.Error("the revoked key came back")
	}
	if v.fresh(later.Add(freshFor)) {
		t.Error("a node that is behind made the state fresh")
	}
	if v.take(&cellv1.WatchResponse{Index: 7}, later); !v.fresh(later.Add(freshFor)) {
		t.Error("a current heartbeat should make the state fresh")
	}
}

func TestStateFiles_DamagedNewestGivesTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"bit flipped": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"cut off":     func(b []byte) []byte { return b[:len(b)/2] },
		"empty":       func([]byte) []byte { return nil },
		"zeros":       func(b []byte) []byte { return make([]byte, len(b)) },
		"grown":       func(b []byte) []byte { return append(b, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var logged syncBuffer
			files, err := openStateFiles(dir, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			_, changes := newTenant(t, "acme", 0)
			for i := range uint64(5) {
				if err := files.save((&snapshot{}).with(changes, i+1).state()); err != nil {
					t.Fatal(err)
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(left) != filesKept {
				t.Fatalf("%v %v", left, err)
			}
			newest := left[len(left)-1]
			data, err := os.ReadFile(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(newest, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, ".corvo-tmp-1"), []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := openStateFiles(dir, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			state, err := again.load()
			if err != nil || state.GetIndex() != 4 || len(state.GetKeys()) != 1 {
				t.Fatalf("%v %v", state, err)
			}
			if !strings.Contains(logged.String(), "damaged") {
				t.Error("no warning")
			}
			if err := again.save((&snapshot{}).with(changes, 9).state()); err != nil {
				t.Fatal(err)
			}
			if state, err := again.load(); err != nil || state.GetIndex() != 9 {
				t.Fatalf("after the next save: %v %v", state, err)
			}
			if _, err := os.Stat(filepath.Join(dir, ".corvo-tmp-1")); err == nil {
				t.Error("an unfinished file was left")
			}
		})
	}
}

func TestStateFiles_AllDamagedGivesNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"state-1.bin", "state-00000000000000000002.bin", "state-x.bin", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := openStateFiles(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if state, err := files.load(); err != nil || state != nil {
		t.Fatalf("%v %v", state, err)
	}
}

func FuzzDecodeState(f *testing.F) {
	files, err := openStateFiles(f.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	_, changes := newTenant(f, "acme", 0)
	if err := files.save((&snapshot{}).with(changes, 1).state()); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(files.path(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := decodeState(data)
		if err != nil {
			return
		}
		// Whatever is whole can be laid out and asked.
		snap := snapshotOf(state)
		_, _ = snap.key(shown{key: generate(t)}, address{}, nil, time.Now())
	})
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRestart_AProxyThatWasAwayForLong: while it was away a key was revoked and the cell has
// forgotten it. A copy that is too old accepts no key until a node sends the state; one that
// is younger than the cell's memory is served from, and corrected by the whole state.
func TestRestart_AProxyThatWasAwayForLong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		away  time.Duration
		alone bool // Whether it serves before a node sends the state.
	}{
		"longer than a copy counts": {celladmin.CopyKept + time.Minute, false},
		"not as long":               {celladmin.CopyKept - time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := startRig(t, rigOptions{options: func(o *Options) { o.DataDir = dir }})
			files := &stateFiles{dir: dir, log: slog.New(slog.DiscardHandler)}
			onDisk := func() *cellv1.State {
				state, err := files.load()
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			eventually.True(t, patience, "the state is on disk", func() bool { return onDisk().GetIndex() == r.state.index })
			end(t, r.proxy)
			state := onDisk()
			if at := time.Unix(0, state.GetConfirmedNs()); time.Since(at) > time.Minute {
				t.Fatalf("the file says that it was confirmed at %v", at)
			}
			state.ConfirmedNs = time.Now().Add(-tc.away).UnixNano()
			files.seq = 1_000
			if err := files.save(state); err != nil {
				t.Fatal(err)
			}
			r.state.muted.Store(true)
			k := proto.CloneOf(r.acme.record)
			k.Revoked = true
			r.state.apply(keyChange(k))
			r.state.apply(forgetChange(k.GetId()))
			r.state.cut()

			r2 := &rig{t: t, state: r.state, acme: r.acme, beta: r.beta, up: r.up}
			r2.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), DataDir: dir, Nodes: []string{r.up[0].url}})
			status := func(of tenantRig) answer { return r2.ask(r2.http1, "GET", "/api/v1/queues", "", withKey(of.key)) }
			if tc.alone {
				eventually.True(t, patience, "it serves", func() bool { return status(r.beta).status == 200 })
			} else if got := status(r.acme); got.status != 503 || !strings.Contains(got.body, "AUTH_STATE_STALE") || r2.proxy.Ready() {
				t.Errorf("from a copy that is too old: %d %s", got.status, got.body)
			}
			r.state.muted.Store(false)
			eventually.True(t, patience, "a key that still is", func() bool { return status(r.beta).status == 200 && r2.proxy.view.current().index == r.state.index })
			if got := status(r.acme); got.status != 401 {
				t.Errorf("the forgotten key: %d %s", got.status, got.body)
			}
		})
	}
}

func TestView_AStateThatNobodyConfirmedForLongIsDropped(t *testing.T) {
	t.Parallel()
	v, now := newView(), time.Now()
	tenant, changes := newTenant(t, "acme", 0)
	node := &cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: "n1", ApiUrl: "http://127.0.0.1:1"}}}
	whole := &cellv1.WatchResponse{Index: 5, State: (&snapshot{}).with(append(changes, node), 5).state()}
	v.take(whole, now)
	known := func() bool { _, ok := v.current().keys.get(tenant.key.ID()); return ok }
	late := now.Add(celladmin.CopyKept)
	if v.expire(late) || !known() {
		t.Fatal("dropped too soon")
	}
	if !v.expire(late.Add(1)) || known() || v.loaded.Load() || v.current().index != 0 || len(v.current().nodes) != 1 {
		t.Fatalf("not dropped: %+v", v.current())
	}
	// Changes from an earlier watch are not a whole state: unknown keys would be refused for good.
	for name, msg := range map[string]*cellv1.WatchResponse{
		"a change":    {Index: 6, Changes: []*cellv1.Change{node}},
		"a heartbeat": {Index: 5},
	} {
		if !v.take(msg, late) || v.loaded.Load() || v.fresh(late) {
			t.Errorf("%s was taken for the state", name)
		}
	}
	if v.take(whole, late); !known() || v.expire(late.Add(time.Hour)) {
		t.Error("a whole state should make it serve again")
	}
}

func TestSnapshot_DropsWhatTheCellForgot(t *testing.T) {
	t.Parallel()
	tenant, changes := newTenant(t, "acme", 0)
	full := (&snapshot{}).with(changes, 1)
	id := full.keys
	rec, ok := id.get(tenant.key.ID())
	if !ok {
		t.Fatal("no key")
	}
	next := full.with([]*cellv1.Change{forgetChange(tenant.key.ID()), forgetChange(rec.proto.GetTenantId()), forgetChange("key_unknown")}, 2)
	if next.keys.size != 0 || next.tenants.size != 0 || len(next.state().GetKeys())+len(next.state().GetTenants())+len(next.state().GetNamespaces()) != 0 {
		t.Errorf("still there: %v", next.state())
	}
	if full.keys.size != 1 || full.tenants.size != 1 {
		t.Error("an old snapshot changed")
	}
	if s := touchedBy(&cellv1.WatchResponse{Changes: []*cellv1.Change{forgetChange(tenant.key.ID())}}); !s.keys[tenant.key.ID()] {
		t.Error("calls of a forgotten key are not looked at")
	}
}

func forgetChange(id string) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Forget{Forget: &cellv1.Forget{Gone: []*cellv1.Gone{{Id: id}}}}}
}

func TestNodes_SayWhetherTheyAreReadyOldOnesByAnotherCall(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	older := r.up[1]
	older.older.Store(true)
	readyAre := func(want ...bool) func() bool {
		return func() bool {
			for _, n := range *r.proxy.nodes.list.Load() {
				at := slices.IndexFunc(r.up, func(u *upstream) bool { return u.url == n.base.String() })
				if at < 0 || n.ready.Load() != want[at] {
					return false
				}
			}
			return true
		}
	}
	eventually.True(t, patience, "both are ready", readyAre(true, true))
	probed := older.probed.Load()
	older.ready.Store(false)
	eventually.True(t, patience, "the older one is not", readyAre(true, false))
	r.up[0].ready.Store(false)
	eventually.True(t, patience, "neither is", readyAre(false, false))
	if older.probed.Load() == probed || r.up[0].probed.Load() > 0 {
		t.Errorf("asked by /readyz: the older one %d times, the other one %d", older.probed.Load()-probed, r.up[0].probed.Load())
	}
}
