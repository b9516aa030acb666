package server

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// takeOver is what AfterRestore writes for a cell's state.
func (s *stage) takeOver(t *testing.T, state *cellv1.State) RestoreReport {
	t.Helper()
	r := &restore{s: s.Server, now: s.kit.Now(), known: make([]celladmin.Control, 1), report: RestoreReport{Incarnation: "inc_test"}}
	if err := s.kit.Store.Service(t.Context(), func(tx *store.Tx) error { return r.write(t.Context(), tx, []*cellv1.State{state}) }); err != nil {
		t.Fatal(err)
	}
	return r.report
}

func (s *stage) read(t *testing.T, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := s.kit.Store.ReadService(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// The cell's records may have names that something else has in the copy: they are taken
// over under another name, and nothing stops.
func TestRestore_ATakenNameStopsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	one, two, unsent := p.namespace(t), p.namespace(t), p.namespace(t)
	names := make(map[string]string)
	s.read(t, func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{one, two, unsent} {
			n, err := tx.FindNamespace(ctx, id)
			if err != nil {
				return err
			}
			names[id] = n.Name
		}
		return nil
	})
	twin, added, ended := p.id(ids.Tenant), p.id(ids.Namespace), p.id(ids.Tenant)
	report := s.takeOver(t, &cellv1.State{
		Tenants: []*cellv1.Tenant{{Id: p.TenantID, Name: "acme"}, {Id: twin, Name: "acme"}, {Id: ended, Name: "ended", Deleted: true}},
		Namespaces: []*cellv1.Namespace{
			{Id: one, TenantId: p.TenantID, Name: names[two]}, // Exchanged.
			{Id: two, TenantId: p.TenantID, Name: names[one]},
			{Id: added, TenantId: p.TenantID, Name: names[unsent]}, // The cell was never told of unsent.
			{Id: p.id(ids.Namespace), TenantId: ended, Name: "left"},
		},
		Keys: []*cellv1.Key{{Id: "key_aaaaaaaaaaaa", TenantId: ended, Name: "left", Roles: []string{"viewer"}, Digests: [][]byte{bytes.Repeat([]byte{1}, 32)}}},
	})
	s.read(t, func(ctx context.Context, tx *store.Tx) error {
		for id, want := range map[string]string{one: names[two], two: names[one], unsent: names[unsent], added: otherName(names[unsent], added)} {
			if n, err := tx.FindNamespace(ctx, id); err != nil || n.Name != want {
				t.Errorf("%s is called %q, want %q (%v)", id, n.Name, want, err)
			}
		}
		other, err := tx.GetTenant(ctx, twin)
		if err != nil || other.Name != otherName("acme", twin) {
			t.Errorf("%+v, %v", other, err)
		}
		_, noTenant := tx.FindTenant(ctx, ended)
		_, noKey := tx.FindKey(ctx, "key_aaaaaaaaaaaa")
		if !errors.Is(noTenant, store.ErrNotFound) || !errors.Is(noKey, store.ErrNotFound) {
			t.Errorf("what ended is back: %v, %v", noTenant, noKey)
		}
		return nil
	})
	for _, id := range []string{twin, added} {
		if !slices.ContainsFunc(report.Items, func(i RestoreItem) bool { return i.ID == id && strings.Contains(i.Why, "its name") }) {
			t.Errorf("%s is not listed with its name: %+v", id, report.Items)
		}
	}
}

func TestRestore_ANamespaceKeepsTheRetentionThatTheCellHas(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	known, added := p.namespace(t), p.id(ids.Namespace)
	var name string
	s.read(t, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.FindNamespace(ctx, known)
		name = n.Name
		return err
	})
	longer := &cellv1.Retention{CompletedNs: int64(48 * time.Hour), FinishedMax: 7}
	report := s.takeOver(t, &cellv1.State{
		Tenants: []*cellv1.Tenant{{Id: p.TenantID, Name: "acme"}},
		Namespaces: []*cellv1.Namespace{
			{Id: known, TenantId: p.TenantID, Name: name, Retention: longer}, {Id: added, TenantId: p.TenantID, Name: "added", Retention: longer},
		},
	})
	s.read(t, func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{known, added} {
			if n, err := tx.FindNamespace(ctx, id); err != nil || n.Retention != (store.Retention{Completed: 48 * 3600, FinishedMax: 7}) {
				t.Errorf("%s: %+v, %v", id, n, err)
			}
		}
		return nil
	})
	if !slices.ContainsFunc(report.Items, func(i RestoreItem) bool { return i.ID == known && strings.Contains(i.Why, "its retention was changed") }) {
		t.Errorf("%+v", report.Items)
	}
}

func TestRestore_IsInTheAuditLogOfEveryTenantItTouched(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	cookie := p.session(t, owner, "")
	p.invitation(t)
	key := p.jobsKey(t)
	report := s.takeOver(t, &cellv1.State{
		Tenants: []*cellv1.Tenant{{Id: p.TenantID, Name: "acme"}},
		Keys:    []*cellv1.Key{{Id: key, TenantId: p.TenantID, Revoked: true}},
	})
	if report.Ended["sessions"] != 1 || report.Ended["invitations"] != 1 || report.Ended["token_signing_keys"] != 1 {
		t.Errorf("%+v", report)
	}
	if r := s.call(t, whoami, "{}", browser(cookie)...); r.status != 401 {
		t.Errorf("the session is good still: %d %s", r.status, r.body)
	}
	s.read(t, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.ListAudit(ctx, p.TenantID, store.AuditFilter{}, store.Page{})
		for _, want := range []struct{ action, target string }{{"tenant.restore", p.TenantID}, {"key.restore", key}} {
			if !slices.ContainsFunc(rows, func(e store.AuditEvent) bool {
				return e.Action == want.action && e.TargetID == want.target && e.ActorType == "system"
			}) {
				t.Errorf("no %v in %+v", want, rows)
			}
		}
		return err
	})
}

// A dry run may be made beside a running control plane, and leaves no trace.
func TestAfterRestore_ADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	config := s.config
	config.Database = cloudtest.SQLite(t)
	opened, err := store.Open(t.Context(), config.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	written := func() (names []string) {
		t.Helper()
		err := opened.ReadService(t.Context(), func(tx *store.Tx) (err error) { names, err = tx.SettingNames(t.Context(), ""); return err })
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := written()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := AfterRestore(ctx, config, true); err == nil || !strings.Contains(err.Error(), "ask cell") {
		t.Errorf("without a cell: %v", err)
	}
	if after := written(); !slices.Equal(after, before) {
		t.Errorf("a dry run wrote %v", after)
	}
}

func TestAfterRestore_ADryRunDoesNotMigrate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	config := s.config
	config.Database = cloudtest.SQLite(t)
	path := strings.TrimPrefix(config.Database, "sqlite:")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // A database without a schema.
		t.Fatal(err)
	}
	if _, err := AfterRestore(t.Context(), config, true); !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "dry run") {
		t.Errorf("a schema of another version: %v", err)
	}
}
