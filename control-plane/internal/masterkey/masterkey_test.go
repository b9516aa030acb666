package masterkey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const tenantID = "tn_01JD0000000000000000000001"

// on runs f on both databases.
func on(t *testing.T, f func(t *testing.T, url string, s store.Store)) {
	t.Helper()
	for name, url := range map[string]func() string{
		"sqlite":   func() string { return cloudtest.SQLite(t) },
		"postgres": func() string { return cloudtest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := url()
			f(t, where, cloudtest.Store(t, where, store.Options{}))
		})
	}
}

func box(t *testing.T, keys ...[]byte) *seal.Box {
	t.Helper()
	b, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func service(t *testing.T, s store.Store, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := s.Service(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

const perPurpose = 5

// fill seals some secrets for every purpose there is, where the use cases put them.
func fill(t *testing.T, s store.Store, b *seal.Box, now time.Time) {
	t.Helper()
	service(t, s, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.FindTenant(ctx, tenantID); errors.Is(err, store.ErrNotFound) {
			err := tx.InsertTenant(ctx, store.Tenant{ID: tenantID, Name: "acme", DisplayName: "s1.00000000.AAAA", Plan: "free", Cell: "cell-1",
				CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1})
			if err != nil {
				return err
			}
		}
		for i := range perPurpose {
			for _, p := range seal.Purposes() {
				text, err := b.Seal(p, fmt.Appendf(nil, "%s %d", p, i))
				if err != nil {
					return err
				}
				id, _ := seal.NewToken("test_")
				switch p.String() {
				case seal.Email.String():
					err = tx.InsertOutbox(ctx, store.Outbox{ID: id, Kind: store.OutboxMail, Payload: text, CreatedAt: now, DueAt: now})
				case seal.TokenKey.String():
					err = tx.InsertSetting(ctx, "user-token-key/"+id, text, now)
				case seal.SignIn.String():
					err = tx.InsertToken(ctx, store.Token{Digest: id, Purpose: "oidc", Data: text, CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
				case seal.AuditKey.String():
					err = tx.InsertAuditKey(ctx, store.AuditKey{Year: rand.Int64(), ID: id, Sealed: text, CreatedAt: now})
				case seal.TotpSecret.String():
					err = errors.Join(tx.InsertUser(ctx, store.User{ID: id, Email: id + "@corvo.test", CreatedAt: now}),
						tx.InsertFactor(ctx, store.Factor{ID: id, UserID: id, Kind: store.FactorTOTP, Secret: text, CreatedAt: now}))
				case seal.AuditSink.String():
					err = tx.InsertAuditSink(ctx, store.AuditSink{TenantID: tenantID, ID: id, Name: id, Secret: text, CreatedAt: now, UpdatedAt: now, Version: 1})
				case seal.ClientSecret.String():
					err = tx.InsertConnection(ctx, store.Connection{TenantID: tenantID, ID: id, ClientSecret: text,
						Staged: `{"issuer":"https://idp.example.com","client_secret":"` + text + `"}`, DefaultRole: permission.RoleViewer,
						CreatedAt: now, UpdatedAt: now, Version: 1, Settings: 1})
				case seal.SAMLKey.String():
					err = tx.InsertConnection(ctx, store.Connection{TenantID: tenantID, ID: id, SAMLKey: text, DefaultRole: permission.RoleViewer,
						CreatedAt: now, UpdatedAt: now, Version: 1, Settings: 1})
				default:
					t.Errorf("this test does not know where %q lies: add it here", p)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// texts are all values of a purpose that contain something sealed.
func texts(t *testing.T, s store.Store, p seal.Purpose) (rows []store.SealedRow) {
	t.Helper()
	table, columns := p.Place()
	service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		rows, err = tx.SealedRows(ctx, table, columns, seal.Prefix(""), 1000)
		return err
	})
	return rows
}

func containing(t *testing.T, s store.Store, text string) (found map[string]int) {
	t.Helper()
	service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		found, err = tx.Containing(ctx, text)
		return err
	})
	return found
}

func TestChange_SealsEverythingAnewBesideARunningProcess(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, url string, running store.Store) {
		older, newer := seal.NewKey(), seal.NewKey()
		before, both, after := box(t, older), box(t, newer, older), box(t, newer)
		fill(t, running, before, time.Now())
		was := containing(t, running, seal.Prefix(before.KeyIDs()[0]))
		// The process was restarted with the new file.
		if err := ReportKey(t.Context(), running, both, time.Now()); err != nil {
			t.Fatal(err)
		}
		r, err := Change{Store: cloudtest.Store(t, url, store.Options{Beside: true}), Seal: both, Now: time.Now, Batch: 2}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range seal.Purposes() {
			table, columns := p.Place()
			for _, c := range columns {
				if was[table+"."+c] != perPurpose {
					t.Errorf("%s.%s held %d texts of %s before, want %d", table, c, was[table+"."+c], p, perPurpose)
				}
			}
			if r.Resealed[p.String()] != perPurpose {
				t.Errorf("%d rows of %s were counted, want %d", r.Resealed[p.String()], p, perPurpose)
			}
			for _, row := range texts(t, running, p) {
				for _, v := range row.Values {
					for _, text := range seal.Find(v, after.KeyIDs()[0]) {
						if plain, err := after.Open(p, text); err != nil || !strings.HasPrefix(string(plain), p.String()+" ") {
							t.Errorf("%s = %q, %v", p, plain, err)
						}
					}
				}
				if p.String() == seal.ClientSecret.String() && !strings.Contains(row.Values[1], `"`+row.Values[0]+`"`) {
					t.Errorf("the staged secret was the live one, and is another now: %v", row.Values)
				}
			}
		}
		if left := containing(t, running, before.KeyIDs()[0]); len(left) != 0 && !(len(left) == 1 && left["leases.name"] > 0) {
			t.Errorf("the old key is still in %v", left)
		}
		if !r.Removable() || len(r.OldKeys) != 1 || r.OldKeys[0].KeyID != before.KeyIDs()[0] || r.KeyID != after.KeyIDs()[0] {
			t.Errorf("%+v", r)
		}
		again, err := Change{Store: running, Seal: both, Now: time.Now}.Run(t.Context())
		if err != nil || again.Total() != 0 || !again.Removable() {
			t.Errorf("a second time: %+v, %v", again, err)
		}
	})
}

// An interrupted change leaves every secret readable, and the next run continues.
func TestChange_GoesOnAfterItWasCutOff(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, url string, running store.Store) {
		older, newer := seal.NewKey(), seal.NewKey()
		both := box(t, newer, older)
		fill(t, running, box(t, older), time.Now())
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		done := 0
		first, err := Change{Store: running, Seal: both, Now: time.Now, Batch: 2, Done: func(n int) {
			if done += n; done > 6 {
				cut()
			}
		}}.Run(ctx)
		if !errors.Is(err, context.Canceled) || first.Total() != done || len(first.OldKeys) != 0 {
			t.Fatalf("cut off: %+v, %v", first, err)
		}
		for _, p := range seal.Purposes() {
			for _, row := range texts(t, running, p) {
				for _, id := range both.KeyIDs() {
					for _, text := range seal.Find(strings.Join(row.Values, " "), id) {
						if _, err := both.Open(p, text); err != nil {
							t.Errorf("%s in between: %v", p, err)
						}
					}
				}
			}
		}
		rest, err := Change{Store: running, Seal: both, Now: time.Now, Batch: 2}.Run(t.Context())
		if all := perPurpose * len(seal.Purposes()); err != nil || first.Total()+rest.Total() != all || first.Total() == 0 || !rest.Removable() {
			t.Errorf("%d and then %d of %d, %+v, %v", first.Total(), rest.Total(), all, rest, err)
		}
	})
}

func TestChange_NeverCallsAKeyRemovableThatIsNeeded(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, _ string, s store.Store) {
		older, newer := seal.NewKey(), seal.NewKey()
		before, both := box(t, older), box(t, newer, older)
		oldID := before.KeyIDs()[0]
		fill(t, s, before, time.Now())
		now := time.Now()
		run := func() (Report, error) {
			return Change{Store: s, Seal: both, Now: func() time.Time { return now }}.Run(t.Context())
		}
		// A process that was not restarted.
		if err := ReportKey(t.Context(), s, before, now); err != nil {
			t.Fatal(err)
		}
		r, err := run()
		var inUse *InUseError
		if !errors.As(err, &inUse) || inUse.KeyID != oldID || r.Total() != 0 || len(r.OldKeys) != 0 {
			t.Fatalf("while a process seals with it: %+v, %v", r, err)
		}
		now = now.Add(leaseFor + time.Second)
		// Sealed in a column that no purpose names, and a damaged text.
		stray, err := before.Seal(seal.Email, []byte("stray"))
		if err != nil {
			t.Fatal(err)
		}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(
				tx.InsertUser(ctx, store.User{ID: "usr_1", Email: "a@b.test", Name: "kept by mistake: " + stray, CreatedAt: now}),
				tx.InsertOutbox(ctx, store.Outbox{ID: "damaged", Kind: store.OutboxMail, Payload: stray + "AAAA", CreatedAt: now, DueAt: now}),
				tx.InsertSetting(ctx, "user-token-key/foreign", "s1.00000000.AAAA", now))
		})
		r, err = run()
		want := map[string]int{"users.name": 1, "outbox.payload": 1}
		if err != nil || r.Removable() || !maps.Equal(r.OldKeys[0].Left, want) || r.Unreadable[seal.Email.String()] != 1 {
			t.Errorf("%+v, %v, want left %v", r, err, want)
		}
		if r.Unknown["settings.value"] != 1 || len(r.Unknown) != 1 {
			t.Errorf("sealed with keys that were not given: %v", r.Unknown)
		}
		if n := perPurpose * len(seal.Purposes()); r.Total() != n {
			t.Errorf("%d rows, want the other %d", r.Total(), n)
		}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			rows, err := tx.SealedRows(ctx, "users", []string{"name"}, stray, 10)
			for _, row := range rows {
				row.Values = slices.Repeat([]string{"Ada"}, 1)
				err = errors.Join(err, tx.UpdateSealed(ctx, "users", []string{"name"}, row))
			}
			damaged, more := tx.SealedRows(ctx, "outbox", []string{"payload"}, stray, 10)
			for _, row := range damaged {
				row.Values = []string{""}
				err = errors.Join(err, tx.UpdateSealed(ctx, "outbox", []string{"payload"}, row))
			}
			return errors.Join(err, more)
		})
		if r, err = run(); err != nil || !r.Removable() {
			t.Errorf("when they are gone: %+v, %v", r, err)
		}
	})
}
