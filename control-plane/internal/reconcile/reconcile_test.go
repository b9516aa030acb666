package reconcile_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	patience = 30 * time.Second
	look     = 5 * time.Millisecond

	tenantID = "tn_01JD0000000000000000000001"
	nsID     = "ns_01JD0000000000000000000002"
	otherNS  = "ns_01JD0000000000000000000003"
	keyID    = "key_aaaaaaaaaaaa"
)

// rig is a database, a cell and a clock that a test moves.
type rig struct {
	store store.Store
	cell  *fakeCell
	cells map[string]reconcile.Cell
	log   *lockedBuffer
	ahead atomic.Int64 // Of the real clock, nanoseconds.
	row   atomic.Int64
	sent  chan string
	mail  func(store.Outbox) error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t *testing.T, url string) *rig {
	t.Helper()
	s := cloudtest.Store(t, url, store.Options{})
	cell, client := newFakeCell(t)
	return &rig{store: s, cell: cell, cells: map[string]reconcile.Cell{"main": client}, log: &lockedBuffer{}, sent: make(chan string, 100)}
}

func onSQLite(t *testing.T) *rig {
	t.Helper()
	return newRig(t, cloudtest.SQLite(t))
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *rig) options() reconcile.Options {
	return reconcile.Options{
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Now: r.now, Poll: look, Scan: time.Hour, Compare: time.Hour,
		BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond, ParkAfter: 3, ParkFor: time.Hour, Claim: 20 * time.Second,
		Limits: func(_ context.Context, _ *store.Tx, t store.Tenant) (*cellv1.Limits, error) {
			if t.Plan == "free" {
				return &cellv1.Limits{EnqueuePerSecond: 100}, nil
			}
			return nil, nil
		},
		MailRefused: func(err error) bool { return errors.Is(err, errNever) },
	}
}

var errNever = errors.New("no such mailbox")

func (r *rig) sendMail(_ context.Context, row store.Outbox) error {
	if r.mail != nil {
		if err := r.mail(row); err != nil {
			return err
		}
	}
	r.sent <- row.ID
	return nil
}

// start runs a loop until the test ends or stop is called.
func (r *rig) start(t *testing.T, o reconcile.Options) (l *reconcile.Loop, stop func()) {
	t.Helper()
	return r.startOver(t, r.store, o)
}

func (r *rig) startOver(t *testing.T, s store.Store, o reconcile.Options) (l *reconcile.Loop, stop func()) {
	t.Helper()
	l = reconcile.New(s, r.cells, r.sendMail, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return l, stop
}

func (r *rig) write(t *testing.T, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	ctx := t.Context()
	if err := r.store.Service(ctx, func(tx *store.Tx) error { return f(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) outbox(kind store.OutboxKind, subject string, due time.Time) store.Outbox {
	return store.Outbox{TenantID: tenantID, ID: fmt.Sprintf("out_%05d", r.row.Add(1)), Kind: kind, Subject: subject, CreatedAt: r.now(), DueAt: due}
}

// tell writes rows for subjects by kind.
func (r *rig) tell(ctx context.Context, tx *store.Tx, kind store.OutboxKind, subjects ...string) error {
	var errs []error
	for _, s := range subjects {
		errs = append(errs, tx.InsertOutbox(ctx, r.outbox(kind, s, r.now())))
	}
	return errors.Join(errs...)
}

func aTenant() store.Tenant {
	return store.Tenant{ID: tenantID, Name: "acme", Plan: "free", Cell: "main", Version: 1, Generation: 1}
}

func aNamespace(id, name string) store.Namespace {
	return store.Namespace{TenantID: tenantID, ID: id, Name: name, Retention: store.Retention{Completed: 60}, Version: 1, Generation: 1}
}

// aMinute is the retention of aNamespace as the cell has it; one that has ended has none.
func aMinute() *cellv1.Retention { return &cellv1.Retention{CompletedNs: int64(time.Minute)} }

func digest(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func aKey() store.Key {
	return store.Key{TenantID: tenantID, ID: keyID, Name: "worker", Kind: cloudv1.KeyKind_KEY_KIND_JOBS, NamespaceIDs: []string{nsID},
		OwnerID:  accountID,
		Versions: []store.KeyVersion{{Digest: digest(1)}}, Version: 1, Generation: 1}
}

const accountID = "sa_01JD0000000000000000000000"

// anAccount is the key's owner, a producer and worker in the whole tenant.
func anAccount(ctx context.Context, tx *store.Tx) error {
	err := tx.InsertServiceAccount(ctx, store.ServiceAccount{TenantID: tenantID, ID: accountID, Name: "worker", Version: 1})
	for i, role := range []string{permission.RoleProducer, permission.RoleWorker} {
		err = errors.Join(err, tx.InsertBinding(ctx, store.Binding{TenantID: tenantID, ID: fmt.Sprint("bnd_", i), PrincipalID: accountID, RoleID: rights.FixedID(role)}))
	}
	return err
}

// producing is what the account may do, in one namespace.
func producing(namespaceID string) []*cellv1.Grant {
	return []*cellv1.Grant{{Permissions: celladmin.RoleSet([]string{permission.RoleProducer, permission.RoleWorker}).Bytes(), NamespaceIds: []string{namespaceID}}}
}

// signUp writes what a sign-up does; the rows are in the wrong order on purpose.
func (r *rig) signUp(t *testing.T) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(
			tx.InsertTenant(ctx, aTenant()), tx.InsertNamespace(ctx, aNamespace(nsID, "default")), tx.InsertKey(ctx, aKey()), anAccount(ctx, tx),
			r.tell(ctx, tx, store.OutboxKey, keyID), r.tell(ctx, tx, store.OutboxNamespace, nsID), r.tell(ctx, tx, store.OutboxTenant, tenantID),
		)
	})
}

// signedUp is what the cell knows then.
func signedUp() *cellv1.State {
	return &cellv1.State{
		Tenants:    []*cellv1.Tenant{{Id: tenantID, Name: "acme", Limits: &cellv1.Limits{EnqueuePerSecond: 100}}},
		Namespaces: []*cellv1.Namespace{{Id: nsID, TenantId: tenantID, Name: "default", Shard: 2, Retention: aMinute()}},
		Keys:       []*cellv1.Key{{Id: keyID, TenantId: tenantID, Name: "worker", Digests: [][]byte{digest(1)}, PrincipalId: accountID, DefaultNamespaceId: nsID, Grants: producing(nsID)}},
	}
}

// waiting counts the rows of the outbox.
func (r *rig) waiting(t *testing.T) (n int) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) (err error) {
		n, _, err = tx.CountOutbox(ctx, r.now().Add(1000*time.Hour))
		return err
	})
	return n
}

func (r *rig) done(t *testing.T) {
	t.Helper()
	eventually.True(t, patience, "an empty outbox\n"+r.log.String(), func() bool { return r.waiting(t) == 0 })
}

func (r *rig) wantCell(t *testing.T, want *cellv1.State) {
	t.Helper()
	if got := r.cell.current(); !proto.Equal(got, want) {
		t.Errorf("the cell holds\n%v\nwant\n%v", got, want)
	}
}

func (r *rig) key(t *testing.T) (k store.Key) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) (err error) {
		k, err = tx.GetKey(ctx, tenantID, keyID)
		return err
	})
	return k
}

func TestCarry_ASignUpIsOneEntryWhateverTheOrderOfItsRows(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": cloudtest.SQLite(t), "postgres": cloudtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, url)
			r.signUp(t)
			l, _ := r.start(t, r.options())
			for kind, id := range map[store.OutboxKind]string{store.OutboxTenant: tenantID, store.OutboxNamespace: nsID, store.OutboxKey: keyID} {
				if ok, err := l.WaitObserved(t.Context(), kind, tenantID, id, 1, patience); !ok || err != nil {
					t.Errorf("%s was not observed: %v", kind, err)
				}
			}
			r.done(t)
			r.wantCell(t, signedUp())
			if n := r.cell.appliedCalls(); n != 1 {
				t.Errorf("%d entries, want 1", n)
			}
		})
	}
}

func TestWaitObserved_IsOverInTime(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.cell.set(func(f *fakeCell) { f.behind = true })
	l, _ := r.start(t, r.options())
	r.signUp(t)
	if ok, err := l.WaitObserved(t.Context(), store.OutboxKey, tenantID, keyID, 1, 200*time.Millisecond); ok || err != nil {
		t.Errorf("observed %v, %v although a proxy is behind", ok, err)
	}
	eventually.True(t, patience, "the cell has it", func() bool { return r.cell.appliedCalls() > 0 })
	if k := r.key(t); k.Observed != 0 {
		t.Errorf("observed %d although a proxy is behind", k.Observed)
	}
	r.cell.set(func(f *fakeCell) { f.behind, f.proxyAt = false, f.state.GetIndex() })
	if ok, err := l.WaitObserved(t.Context(), store.OutboxKey, tenantID, keyID, 1, patience); !ok || err != nil {
		t.Errorf("observed %v, %v although every proxy has it", ok, err)
	}
	if _, err := l.WaitObserved(t.Context(), store.OutboxKey, tenantID, "key_x", 1, patience); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// interrupted is a store that ends the process around one of its transactions.
type interrupted struct {
	store.Store
	calls *atomic.Int64
	at    int64
	after bool
	kill  func()
}

var errKilled = errors.New("killed")

func (i interrupted) Service(ctx context.Context, f func(*store.Tx) error) error {
	n := i.calls.Add(1)
	if n < i.at {
		return i.Store.Service(ctx, f)
	}
	if n == i.at && i.after {
		_ = i.Store.Service(ctx, f) // Its outcome is never told.
	}
	i.kill()
	return errKilled
}

// Wherever a control plane dies, the next one ends in the same state.
func TestKill_BetweenAnyTwoStepsEndsInTheSameState(t *testing.T) {
	t.Parallel()
	type steps struct {
		r    *rig
		kill func()
	}
	cases := map[string]func(s steps) store.Store{
		"before the cell has it": func(s steps) store.Store {
			s.r.cell.before = func() error { s.kill(); return connect.NewError(connect.CodeUnavailable, errKilled) }
			return s.r.store
		},
		"after the cell has it": func(s steps) store.Store {
			s.r.cell.after = func() error { s.kill(); return connect.NewError(connect.CodeUnavailable, errKilled) }
			return s.r.store
		},
		"while proxies are waited for": func(s steps) store.Store {
			s.r.cell.watchers = func() error { s.kill(); return connect.NewError(connect.CodeUnavailable, errKilled) }
			return s.r.store
		},
	}
	// The transactions: claim, read, record.
	for n := int64(1); n <= 3; n++ {
		for _, after := range []bool{false, true} {
			cases[fmt.Sprintf("transaction %d, committed %v", n, after)] = func(s steps) store.Store {
				return interrupted{Store: s.r.store, calls: new(atomic.Int64), at: n, after: after, kill: s.kill}
			}
		}
	}
	for name, arrange := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onSQLite(t)
			r.signUp(t)
			killed := make(chan struct{})
			s := arrange(steps{r, sync.OnceFunc(func() { close(killed) })})
			_, stop := r.startCellsOnly(t, s)
			select {
			case <-killed:
			case <-time.After(patience):
				t.Fatal("the step was never reached")
			}
			stop()
			r.cell.set(func(f *fakeCell) { f.before, f.after, f.watchers = nil, nil, nil })
			r.ahead.Add(int64(time.Minute)) // Claims are over.
			r.start(t, r.options())
			r.done(t)
			r.wantCell(t, signedUp())
			if k := r.key(t); k.Observed != 1 {
				t.Errorf("observed %d, want 1", k.Observed)
			}
		})
	}
}

// startCellsOnly runs only the loop that carries to cells, so that a test can count its
// transactions.
func (r *rig) startCellsOnly(t *testing.T, s store.Store) (l *reconcile.Loop, stop func()) {
	t.Helper()
	o := r.options()
	o.Poll = time.Hour
	l = reconcile.New(s, r.cells, r.sendMail, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); reconcile.RunCells(ctx, l) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return l, stop
}

func TestCell_ThatWasAwayGetsEverythingWhenItIsBack(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	var tries atomic.Int64
	r.cell.before = func() error { tries.Add(1); return connect.NewError(connect.CodeInternal, errors.New("away")) }
	o := r.options()
	o.Poll = time.Hour // The end of a backoff wakes the loop.
	l, _ := r.start(t, o)
	r.signUp(t)
	l.Wake()
	eventually.True(t, patience, "ten tries", func() bool { return tries.Load() >= 10 })
	if n := r.waiting(t); n != 3 {
		t.Errorf("%d rows wait, want 3", n)
	}
	if strings.Contains(r.log.String(), "parked") {
		t.Error("rows were parked although nobody refused them")
	}
	if h := l.Health(); !strings.Contains(h.LastProblem, "away") {
		t.Errorf("health %+v", h)
	}
	r.cell.set(func(f *fakeCell) { f.before = nil })
	r.done(t)
	r.wantCell(t, signedUp())
}

// shaky is a database that goes away.
type shaky struct {
	store.Store
	away atomic.Bool
}

func (s *shaky) Service(ctx context.Context, f func(*store.Tx) error) error {
	if s.away.Load() {
		return errors.New("the database is away")
	}
	return s.Store.Service(ctx, f)
}

// Rows that were claimed when the database went away are processed when it is back, not
// when their claim expires.
func TestClaim_EndsWithAnOutageOfTheDatabase(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	s := &shaky{Store: r.store}
	r.store = s
	var first sync.Once
	r.cell.before = func() (err error) {
		first.Do(func() {
			s.away.Store(true)
			err = connect.NewError(connect.CodeInternal, errors.New("away"))
		})
		return err
	}
	o := r.options()
	o.Claim = time.Hour
	r.start(t, o)
	eventually.True(t, patience, "it could not note what became of the rows", func() bool { return strings.Contains(r.log.String(), "can't record why") })
	s.away.Store(false)
	r.done(t)
	r.wantCell(t, signedUp())
}

func TestLoops_ManyAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": cloudtest.SQLite(t), "postgres": cloudtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, url)
			r.signUp(t)
			// Claims so short that rows change hands while they are under way.
			o := r.options()
			o.Claim = 40 * time.Millisecond
			for range 3 {
				r.start(t, o)
			}
			// On a slow machine nothing is done within such a claim: one loop has time.
			r.start(t, r.options())
			const rounds = 20
			for i := range rounds {
				r.write(t, func(ctx context.Context, tx *store.Tx) error {
					k, err := tx.GetKey(ctx, tenantID, keyID)
					if err != nil {
						return err
					}
					k.Name = fmt.Sprint("name ", i)
					k.Generation++
					return errors.Join(tx.UpdateKey(ctx, &k), r.tell(ctx, tx, store.OutboxKey, keyID))
				})
			}
			eventually.True(t, patience, "everything observed", func() bool { return r.waiting(t) == 0 && r.key(t).Observed == 1+rounds })
			want := signedUp()
			want.Keys[0].Name = fmt.Sprint("name ", rounds-1)
			r.wantCell(t, want)
		})
	}
}

// slow holds one call back until it is released.
type slow struct {
	reconcile.Cell
	once       sync.Once
	held, free chan struct{}
}

func (s *slow) ApplyFor(ctx context.Context, w celladmin.Writer, changes ...*cellv1.Change) (uint64, error) {
	s.once.Do(func() { close(s.held); <-s.free })
	return s.Cell.ApplyFor(ctx, w, changes...)
}

// An outdated state must not undo a newer one.
func TestGeneration_ALateWriterIsRefusedAndReadsAgain(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	late := &slow{Cell: r.cells["main"], held: make(chan struct{}), free: make(chan struct{})}
	r.signUp(t)
	first := r.options()
	first.Poll = time.Hour // It has what it began with, and does not take the revocation, too.
	lateLoop := reconcile.New(r.store, map[string]reconcile.Cell{"main": late}, r.sendMail, first)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { reconcile.RunCells(ctx, lateLoop) })
	defer running.Wait()
	defer cancel()
	free := sync.OnceFunc(func() { close(late.free) })
	defer free()
	<-late.held
	// Meanwhile the key is revoked and another loop carries that.
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		k, err := tx.GetKey(ctx, tenantID, keyID)
		if err != nil {
			return err
		}
		k.RevokedAt, k.Generation = r.now(), 2
		return errors.Join(tx.UpdateKey(ctx, &k), r.tell(ctx, tx, store.OutboxKey, keyID))
	})
	fast, _ := r.start(t, r.options())
	if ok, err := fast.WaitObserved(t.Context(), store.OutboxKey, tenantID, keyID, 2, patience); !ok || err != nil {
		t.Fatalf("observed %v, %v", ok, err)
	}
	free()
	r.done(t)
	want := signedUp()
	want.Keys[0].Revoked, want.Keys[0].Digests, want.Keys[0].Grants, want.Keys[0].DefaultNamespaceId = true, nil, nil, ""
	r.wantCell(t, want)
	if k := r.key(t); k.Observed != 2 {
		t.Errorf("observed %d, want 2", k.Observed)
	}
}

func TestPoison_IsParkedVisiblyAndBlocksNobody(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	o := r.options()
	o.Scan = 20 * time.Millisecond
	l, _ := r.start(t, o)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		bad := aTenant()
		bad.ID, bad.Name = "tn_01JD0000000000000000000009", "poison"
		row := r.outbox(store.OutboxTenant, bad.ID, r.now())
		row.TenantID = bad.ID
		return errors.Join(tx.InsertTenant(ctx, bad), tx.InsertOutbox(ctx, row))
	})
	r.signUp(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error { // A bad namespace of the good tenant too.
		return errors.Join(tx.InsertNamespace(ctx, aNamespace(otherNS, "poison")), r.tell(ctx, tx, store.OutboxNamespace, otherNS))
	})
	l.Wake()
	if ok, err := l.WaitObserved(t.Context(), store.OutboxKey, tenantID, keyID, 1, patience); !ok || err != nil {
		t.Fatalf("the good ones were not observed: %v", err)
	}
	eventually.True(t, patience, "both parked", func() bool { return strings.Count(r.log.String(), "was parked") == 2 && l.Health().Parked == 2 })
	r.wantCell(t, signedUp())
	if n := r.waiting(t); n != 2 {
		t.Errorf("%d rows wait, want the two bad ones", n)
	}
	if h := l.Health(); h.Waiting != 0 || !h.Oldest.IsZero() {
		t.Errorf("health %+v: what is parked counts as waiting", h)
	}
	r.ahead.Add(int64(2 * time.Hour))
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.GetNamespace(ctx, tenantID, otherNS)
		if err != nil {
			return err
		}
		n.Name, n.Generation = "good", 2
		return tx.UpdateNamespace(ctx, &n)
	})
	if ok, err := l.WaitObserved(t.Context(), store.OutboxNamespace, tenantID, otherNS, 2, patience); !ok || err != nil {
		t.Errorf("a mended record was not carried when its time came: %v", err)
	}
}

func TestUnknownCell_IsARefusalNotACrash(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	l, _ := r.start(t, r.options())
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		lost := aTenant()
		lost.Cell = "mars"
		return errors.Join(tx.InsertTenant(ctx, lost), r.tell(ctx, tx, store.OutboxTenant, tenantID))
	})
	l.Wake()
	eventually.True(t, patience, "a log line naming the cell", func() bool { return strings.Contains(r.log.String(), `\"mars\"`) })
}

// The expiry of a rotated secret is sent with it, so the cell ends it by itself.
func TestKey_TheExpiryOfASecretIsInTheCell(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	l, _ := r.start(t, r.options())
	r.signUp(t)
	end := r.now().Add(time.Hour)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		k, err := tx.GetKey(ctx, tenantID, keyID)
		if err != nil {
			return err
		}
		k.Versions = []store.KeyVersion{{Digest: digest(1), ExpiresAt: end}, {Digest: digest(2)}}
		k.Generation = 2
		return errors.Join(tx.UpdateKey(ctx, &k), tx.InsertOutbox(ctx, r.outbox(store.OutboxKey, keyID, r.now())), tx.InsertOutbox(ctx, r.outbox(store.OutboxKey, keyID, end)))
	})
	if ok, err := l.WaitObserved(t.Context(), store.OutboxKey, tenantID, keyID, 2, patience); !ok || err != nil {
		t.Fatalf("observed %v, %v", ok, err)
	}
	want := signedUp()
	want.Keys[0].Digests, want.Keys[0].DigestEndsNs = [][]byte{digest(1), digest(2)}, []int64{end.UnixNano(), 0}
	r.wantCell(t, want)
	r.ahead.Add(int64(2 * time.Hour))
	r.done(t)
	r.wantCell(t, want)
}

func TestNamespaces_MayExchangeTheirNamesAndTakeThoseOfTheEnded(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertNamespace(ctx, aNamespace(otherNS, "other")), r.tell(ctx, tx, store.OutboxNamespace, otherNS))
	})
	_, stop := r.start(t, r.options())
	r.done(t)
	stop()
	rename := func(id, name string) {
		r.write(t, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.GetNamespace(ctx, tenantID, id)
			if err != nil {
				return err
			}
			n.Name = name
			n.Generation++
			return errors.Join(tx.UpdateNamespace(ctx, &n), r.tell(ctx, tx, store.OutboxNamespace, id))
		})
	}
	rename(nsID, "passing")
	rename(otherNS, "default")
	rename(nsID, "other")
	_, stop = r.start(t, r.options())
	r.done(t)
	stop()
	want := signedUp()
	want.Namespaces[0].Name = "other"
	want.Namespaces = append(want.Namespaces, &cellv1.Namespace{Id: otherNS, TenantId: tenantID, Name: "default", Shard: 2, Retention: aMinute()})
	r.wantCell(t, want)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.GetNamespace(ctx, tenantID, nsID)
		if err != nil {
			return err
		}
		n.DeletedAt, n.Generation = r.now(), n.Generation+1
		n.Name = n.ID // As whoever ends one does, so that the name is free.
		return tx.UpdateNamespace(ctx, &n)
	})
	rename(otherNS, "other") // Its row alone: the ended one comes along.
	r.start(t, r.options())
	r.done(t)
	want.Namespaces[0].Deleted, want.Namespaces[0].Retention = true, nil
	want.Namespaces[0].Name = "x-01jd0000000000000000000002" // The cell takes names only.
	want.Namespaces[1].Name = "other"
	r.wantCell(t, want)
}

func TestUser_ARemovedMemberIsCutOff(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	row := r.outbox(store.OutboxUser, "usr_1", r.now())
	r.write(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertOutbox(ctx, row) })
	r.start(t, r.options())
	r.done(t)
	want := signedUp()
	want.UserCutoffs = []*cellv1.UserCutoff{{TenantId: tenantID, UserId: "usr_1", NotBeforeNs: row.CreatedAt.UnixNano()}}
	r.wantCell(t, want)
}

// The cell judges tokens by its own time, so the moment that ends them is one of its own.
func TestUser_IsCutOffInTheTimeOfTheCell(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{8 * time.Hour, -8 * time.Hour} {
		r := onSQLite(t)
		r.signUp(t)
		row := r.outbox(store.OutboxUser, "usr_1", r.now())
		r.write(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertOutbox(ctx, row) })
		o := r.options()
		o.CellAhead = func(context.Context, string) time.Duration { return ahead }
		r.start(t, o)
		r.done(t)
		want := signedUp()
		want.UserCutoffs = []*cellv1.UserCutoff{{TenantId: tenantID, UserId: "usr_1", NotBeforeNs: row.CreatedAt.Add(ahead).UnixNano()}}
		r.wantCell(t, want)
	}
}

func TestScan_FindsWhatNoRowPointsTo(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertTenant(ctx, aTenant()), tx.InsertNamespace(ctx, aNamespace(nsID, "default")), tx.InsertKey(ctx, aKey()), anAccount(ctx, tx))
	})
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := r.options()
	o.Scan = 20 * time.Millisecond
	o.TokenKeys = func(context.Context, *store.Tx) ([]*cellv1.TokenKey, error) {
		return []*cellv1.TokenKey{celladmin.TokenKey(public, time.Time{})}, nil
	}
	l, _ := r.start(t, o)
	want := signedUp()
	want.TokenKeys = []*cellv1.TokenKey{celladmin.TokenKey(public, time.Time{})}
	eventually.True(t, patience, "the cell knows all of it", func() bool { return proto.Equal(r.cell.current(), want) })
	r.done(t)
	eventually.True(t, patience, "its health says so", func() bool { h := l.Health(); return !h.TakenAt.IsZero() && h.Waiting == 0 })
	before := r.cell.appliedCalls()
	taken := l.Health().TakenAt
	eventually.True(t, patience, "more scans", func() bool { return l.Health().TakenAt.After(taken) })
	if after := r.cell.appliedCalls(); after != before {
		t.Errorf("%d entries were written for nothing", after-before)
	}
}

func TestCompare_CorrectsACellThatDiffersAndDeletesNothing(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		ended := aNamespace(otherNS, "ended")
		ended.DeletedAt = r.now()
		return errors.Join(tx.InsertNamespace(ctx, ended), r.tell(ctx, tx, store.OutboxNamespace, otherNS))
	})
	_, stop := r.start(t, r.options())
	r.done(t)
	stop()
	stranger := &cellv1.Tenant{Id: "tn_01JD000000000000000000000X", Name: "stranger"}
	r.cell.set(func(f *fakeCell) {
		f.state.Keys[0].Digests = [][]byte{digest(9)}
		for _, n := range f.state.Namespaces {
			n.Name, n.Deleted, n.Retention = "wrong-"+n.GetId(), false, nil
		}
		f.state.Tenants[0].Limits = nil
		f.state.Tenants = append(f.state.Tenants, stranger)
	})
	o := r.options()
	o.Compare = 20 * time.Millisecond
	r.start(t, o)
	want := signedUp()
	want.Tenants = append(want.Tenants, stranger)
	want.Namespaces = append(want.Namespaces, &cellv1.Namespace{Id: otherNS, TenantId: tenantID, Name: "ended", Deleted: true, Shard: 2})
	eventually.True(t, patience, "the cell is mended", func() bool { return proto.Equal(r.cell.current(), want) })
}

// Only the database still knows what was deleted long ago: if it were written again, the
// cell would keep a record of it for another while, forever.
func TestCompare_WhatTheCellHasForgottenIsNoDifference(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	_, stop := r.start(t, r.options())
	r.done(t)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		tenant, err := tx.FindTenant(ctx, tenantID)
		if err != nil {
			return err
		}
		k, err := tx.GetKey(ctx, tenantID, keyID)
		if err != nil {
			return err
		}
		tenant.DeletedAt, k.RevokedAt = r.now(), r.now()
		tenant.Generation, k.Generation = tenant.Generation+1, k.Generation+1
		return errors.Join(tx.UpdateTenant(ctx, &tenant), tx.UpdateKey(ctx, &k),
			r.tell(ctx, tx, store.OutboxTenant, tenantID), r.tell(ctx, tx, store.OutboxKey, keyID))
	})
	r.done(t)
	stop()
	r.cell.set(func(f *fakeCell) { f.state.Tenants, f.state.Keys, f.state.Namespaces = nil, nil, nil })
	before := r.cell.appliedCalls()
	var asked atomic.Int64
	for name, cell := range r.cells {
		r.cells[name] = outdated{cell, func() { asked.Add(1) }}
	}
	o := r.options()
	o.Compare = 5 * time.Millisecond
	r.start(t, o)
	eventually.True(t, patience, "compared", func() bool { return asked.Load() > 5 })
	r.done(t)
	if n := r.cell.appliedCalls() - before; n != 0 {
		t.Errorf("%d entries were written: %v", n, r.cell.current())
	}
}

// outdated runs during after each state that a cell sent, and before it is used.
type outdated struct {
	reconcile.Cell
	during func()
}

func (o outdated) State(ctx context.Context) (*cellv1.State, error) {
	s, err := o.Cell.State(ctx)
	o.during()
	return s, err
}

// A change that is carried while states are compared is no difference.
func TestCompare_ChangesThatAreUnderWayAreNoDifference(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	carrier, _ := r.startCellsOnly(t, r.store)
	carrier.Wake()
	r.done(t)
	const enough = 6
	var changes atomic.Int64
	var changing sync.Mutex     // Or one would go on when another was enough.
	told := maps.Clone(r.cells) // The carrier has the other one.
	for name, cell := range told {
		told[name] = outdated{cell, func() {
			changing.Lock()
			defer changing.Unlock()
			if changes.Load() >= enough { // The test is ending, and its context with it.
				return
			}
			r.write(t, func(ctx context.Context, tx *store.Tx) error {
				k, err := tx.GetKey(ctx, tenantID, keyID)
				if err != nil {
					return err
				}
				k.Name = fmt.Sprint("name ", k.Generation)
				k.Generation++
				return errors.Join(tx.UpdateKey(ctx, &k), r.tell(ctx, tx, store.OutboxKey, keyID))
			})
			carrier.Wake()
			r.done(t)
			changes.Add(1)
		}}
	}
	r.cells = told
	o := r.options()
	o.Compare = 5 * time.Millisecond
	r.start(t, o)
	eventually.True(t, patience, "some comparisons", func() bool { return changes.Load() >= enough })
	if strings.Contains(r.log.String(), "something else") {
		t.Errorf("a false alarm:\n%s", r.log)
	}
}

func TestMail_IsSentTriedAgainAndDroppedWhenRefused(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	var tries atomic.Int64
	r.mail = func(row store.Outbox) error {
		switch {
		case row.Subject == "never":
			return errNever
		case row.Subject == "later" && tries.Add(1) < 4:
			return errors.New("try later")
		}
		return nil
	}
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return r.tell(ctx, tx, store.OutboxMail, "now", "never", "later")
	})
	l, _ := r.start(t, r.options())
	l.Wake()
	r.done(t)
	if got := []string{<-r.sent, <-r.sent}; got[0] == got[1] || len(r.sent) != 0 {
		t.Errorf("sent %v and %d more", got, len(r.sent))
	}
	if tries.Load() != 4 {
		t.Errorf("%d tries, want 4", tries.Load())
	}
	if !strings.Contains(r.log.String(), "permanently refused") {
		t.Error("a dropped email was not logged")
	}
}

func TestSweep_RemovesWhatHasExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	now := r.now()
	long, soon := now.Add(-30*24*time.Hour), now.Add(time.Hour)
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		session := func(d string, expires time.Time) store.Session {
			return store.Session{Digest: d, ID: d, UserID: "usr_1", ExpiresAt: expires}
		}
		signup := func(d string, expires time.Time) store.Signup {
			return store.Signup{ID: d, Digest: d, Email: d, ExpiresAt: expires}
		}
		token := func(d string, expires time.Time) store.Token {
			return store.Token{Digest: d, Purpose: "login", ExpiresAt: expires}
		}
		_, oldRate := tx.CountRate(ctx, "b", long)
		_, newRate := tx.CountRate(ctx, "b", now)
		return errors.Join(
			tx.InsertUser(ctx, store.User{ID: "usr_1", Email: "e"}), tx.InsertSession(ctx, session("old", long)), tx.InsertSession(ctx, session("new", soon)),
			tx.InsertSignup(ctx, signup("old", long)), tx.InsertSignup(ctx, signup("new", soon)), tx.InsertSignup(ctx, signup("just expired", now.Add(-time.Hour))),
			tx.InsertToken(ctx, token("old", long)), tx.InsertToken(ctx, token("new", soon)),
			tx.InsertAnswer(ctx, store.Answer{TenantID: tenantID, RequestID: "old", CreatedAt: long}), tx.InsertAnswer(ctx, store.Answer{TenantID: tenantID, RequestID: "new", CreatedAt: now}),
			oldRate, newRate,
		)
	})
	r.start(t, r.options())
	has := func(f func(ctx context.Context, tx *store.Tx) error) bool {
		err := r.store.ReadService(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) })
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	for what, get := range map[string]func(string) func(ctx context.Context, tx *store.Tx) error{
		"session": func(d string) func(ctx context.Context, tx *store.Tx) error {
			return func(ctx context.Context, tx *store.Tx) error { _, err := tx.GetSession(ctx, d); return err }
		},
		"sign-up": func(d string) func(ctx context.Context, tx *store.Tx) error {
			return func(ctx context.Context, tx *store.Tx) error { _, err := tx.GetSignup(ctx, d); return err }
		},
		"answer": func(d string) func(ctx context.Context, tx *store.Tx) error {
			return func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.GetAnswer(ctx, tenantID, "", "", d)
				return err
			}
		},
	} {
		eventually.True(t, patience, "old "+what+" gone", func() bool { return !has(get("old")) })
		if !has(get("new")) {
			t.Errorf("new %s gone", what)
		}
	}
	if !has(func(ctx context.Context, tx *store.Tx) error { _, err := tx.GetSignup(ctx, "just expired"); return err }) {
		t.Error("a sign-up that has just expired is gone: its link would not say so")
	}
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.CountRate(ctx, "b", now)
		if n != 2 {
			t.Errorf("the running window counts %d, want 2", n)
		}
		_, oldErr := tx.UseToken(ctx, "new", "login", now)
		return errors.Join(err, oldErr)
	})
}
