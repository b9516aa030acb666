// Package cloudtest gives tests of the control plane's use cases what stands around them:
// a real database, a clock that is set by hand, addresses, and the emails that were
// written. It must not know any use case. Surprising: Each runs a test twice, on SQLite
// and on PostgreSQL.
package cloudtest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// World is what stands around a use case.
type World struct {
	kit.Kit

	mu  sync.Mutex
	now time.Time // Guarded by mu.
}

// New makes a World on SQLite.
func New(t testing.TB) *World {
	t.Helper()
	return open(t, SQLite(t))
}

// migrated is a SQLite database with the schema of today; made once in a process, because
// tests are many and migrations too.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "cloudtest-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "control.db")
	if err := migrate("sqlite:" + file); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	content, err := os.ReadFile(file)
	return content, errors.Join(err, os.RemoveAll(dir))
})

// onPostgres is the same on PostgreSQL.
var onPostgres = pgtest.NewTemplate(migrate)

func migrate(databaseURL string) error {
	s, err := store.Open(context.Background(), databaseURL, store.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// SQLite is the address of a database with the schema of today, and nothing in it.
func SQLite(t testing.TB) string {
	t.Helper()
	content, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "control.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + file
}

// Postgres is the address of such a database on PostgreSQL.
func Postgres(t testing.TB) string {
	t.Helper()
	return onPostgres.Start(t)
}

// Store opens a database and closes it with the test.
func Store(t testing.TB, databaseURL string, o store.Options) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), databaseURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Each runs a test on both databases; PostgreSQL is left out of short runs.
func Each(t *testing.T, test func(*testing.T, *World)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, New(t))
	})
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a PostgreSQL server")
		}
		t.Parallel()
		test(t, open(t, Postgres(t)))
	})
}

// EachBench runs a benchmark on both databases.
func EachBench(b *testing.B, bench func(*testing.B, *World)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) { bench(b, New(b)) })
	b.Run("postgres", func(b *testing.B) { bench(b, open(b, pgtest.Start(b))) })
}

func open(t testing.TB, databaseURL string) *World {
	t.Helper()
	s := Store(t, databaseURL, store.Options{})
	box, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	u, err := urls.New("http://corvo.test:8080", func(name string) string { return "http://corvo.test:8080/t/" + name })
	if err != nil {
		t.Fatal(err)
	}
	w := &World{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	w.Kit = kit.Kit{Store: s, IDs: ids.NewMaker(), Now: w.Now, Log: slog.New(slog.DiscardHandler), Seal: box, URLs: u, Wake: func() {}, CollectActs: func(context.Context) {}}
	return w
}

// Now is the world's time.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Advance lets time pass.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Service runs f in a transaction of the service.
func (w *World) Service(t testing.TB, f func(context.Context, *store.Tx) error) {
	t.Helper()
	if err := w.Store.Service(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// Outbox takes the rows written since it was asked last.
func (w *World) Outbox(t testing.TB) (rows []store.Outbox) {
	t.Helper()
	const far = 1000 * time.Hour
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		rows, err = tx.ClaimOutbox(ctx, "cloudtest", w.Now(), w.Now().Add(far), 1000)
		return err
	})
	return rows
}

// Emails takes the emails written since it, or Outbox, was asked last.
func (w *World) Emails(t testing.TB) (emails []mail.Message) {
	t.Helper()
	for _, row := range w.Outbox(t) {
		if row.Kind != store.OutboxMail {
			continue
		}
		m, err := mail.Take(w.Seal, row)
		if err != nil {
			t.Fatal(err)
		}
		emails = append(emails, m)
	}
	return emails
}

// Email takes the one email written since then.
func (w *World) Email(t testing.TB) mail.Message {
	t.Helper()
	all := w.Emails(t)
	if len(all) != 1 {
		t.Fatalf("%d emails were written, want 1", len(all))
	}
	return all[0]
}

// Token is the token of the link in an email.
func Token(t testing.TB, m mail.Message) string {
	t.Helper()
	_, after, ok := strings.Cut(m.Text, "#token=")
	if !ok {
		t.Fatalf("no link in the email:\n%s", m.Text)
	}
	token, err := url.QueryUnescape(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Tenant makes a tenant and its owner.
func (w *World) Tenant(t testing.TB, name, email string) (store.Tenant, store.User) {
	t.Helper()
	now := w.Now()
	tn := store.Tenant{
		ID: w.IDs.New(ids.Tenant, now), Name: name, DisplayName: name, Plan: "free", Cell: "test", CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTenant(ctx, tn) })
	return tn, w.Member(t, tn.ID, email, permission.RoleOwner)
}

// Member makes a user who is a member of a tenant.
func (w *World) Member(t testing.TB, tenantID, email string, role string) store.User {
	t.Helper()
	now := w.Now()
	u := store.User{ID: w.IDs.New(ids.User, now), Email: email, CreatedAt: now}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertUser(ctx, u); err != nil {
			return err
		}
		if err := tx.InsertMembership(ctx, store.Membership{TenantID: tenantID, UserID: u.ID, CreatedAt: now, Version: 1}); err != nil {
			return err
		}
		return tx.InsertBinding(ctx, w.binding(tenantID, u.ID, role))
	})
	return u
}

// binding gives a fixed role in the whole tenant.
func (w *World) binding(tenantID, principalID, role string) store.Binding {
	return store.Binding{TenantID: tenantID, ID: w.IDs.New(ids.Binding, w.Now()), PrincipalID: principalID, RoleID: rights.FixedID(role), CreatedAt: w.Now()}
}

// Rights are those of a fixed role in the whole tenant.
func Rights(role string) access.Rights {
	r, _ := permission.FixedRole(role)
	return access.Rights{Roles: []string{role}, Grants: permission.Grants{{Permissions: r.Permissions}}}
}

// As is a context of a call by a member of a tenant, and the jar that its cookies go to.
func (w *World) As(t testing.TB, tn store.Tenant, u store.User, role string) (context.Context, *cookies.Jar) {
	t.Helper()
	jar := cookies.NewJar("", "")
	ctx := access.With(t.Context(), access.Caller{
		TenantID: tn.ID, Tenant: tn.Name, Rights: Rights(role), UserID: u.ID, Name: u.Email, SessionID: "ses_test", RequestID: "req_test",
		Peer: "203.0.113.9", UserAgent: "test",
	})
	return cookies.With(ctx, jar), jar
}

// Public is a context of a call by nobody, from an address, with the session's token
// that the browser had.
func Public(t testing.TB, peer, session string) (context.Context, *cookies.Jar) {
	t.Helper()
	jar := cookies.NewJar(session, "")
	ctx := access.With(t.Context(), access.Caller{RequestID: "req_test", Peer: peer, UserAgent: "test"})
	return cookies.With(ctx, jar), jar
}

// Refused demands a refusal with a reason, and gives it.
func Refused(t testing.TB, err error, reason string) *fault.Error {
	t.Helper()
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("got %v, want a refusal %s", err, reason)
	}
	if f.Reason != reason {
		t.Fatalf("refused with %s (%s), want %s", f.Reason, f.Error(), reason)
	}
	return f
}

// SessionOf is the token of the session cookie that a call set; empty for none.
func SessionOf(jar *cookies.Jar) string {
	h := http.Header{}
	jar.Write(cookies.Policy{}, h)
	for _, c := range (&http.Response{Header: h}).Cookies() {
		if c.Name == (cookies.Policy{}).SessionName() {
			return c.Value
		}
	}
	return ""
}

// Audit lists the actions written into a tenant's log, oldest first.
func (w *World) Audit(t testing.TB, tenantID string) (actions []string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.ListAudit(ctx, tenantID, store.AuditFilter{}, store.Page{Limit: 1000})
		for _, e := range slices.Backward(all) {
			actions = append(actions, e.Action)
		}
		return err
	})
	return actions
}
