package store_test

import (
	"context"
	"database/sql"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
			service(t, first, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTenant(ctx, tenant("tn_a", "acme")) })
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := open(t, url)
			wantErr(t, "ping", second.Ping(t.Context()), nil)
			service(t, second, func(ctx context.Context, tx *store.Tx) error {
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
		service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
			rows, err = tx.ClaimOutbox(ctx, holder, now, now.Add(time.Hour), 10)
			return err
		})
		return rows
	}
	service(t, first, func(ctx context.Context, tx *store.Tx) error { return tx.InsertOutbox(ctx, row) })
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

var tenantTables = []string{"usage_readings", "usage_levels", "usage_hours", "usage_days", "usage_alarms", "usage_changes", "spend_limits", "limit_notices", "tenant_figures",
	"tenants", "namespaces", "sso_connections", "identities", "memberships", "invitations", "removals", "api_keys", "sessions", "audit", "audit_chains", "audit_heads", "audit_sinks", "sign_in_policies", "break_glass_codes", "break_glass_entries", "domains", "idempotency", "outbox",
	"roles", "service_accounts", "groups", "group_members", "role_bindings", "scim_tokens", "scim_users", "scim_members", "scim_state", "trusts", "trust_tokens", "key_uses", "billing_contacts", "stripe_customers", "stripe_endings", "billing_pushes", "stripe_invoices", "billing_differences",
	"subscriptions", "subscription_changes", "entitlement_overrides", "tenant_holds"}

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
	if said := texts(t, pg, "SELECT DISTINCT qual FROM pg_policies WHERE policyname = 'tenant'"); len(said) != 1 || !strings.Contains(said[0], "CASE") {
		t.Errorf("the policy is said in several ways, or not as in migration 58: %q", said)
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

// A statement without the tenant works until somebody guesses an id. A statement about one
// tenant names it; one across tenants checks that the transaction is the service's; one
// about common records reads no tenant's table.
func TestStatements_AboutATenantsTableNameTheTenant(t *testing.T) {
	t.Parallel()
	elsewhere := []string{
		"UPDATE outbox SET claimed_by = '', claimed_till = 0 WHERE claimed_till > 0", // At the start, of all tenants.
		"DELETE FROM sessions", "DELETE FROM invitations", "DELETE FROM outbox WHERE kind = 'mail'", // EndSignIns.
		// claimed adds the tenant.
		"DELETE FROM outbox", "UPDATE outbox SET due_at = ?, last_error = ?, claimed_by = '', claimed_till = 0", "UPDATE outbox SET claimed_till = ?",
	}
	about := regexp.MustCompile(`\b(?:FROM|UPDATE|JOIN|INTO) (` + strings.Join(tenantTables, "|") + `)\b`)
	p := parsed(t)
	tables := tablesOf(t, p)
	seen := 0
	for _, c := range p.calls {
		text := strings.Join(literals(c.call), " ")
		switch own := slices.Contains(tenantTables, tables[c.receiver]) || about.MatchString(text); {
		case c.scope == "of" && c.method != "insert" && c.method != "update" && !strings.Contains(text, "tenant_id = ?"):
			t.Errorf("no tenant in %s of %q", c.method, text)
		case c.scope == "common" && own:
			t.Errorf("%s of %q is about a tenant's table, and not checked", c.method, text)
		}
		seen++
	}
	if seen < 80 || seen != p.scopes {
		t.Errorf("%d statements found, %d scopes: the test is blind", seen, p.scopes)
	}
	for _, text := range p.texts {
		if about.MatchString(text) && !slices.Contains(elsewhere, text) {
			t.Errorf("%q is run nowhere that this test sees", text)
		}
	}
}

// source is the statements of this room.
type source struct {
	files  []*ast.File
	calls  []statement
	scopes int      // Calls of of, across and common.
	texts  []string // What stands outside of calls.
}

// statement is a call that has a scope as its receiver or argument.
type statement struct {
	call                    *ast.CallExpr
	receiver, method, scope string
}

func parsed(t *testing.T) source {
	t.Helper()
	var p source
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, f)
		ast.Inspect(f, p.visit)
	}
	return p
}

func (p *source) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if scopeOf(n) != "" {
			p.scopes++
		}
		c := statement{call: n}
		around := n.Args
		switch fun := n.Fun.(type) {
		case *ast.SelectorExpr:
			c.method, around = fun.Sel.Name, append(slices.Clone(around), fun.X)
			if id, ok := fun.X.(*ast.Ident); ok {
				c.receiver = id.Name
			}
		case *ast.Ident:
			c.method = fun.Name
		}
		for _, a := range around {
			if inner, ok := a.(*ast.CallExpr); ok && scopeOf(inner) != "" {
				c.scope = scopeOf(inner)
			}
		}
		if c.scope != "" {
			p.calls = append(p.calls, c)
			for _, a := range around {
				if inner, ok := a.(*ast.CallExpr); ok && scopeOf(inner) != "" {
					p.scopes++
				}
			}
			return false
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil {
			p.texts = append(p.texts, text)
		}
	}
	return true
}

// scopeOf is of, across or common if a call makes a scope.
func scopeOf(c *ast.CallExpr) string {
	if s, ok := c.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"of", "across", "common"}, s.Sel.Name) {
		return s.Sel.Name
	}
	return ""
}

func literals(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, _ := strconv.Unquote(l.Value)
			out = append(out, text)
		}
		return true
	})
	return out
}

// tablesOf maps variables to their tables. The table of a tenant's records begins with the
// tenant, and so does its key.
func tablesOf(t *testing.T, p source) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			made, ok := v.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := make(map[string]string)
			for _, e := range made.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					fields[kv.Key.(*ast.Ident).Name] = strings.Join(literals(kv.Value), "")
				}
			}
			out[v.Names[0].Name] = fields["name"]
			if key, has := fields["key"]; slices.Contains(tenantTables, fields["name"]) && (!strings.HasPrefix(fields["columns"], "tenant_id, ") || has && !strings.HasPrefix(key, "tenant_id")) {
				t.Errorf("table %s: its columns or key do not begin with the tenant: %q, %q", fields["name"], fields["columns"], key)
			}
			return true
		})
	}
	if len(out) < 12 {
		t.Errorf("only %d tables found: the test is blind", len(out))
	}
	return out
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
