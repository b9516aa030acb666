package store_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/migrations"
)

func TestOpen_SecondStartFindsEverything(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "control.db"), "postgres": pgtest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, err := store.Open(t.Context(), url, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			service(t, first, func(ctx context.Context, tx store.Tx) error { return tx.InsertTenant(ctx, tenant("tn_a", "acme")) })
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := open(t, url)
			wantErr(t, "ping", second.Ping(t.Context()), nil)
			service(t, second, func(ctx context.Context, tx store.Tx) error {
				got, err := tx.GetTenant(ctx, "tn_a")
				wantEqual(t, "tenant", got, tenant("tn_a", "acme"))
				return err
			})
		})
	}
}

func TestOpen_SQLiteFileBelongsToOneProcessAndOneUser(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a folder? #1%20", "control.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), "sqlite:"+path, store.Options{})
	wantErr(t, "open twice", err, store.ErrInUse)
	if !strings.Contains(err.Error(), path) {
		t.Errorf("%q does not name the file", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: others may read it", info.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, "sqlite:"+path)
}

// The file has one process at a time, so what is claimed at the start was claimed by a
// dead one.
func TestOpen_SQLiteFreesWhatADeadProcessHadClaimed(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	first, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_000)
	row := store.Outbox{TenantID: "tn_a", ID: "out_1", Kind: store.OutboxKey, Subject: "key_1", CreatedAt: now, DueAt: now}
	claim := func(s store.Store, holder string) (rows []store.Outbox) {
		service(t, s, func(ctx context.Context, tx store.Tx) (err error) {
			rows, err = tx.ClaimOutbox(ctx, holder, now, now.Add(time.Hour), 10)
			return err
		})
		return rows
	}
	service(t, first, func(ctx context.Context, tx store.Tx) error { return tx.InsertOutbox(ctx, row) })
	if n := len(claim(first, "first")); n != 1 {
		t.Fatalf("claimed %d rows", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, url)
	if n := len(claim(second, "second")); n != 1 {
		t.Errorf("the next process gets %d of the one row that a dead one had", n)
	}
}

func TestOpen_PostgresStartsOfManyReplicasMigrateOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	errs := together(4, func(int) error {
		s, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			return err
		}
		return errors.Join(s.Ping(t.Context()), s.Close())
	})
	wantErr(t, "start", errors.Join(errs...), nil)
}

func TestOpen_PostgresSuperuserIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	url := pgtest.AsAdmin(t, pgtest.Start(t))
	_, err := store.Open(t.Context(), url, store.Options{})
	if err == nil || !strings.Contains(err.Error(), "superuser") || !strings.Contains(err.Error(), "CREATE ROLE") {
		t.Errorf("error %v, want one that says why and what to do", err)
	}
	s, err := store.Open(t.Context(), url, store.Options{AllowSuperuser: true})
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "close", s.Close(), nil)
}

func TestOpen_UnknownURLsAreRefusedWithoutTheirPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "sqlite:", "mysql://u:hunter2@h/d", "postgres://u:hunter2@127.0.0.1:1/d?sslmode=nonsense", "postgres://u:hunter2@127.0.0.1:1/d"} {
		_, err := store.Open(t.Context(), url, store.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v", url, err)
		}
	}
}

// The policies themselves, without our code around them.
func TestPostgres_ATransactionSeesTheRowsOfTheTenantItNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	fullTenants(t, open(t, url))
	db := rawPostgres(t, url)
	for named, want := range map[string]int{"": 0, "tn_a": 1, "tn_b": 1, "tn_x": 0, "*": 2} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("SELECT set_config('corvo.tenant', $1, true)", named); err != nil {
			t.Fatal(err)
		}
		for _, table := range tenantTables {
			var n int
			if err := tx.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil || n != want {
				t.Errorf("%s: %d rows for %q (%v), want %d", table, n, named, err, want)
			}
			res, err := tx.Exec("UPDATE " + table + " SET tenant_id = tenant_id WHERE tenant_id = 'tn_b'")
			if err != nil {
				t.Fatal(err)
			}
			if n, err := res.RowsAffected(); err != nil || (n == 1) != (named == "tn_b" || named == "*") {
				t.Errorf("%s: %d rows of tn_b changed for %q (%v)", table, n, named, err)
			}
		}
		wantErr(t, "roll back", tx.Rollback(), nil)
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM tenants").Scan(&n); err != nil || n != 0 {
		t.Errorf("whoever names no tenant sees %d (%v)", n, err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { wantErr(t, "roll back", tx.Rollback(), nil) }()
	if _, err := tx.Exec("SELECT set_config('corvo.tenant', 'tn_a', true)"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE audit SET tenant_id = 'tn_b'"); err == nil {
		t.Error("a row was given to another tenant")
	}
}

var tenantTables = []string{"tenants", "namespaces", "sso_connections", "identities", "memberships", "invitations", "removals", "api_keys", "sessions", "audit", "idempotency", "outbox"}

func TestSchema_EveryTableHasATenantAPolicyOrAWaiver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "control.db")
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "close", s.Close(), nil)
	lite := rawSQLite(t, path)
	pgURL := pgtest.Start(t)
	open(t, pgURL)
	pg := rawPostgres(t, pgURL)

	liteTables := texts(t, lite, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version' ORDER BY name")
	pgTables := texts(t, pg, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'goose_db_version' ORDER BY table_name")
	wantEqual(t, "tables of the two databases", liteTables, pgTables)
	if len(liteTables) < 15 {
		t.Fatalf("tables: %v", liteTables)
	}
	waived := waivers(t)
	var owned []string
	for _, table := range liteTables {
		if waived[table] {
			continue
		}
		owned = append(owned, table)
		if !slices.Contains(texts(t, lite, "SELECT name FROM pragma_table_info('"+table+"')"), "tenant_id") {
			t.Errorf("table %s has neither tenant_id nor a comment \"-- waiver: why\"", table)
		}
		if n := texts(t, pg, "SELECT 'yes' FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid WHERE c.relname = '"+table+"' AND c.relrowsecurity AND c.relforcerowsecurity AND p.polname = 'tenant'"); len(n) != 1 {
			t.Errorf("table %s has no policy, or it is not forced", table)
		}
	}
	wantEqual(t, "tables that the policy test walks", sorted(tenantTables), sorted(owned))
	if c := texts(t, pg, "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'"); len(c) > 0 {
		t.Errorf("columns not ordered by bytes: %v", c)
	}
	if c := texts(t, pg, "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND data_type NOT IN ('text', 'bigint') AND table_name <> 'goose_db_version'"); len(c) > 0 {
		t.Errorf("columns that are neither text nor whole number: %v", c)
	}
}

// waivers are the tables whose comment, right before them, says that they need no tenant.
func waivers(t *testing.T) map[string]bool {
	t.Helper()
	out := make(map[string]bool)
	waiver := regexp.MustCompile(`(?m)^-- waiver: .+\n(?:--.*\n)*CREATE TABLE (\w+)`)
	err := fs.WalkDir(migrations.Control, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.Control, path)
		for _, m := range waiver.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("waivers %v, %v", out, err)
	}
	return out
}

// A statement that leaves the tenant out works until somebody guesses an id.
func TestStatements_AboutATenantsTableNameTheTenant(t *testing.T) {
	t.Parallel()
	// Those of the service's own loops and look-ups, each behind a check that the transaction is the service's.
	across := []string{
		"UPDATE outbox SET claimed_by = '', claimed_till = 0 WHERE claimed_till > 0",
		"FROM tenants WHERE name = ?", "FROM namespaces WHERE observed < generation", "FROM memberships m JOIN tenants", "FROM invitations WHERE digest = ?",
		"FROM api_keys WHERE id = ?", "FROM api_keys WHERE observed < generation", "sessions WHERE digest = ?", "UPDATE sessions SET seen_at", "sessions WHERE user_id = ?\"",
		"sessions WHERE expires_at < ?", "idempotency WHERE created_at < ?", "FROM outbox WHERE due_at", "FROM outbox WHERE last_error",
		"FROM namespaces WHERE id = ?", "FROM outbox WHERE wanted_at <= ?", "DELETE FROM sessions\"}", "DELETE FROM invitations\"}", "DELETE FROM outbox WHERE kind = 'mail'\"}",
	}
	statement := regexp.MustCompile("(?s)(?:FROM|UPDATE|JOIN) (" + strings.Join(tenantTables, "|") + `)\b[^` + "`" + `]*?(?:",|"\+|` + "`|\"\\)|\"\n)")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range statement.FindAllString(string(text), -1) {
			seen++
			if !strings.Contains(m, "tenant_id = ?") && !strings.Contains(m, "tenant_id > ?") && !slices.ContainsFunc(across, func(a string) bool { return strings.Contains("DELETE "+m, a) }) {
				t.Errorf("%s: no tenant in %q", f, m)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d statements found: the test is blind", seen)
	}
}

func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }

func rawSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	return raw(t, "sqlite", (&url.URL{Scheme: "file", Path: path}).String())
}

func rawPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	return raw(t, "pgx", url)
}

func raw(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantErr(t, "close", db.Close(), nil) })
	return db
}

func texts(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}
