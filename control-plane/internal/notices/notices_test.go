package notices

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// world is a tenant with an owner, two members and a service account.
type world struct {
	*cloudtest.World
	*Service
	tenant          store.Tenant
	owner, ada, bob store.User
	machine         string
	made            int
}

func newWorld(t *testing.T, w *cloudtest.World) *world {
	t.Helper()
	out := &world{World: w, Service: New(w.Kit)}
	out.tenant, out.owner = w.Tenant(t, "acme", "owner@acme.test")
	out.ada = w.Member(t, out.tenant.ID, "ada@acme.test", permission.RoleDeveloper)
	out.bob = w.Member(t, out.tenant.ID, "bob@acme.test", permission.RoleDeveloper)
	out.machine = "sa_mailer"
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertNamespace(ctx, store.Namespace{TenantID: out.tenant.ID, ID: "ns_1", Name: "production", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}); err != nil {
			return err
		}
		return tx.InsertServiceAccount(ctx, store.ServiceAccount{TenantID: out.tenant.ID, ID: out.machine, Name: "mailer", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1})
	})
	return out
}

// each runs a test in a world on both databases.
func each(t *testing.T, test func(*testing.T, *world)) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) { test(t, newWorld(t, w)) })
}

// key makes a key that ends after life; personal if the owner is a user.
func (w *world) key(t *testing.T, owner, by string, life time.Duration) store.Key {
	t.Helper()
	kind, now := cloudv1.KeyKind_KEY_KIND_JOBS, w.World.Now()
	if strings.HasPrefix(owner, string(ids.User)) {
		kind = cloudv1.KeyKind_KEY_KIND_PERSONAL
	}
	w.made++
	k := store.Key{
		TenantID: w.tenant.ID, ID: "key_00000000000" + string(rune('A'+w.made)), Name: "deploy", Kind: kind, OwnerID: owner, CreatedBy: by,
		ExpiresAt: now.Add(life), CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
	return k
}

func (w *world) change(t *testing.T, k store.Key, edit func(*store.Key)) {
	t.Helper()
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
		now, err := tx.GetKey(ctx, k.TenantID, k.ID)
		if err != nil {
			return err
		}
		edit(&now)
		return tx.UpdateKey(ctx, &now)
	})
}

// told lets the loop look and gives the emails that it wrote.
func (w *world) told(t *testing.T) []mail.Message {
	t.Helper()
	if err := w.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.Emails(t)
}

func addresses(all []mail.Message) (to []string) {
	for _, m := range all {
		to = append(to, m.To)
	}
	slices.Sort(to)
	return to
}

// days lets a number of days pass in steps of an hour, and gives the day before the end at
// which each email was written.
func (w *world) days(t *testing.T, k store.Key, n int) (at []int) {
	t.Helper()
	for range n * 24 {
		w.Advance(time.Hour)
		for range w.told(t) {
			at = append(at, int(k.ExpiresAt.Sub(w.World.Now())/day))
		}
	}
	return at
}

func TestTell_FourTimesBeforeTheEndAndNeverAfter(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		k := w.key(t, w.ada.ID, w.ada.ID, 40*day)
		if all := w.told(t); len(all) != 0 {
			t.Fatalf("40 days before: %d emails", len(all))
		}
		if at := w.days(t, k, 45); !slices.Equal(at, []int{30, 14, 7, 1}) {
			t.Errorf("told %d days before the end", at)
		}
		if got := w.Audit(t, w.tenant.ID); !slices.Equal(got, []string{"key.notice", "key.notice", "key.notice", "key.notice"}) {
			t.Errorf("audit log %q", got)
		}
	})
}

func TestTell_ANoticeSaysWhatEndsAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	k := w.key(t, w.machine, w.ada.ID, 90*day)
	w.Advance(76 * day)
	all := w.told(t)
	if to := addresses(all); !slices.Equal(to, []string{"ada@acme.test", "owner@acme.test"}) {
		t.Fatalf("told %q", to)
	}
	m := all[0]
	if m.Subject != "API key deploy of acme expires in 14 days" || !m.ExpiresAt.Equal(k.ExpiresAt) {
		t.Errorf("subject %q, sent until %v", m.Subject, m.ExpiresAt)
	}
	for _, want := range []string{
		"deploy", k.ID, "corvo_dp_00000000000B.", "the service account mailer", "2027-02-19 09:00 UTC", "http://corvo.test:8080/acme/production/keys",
		"corvo keys update " + k.ID + " --tenant acme --expires 2027-05-20", "corvo keys rotate " + k.ID + " --tenant acme", "corvo keys revoke " + k.ID + " --tenant acme",
	} {
		if !strings.Contains(m.Text, want) || !strings.Contains(m.HTML, want) {
			t.Errorf("lacks %q:\n%s", want, m.Text)
		}
	}
}

func TestTell_WhatWasMissedComesOnceWithTheTimeThatIsLeft(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.key(t, w.ada.ID, w.ada.ID, 90*day)
		w.Advance(85*day + time.Hour) // 4 days and 23 hours are left: three notices were missed.
		if m := w.told(t); len(m) != 1 || !strings.Contains(m[0].Subject, "expires in 4 days") {
			t.Fatalf("after the gap: %+v", m)
		}
		if m := w.told(t); len(m) != 0 {
			t.Errorf("told again: %d emails", len(m))
		}
		w.Service = New(w.World.Kit) // Started again, when the lease of before is over.
		w.Advance(leaseFor)
		if m := w.told(t); len(m) != 0 {
			t.Errorf("told again after a restart: %d emails", len(m))
		}
		w.Advance(4*day + 23*time.Hour)
		if m := w.told(t); len(m) != 0 {
			t.Errorf("told after the end: %d emails", len(m))
		}
	})
}

func TestTell_NotOfAnEndThatWasJustChosenNorOfTemporaryOrRevokedKeys(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		week := w.key(t, w.ada.ID, w.ada.ID, 7*day)
		if at := w.days(t, week, 8); !slices.Equal(at, []int{1}) {
			t.Errorf("a key for a week: told %d days before the end", at)
		}
		revoked, temporary := w.key(t, w.ada.ID, w.ada.ID, 32*day), w.key(t, w.ada.ID, w.ada.ID, 32*day)
		w.change(t, revoked, func(k *store.Key) { k.RevokedAt = w.World.Now() })
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			k := temporary
			k.ID, k.Kind = "key_00000000000Z", cloudv1.KeyKind_KEY_KIND_TEMPORARY
			return tx.InsertKey(ctx, k)
		})
		w.change(t, temporary, func(k *store.Key) { k.ExpiresAt = time.Time{} }) // Never ends.
		if at := w.days(t, revoked, 33); len(at) != 0 {
			t.Errorf("told %d days before the end", at)
		}
	})
}

func TestTell_ALaterEndBeginsAnew(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		k := w.key(t, w.ada.ID, w.ada.ID, 32*day)
		if at := w.days(t, k, 20); !slices.Equal(at, []int{30, 14}) {
			t.Fatalf("told %d days before the end", at)
		}
		w.change(t, k, func(v *store.Key) { v.Versions = []store.KeyVersion{{Digest: []byte{1}}} }) // Rotated: it ends as before.
		if all := w.told(t); len(all) != 0 {
			t.Errorf("told of a rotation: %d emails", len(all))
		}
		k.ExpiresAt = w.World.Now().Add(20 * day)
		w.change(t, k, func(v *store.Key) { v.ExpiresAt, v.EndSetAt = k.ExpiresAt, w.World.Now() })
		if at := w.days(t, k, 21); !slices.Equal(at, []int{14, 7, 1}) {
			t.Errorf("extended to 20 days: told %d days before the end", at)
		}
	})
}

func TestTell_OfTwoProcessesOneTells(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const keys = 5
		for range keys {
			w.key(t, w.ada.ID, w.ada.ID, 90*day)
		}
		w.Advance(80 * day)
		// Without the lease, too: a process may have lost it and not know.
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := New(w.World.Kit).pass(t.Context(), w.World.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := w.Emails(t); len(got) != 1 {
			t.Errorf("%d emails for %d keys, want 1", len(got), keys)
		}
		if got := w.Audit(t, w.tenant.ID); len(got) != keys {
			t.Errorf("%d entries for %d keys", len(got), keys)
		}
		w.Advance(4 * day)
		w.told(t) // Has the lease.
		w.Advance(time.Minute)
		w.key(t, w.ada.ID, w.ada.ID, 32*day)
		if err := New(w.World.Kit).Tell(t.Context()); err != nil || len(w.Emails(t)) != 0 {
			t.Errorf("told without the lease (%v)", err)
		}
	})
}

func TestTell_WhoIsToldIsAMemberWithAProvedAddress(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		made := w.key(t, w.bob.ID, w.bob.ID, 0)
		made.ExpiresAt = time.Time{} // Bob's, which makes the next one.
		w.change(t, made, func(k *store.Key) { k.ExpiresAt = time.Time{} })
		byKey := w.key(t, w.machine, made.ID, 10*day)
		w.Advance(3 * day)
		if to := addresses(w.told(t)); !slices.Equal(to, []string{"bob@acme.test", "owner@acme.test"}) {
			t.Errorf("of a key made by %s: told %q", byKey.CreatedBy, to)
		}
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteMembership(ctx, w.tenant.ID, w.bob.ID) })
		w.Advance(6 * day)
		if to := addresses(w.told(t)); !slices.Equal(to, []string{"owner@acme.test"}) {
			t.Errorf("of a key whose maker has left: told %q", to)
		}
		byOwner := w.key(t, w.machine, w.owner.ID, 10*day)
		w.Advance(3 * day)
		if to := addresses(w.told(t)); !slices.Equal(to, []string{"owner@acme.test"}) {
			t.Errorf("of a key made by %s: told %q, want once", byOwner.CreatedBy, to)
		}

		// What an identity provider told could be anybody's address, unless the domain is the tenant's.
		sso := store.User{ID: w.World.IDs.New(ids.User, w.World.Now()), Email: "eve@elsewhere.test", HomeTenant: w.tenant.ID, CreatedAt: w.World.Now()}
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertUser(ctx, sso); err != nil {
				return err
			}
			return tx.InsertMembership(ctx, store.Membership{TenantID: w.tenant.ID, UserID: sso.ID, CreatedAt: w.World.Now(), Version: 1})
		})
		w.key(t, sso.ID, sso.ID, 20*day)
		w.Advance(6 * day) // 14 days for this one; the key above has had its notice of 7.
		if to := addresses(w.told(t)); !slices.Equal(to, []string{"owner@acme.test"}) {
			t.Errorf("of a key of an unproved address: told %q", to)
		}
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertDomain(ctx, store.Domain{TenantID: w.tenant.ID, ID: "dom_1", Name: "elsewhere.test", Token: "t", VerifiedAt: w.World.Now(), CreatedAt: w.World.Now(), UpdatedAt: w.World.Now(), Version: 1})
		})
		w.Advance(7 * day)
		if to := addresses(w.told(t)); !slices.Equal(to, []string{"eve@elsewhere.test"}) {
			t.Errorf("of a key of an address in a verified domain: told %q", to)
		}
	})
}

// Many keys that end together are one email a day to each who is told, and each is told once.
func TestTell_ManyKeysAreOneEmailADay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		mine := map[string]bool{}
		for i := range 3 { // One every eight hours.
			mine[w.key(t, w.ada.ID, w.ada.ID, 40*day+time.Duration(i)*8*time.Hour).ID] = false
		}
		theirs := w.key(t, w.machine, w.ada.ID, 40*day)
		var emails []int
		for range 50 * 24 {
			w.Advance(time.Hour)
			all := w.told(t)
			if len(all) == 0 {
				continue
			}
			emails = append(emails, len(all))
			for _, m := range all {
				for id := range mine {
					if has := strings.Contains(m.Text, id); has != (m.To == "ada@acme.test") {
						t.Errorf("%s is told of %s: %v", m.To, id, has)
					}
				}
				if !strings.Contains(m.Text, theirs.ID) {
					t.Errorf("%s isn't told of %s", m.To, theirs.ID)
				}
			}
		}
		if !slices.Equal(emails, []int{2, 2, 2, 2}) {
			t.Errorf("emails at a time: %v", emails)
		}
		if got := w.Audit(t, w.tenant.ID); len(got) != 4*4 {
			t.Errorf("%d entries in the audit log, want one for each notice", len(got))
		}
	})
}
