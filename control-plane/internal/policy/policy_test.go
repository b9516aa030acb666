package policy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const owner = permission.RoleOwner

func update(p *cloudv1.SignInPolicy, paths ...string) *cloudv1.UpdateSignInPolicyRequest {
	return &cloudv1.UpdateSignInPolicyRequest{Policy: p, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}
}

// byProvider is a member whom the tenant's provider made.
func byProvider(t *testing.T, w *cloudtest.World, tenantID, connection, role string) store.User {
	t.Helper()
	u := store.User{ID: w.IDs.New(ids.User, w.Now()), HomeTenant: tenantID, CreatedAt: w.Now()}
	u.Email = strings.ToLower(u.ID) + "@example.com"
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertUser(ctx, u),
			tx.InsertMembership(ctx, store.Membership{TenantID: tenantID, UserID: u.ID, ConnectionID: connection, CreatedAt: w.Now(), Version: 1}),
			tx.InsertBinding(ctx, store.Binding{
				TenantID: tenantID, ID: w.IDs.New(ids.Binding, w.Now()), PrincipalID: u.ID, RoleID: rights.FixedID(role), CreatedAt: w.Now(),
			}))
	})
	return u
}

// Each thing that is missing is named, and the last one that is given is enough.
func TestRequireSSO_NeedsAWayInForOwners(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := &policy.Service{Kit: w.Kit}
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, u, owner)
		refused := func(want string) {
			t.Helper()
			_, err := s.UpdateSignInPolicy(ctx, update(&cloudv1.SignInPolicy{RequireSso: true}, "require_sso"))
			if f := cloudtest.Refused(t, err, "SSO_NOT_READY"); !strings.Contains(f.Error(), want) {
				t.Errorf("%v, want %s", f, want)
			}
		}
		refused("an enabled single sign-on connection")
		c := store.Connection{TenantID: tn.ID, ID: "sso_1", Name: "a", Issuer: "https://idp.example.com", DefaultRole: rights.FixedID("viewer"), Settings: 2, Tested: 1, Enabled: true, Version: 1}
		write := func(edit func()) {
			t.Helper()
			edit()
			w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateConnection(ctx, &c) })
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c) })
		refused("whose test sign-in passed with its present settings")
		write(func() { c.Tested, c.Enabled = 2, false })
		refused("an enabled single sign-on connection")
		write(func() { c.Enabled = true })
		refused("an owner who signs in through single sign-on")
		// Any of three makes an owner: a mapping, the default role, a member.
		byProvider(t, w, tn.ID, c.ID, owner)
		refused("break-glass codes")
		if _, err := s.CreateBreakGlassCodes(ctx, nil); err != nil {
			t.Fatal(err)
		}
		w.Outbox(t)
		res, err := s.UpdateSignInPolicy(ctx, update(&cloudv1.SignInPolicy{RequireSso: true}, "require_sso"))
		if err != nil || !res.GetPolicy().GetRequireSso() {
			t.Fatalf("%v, %v", res, err)
		}
		if rows := w.Outbox(t); len(rows) != 3 || rows[0].Kind != store.OutboxTenant || rows[1].Kind != store.OutboxAccess || rows[2].Kind != store.OutboxUser || rows[2].Subject != tn.ID {
			t.Errorf("the cell is told %+v", rows)
		}
		if got := strings.Join(w.Audit(t, tn.ID), " "); got != "break_glass_codes.create policy.update" {
			t.Errorf("audit has %q", got)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			err := policy.KeepDoor(ctx, tx, c)
			cloudtest.Refused(t, err, "SSO_REQUIRED_BY_POLICY")
			second := c
			second.ID, second.DefaultRole, second.Name = "sso_2", store.RoleOwner, "b"
			return errors.Join(tx.InsertConnection(ctx, second), policy.KeepDoor(ctx, tx, c))
		})
	})
}

func TestRequireSSO_NeedsAnOwnerWhoCanUseACode(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := &policy.Service{Kit: w.Kit}
	tn, u := w.Tenant(t, "acme", "ada@example.com")
	c := store.Connection{TenantID: tn.ID, ID: "sso_1", DefaultRole: store.RoleOwner, Settings: 1, Tested: 1, Enabled: true, Version: 1}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertConnection(ctx, c), tx.DeleteMembership(ctx, tn.ID, u.ID))
	})
	sso := byProvider(t, w, tn.ID, c.ID, owner)
	ctx, _ := w.As(t, tn, sso, owner)
	res, err := s.GetSignInPolicy(ctx, nil)
	if err != nil || !slices.ContainsFunc(res.GetRequireSsoNeeds(), func(n string) bool { return strings.Contains(n, "by emailed link") }) {
		t.Errorf("%v, %v", res, err)
	}
}

func TestUpdate_ShortensOnlyAndKeepsConcurrentChanges(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := &policy.Service{Kit: w.Kit}
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, u, owner)
		for _, bad := range []*cloudv1.UpdateSignInPolicyRequest{
			update(nil),
			update(nil, "etag"),
			update(&cloudv1.SignInPolicy{SessionIdleSeconds: 899}, "session_idle_seconds"),
			update(&cloudv1.SignInPolicy{SessionIdleSeconds: 14*86400 + 1}, "session_idle_seconds"),
			update(&cloudv1.SignInPolicy{AuditRetentionSeconds: 90*86400 - 1}, "audit_retention_seconds"),
			update(&cloudv1.SignInPolicy{AuditRetentionSeconds: 3650*86400 + 1}, "audit_retention_seconds"),
			update(&cloudv1.SignInPolicy{SessionLifeSeconds: 30*86400 + 1}, "session_life_seconds"),
			update(&cloudv1.SignInPolicy{SessionLifeSeconds: -1}, "session_life_seconds"),
			update(&cloudv1.SignInPolicy{KeyLifeMaxSeconds: 1 << 60}, "key_life_max_seconds"),
		} {
			_, err := s.UpdateSignInPolicy(ctx, bad)
			cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		}
		first, err := s.UpdateSignInPolicy(ctx, update(&cloudv1.SignInPolicy{SessionIdleSeconds: 900, KeyLifeMaxSeconds: 5}, "session_idle_seconds"))
		if err != nil || first.GetPolicy().GetSessionIdleSeconds() != 900 || first.GetPolicy().GetKeyLifeMaxSeconds() != 0 {
			t.Fatalf("%v, %v: fields outside the mask stay", first, err)
		}
		second := update(&cloudv1.SignInPolicy{KeyNetworksRequired: true}, "key_networks_required")
		second.Etag = first.GetPolicy().GetEtag()
		if _, err := s.UpdateSignInPolicy(ctx, second); err != nil {
			t.Fatal(err)
		}
		second.Policy.KeyNetworksRequired = false
		_, err = s.UpdateSignInPolicy(ctx, second)
		cloudtest.Refused(t, err, "ETAG_MISMATCH")
		w.Outbox(t)
		if _, err := s.UpdateSignInPolicy(ctx, update(&cloudv1.SignInPolicy{KeyNetworksRequired: true}, "key_networks_required")); err != nil {
			t.Fatal(err)
		}
		if rows := w.Outbox(t); len(rows) != 0 {
			t.Errorf("what changes nothing writes %+v", rows)
		}
	})
}

// A session ends by the strictest policy that it could reach, and is not kept fresh by use
// elsewhere.
func TestSessions_LiveAsLongAsTheStrictestTenantAllows(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		strict, u := w.Tenant(t, "strict", "ada@example.com")
		lax, _ := w.Tenant(t, "lax", "bob@example.com")
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertMembership(ctx, store.Membership{TenantID: lax.ID, UserID: u.ID, CreatedAt: w.Now(), Version: 1}),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: strict.ID, SessionIdle: time.Hour, SessionLife: 3 * time.Hour, Version: 1}),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: lax.ID, SessionIdle: 2 * time.Hour, Version: 1}))
		})
		open := func(only string) (token string) {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				o, err := session.Open(ctx, tx, w.IDs, w.Now(), u.ID, only, "")
				token = o.Token
				return err
			})
			return token
		}
		alive := func(token string, touch bool) (ok bool) {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				found, err := session.Find(ctx, tx, token, w.Now())
				if ok = err == nil; ok && touch {
					return tx.TouchSession(ctx, found.Digest, w.Now(), found.ExpiresAt)
				}
				return nil
			})
			return ok
		}
		whole, inLax, inStrict := open(""), open(lax.ID), open(strict.ID)
		w.Advance(time.Hour - time.Second)
		if !alive(whole, true) || !alive(inLax, false) || !alive(inStrict, false) {
			t.Error("ended too early")
		}
		w.Advance(time.Second)
		if !alive(whole, true) || alive(inStrict, true) || !alive(inLax, true) {
			t.Error("idle: only the session in the strict tenant alone wasn't used")
		}
		w.Advance(59 * time.Minute)
		if !alive(whole, true) {
			t.Error("used, and ended")
		}
		w.Advance(59 * time.Minute)
		if !alive(whole, true) || !alive(inLax, true) {
			t.Error("used, and ended")
		}
		w.Advance(2 * time.Minute)
		if alive(whole, true) || !alive(inLax, true) {
			t.Error("the strict tenant's life, and it alone, is over")
		}
	})
}

func TestKeys_NewOnesFulfilThePolicyAndOldOnesAreListed(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := &policy.Service{Kit: w.Kit}
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, u, owner)
		old := store.Key{TenantID: tn.ID, ID: "key_000000000001", Name: "old", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: u.ID, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
		good := old
		good.ID, good.Kind, good.ExpiresAt, good.CIDRs = "key_000000000002", cloudv1.KeyKind_KEY_KIND_JOBS, w.Now().Add(90*24*time.Hour), []string{"10.0.0.0/8"}
		ended := old
		ended.ID, ended.ExpiresAt = "key_000000000003", w.Now().Add(time.Second)
		temporary := old
		temporary.ID, temporary.Kind, temporary.ExpiresAt = "key_000000000004", cloudv1.KeyKind_KEY_KIND_TEMPORARY, w.Now().Add(15*time.Minute)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertKey(ctx, temporary), tx.InsertKey(ctx, old), tx.InsertKey(ctx, good), tx.InsertKey(ctx, ended),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: tn.ID, KeyLife: 90 * 24 * time.Hour, KeyNetworks: true, NoPersonalKeys: true, Version: 1}))
		})
		w.Advance(time.Minute)
		res, err := s.ListKeysOutsidePolicy(ctx, nil)
		if err != nil || res.GetTotal() != 1 || res.GetKeys()[0].GetKeyId() != old.ID || len(res.GetKeys()[0].GetProblems()) != 3 || res.GetKeys()[0].GetOwner() == "" {
			t.Errorf("%v, %v", res, err)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			for name, tc := range map[string]struct {
				edit    func(*store.Key)
				changed []string
				field   string
			}{
				"no end":                      {func(k *store.Key) { k.ExpiresAt = time.Time{} }, []string{"expires_at", "cidrs"}, "expires_at"},
				"an end too far":              {func(k *store.Key) { k.ExpiresAt = k.ExpiresAt.Add(time.Second) }, []string{"expires_at", "cidrs"}, "expires_at"},
				"no networks":                 {func(k *store.Key) { k.CIDRs = nil }, []string{"expires_at", "cidrs"}, "cidrs"},
				"good":                        {func(*store.Key) {}, []string{"expires_at", "cidrs"}, ""},
				"an old one's name":           {func(k *store.Key) { *k = old }, []string{"name"}, ""},
				"an old one's networks":       {func(k *store.Key) { *k = old }, []string{"cidrs"}, "cidrs"},
				"longer, from its making on":  {func(k *store.Key) { k.ExpiresAt = w.Now().Add(90 * 24 * time.Hour) }, []string{"expires_at"}, "expires_at"},
				"a personal one, for the API": {func(k *store.Key) { k.Kind = old.Kind }, []string{"expires_at", "cidrs"}, ""},
			} {
				k := good
				tc.edit(&k)
				err := policy.CheckKey(ctx, tx, k, tc.changed...)
				f, refused := fault.As(err)
				if refused != (tc.field != "") || refused && (len(f.Fields) != 1 || f.Fields[0].Name != tc.field) {
					t.Errorf("%s: %v", name, err)
				}
			}
			return nil
		})
	})
}

// What cells are told: personal keys that the policy stops do nothing there.
func TestReader_AStoppedPersonalKeyDoesNothingAtTheTenantURL(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		tn, mailed := w.Tenant(t, "acme", "ada@example.com")
		proved := w.Member(t, tn.ID, "bob@example.com", owner)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertFactor(ctx, store.Factor{ID: "fac_1", UserID: proved.ID, Kind: store.FactorTOTP, ConfirmedAt: w.Now()}),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: tn.ID, Version: 1}))
		})
		sso := byProvider(t, w, tn.ID, "sso_1", owner)
		const personal, jobs = cloudv1.KeyKind_KEY_KIND_PERSONAL, cloudv1.KeyKind_KEY_KIND_JOBS
		for name, tc := range map[string]struct {
			policy                      store.SignInPolicy
			mailed, proved, sso, others bool // May do something.
		}{
			"nothing set":      {store.SignInPolicy{}, true, true, true, true},
			"sso required":     {store.SignInPolicy{RequireSSO: true}, false, false, true, true},
			"factor required":  {store.SignInPolicy{RequireSecondFactor: true}, false, true, true, true},
			"no personal keys": {store.SignInPolicy{NoPersonalKeys: true}, false, false, false, true},
		} {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				p, err := tx.GetSignInPolicy(ctx, tn.ID)
				tc.policy.TenantID, tc.policy.Version = tn.ID, p.Version
				if err := errors.Join(err, tx.UpdateSignInPolicy(ctx, &tc.policy)); err != nil {
					return err
				}
				r := policy.NewReader(tx, tn.ID)
				for _, k := range []struct {
					who   string
					owner store.User
					kind  cloudv1.KeyKind
					want  bool
				}{{"mailed", mailed, personal, tc.mailed}, {"proved", proved, personal, tc.proved}, {"sso", sso, personal, tc.sso}, {"others", mailed, jobs, tc.others}} {
					may, err := r.OfKey(ctx, store.Key{TenantID: tn.ID, OwnerID: k.owner.ID, Kind: k.kind})
					if err != nil || may.Grants.Anywhere(permission.JobEnqueue) != k.want {
						t.Errorf("%s, %s: %v, %v", name, k.who, may, err)
					}
					forJobs, everywhere, err := r.Stopped(ctx, store.Key{TenantID: tn.ID, OwnerID: k.owner.ID, Kind: k.kind})
					if err != nil || forJobs == k.want || everywhere != (forJobs && !tc.policy.NoPersonalKeys) {
						t.Errorf("%s, %s: stopped for jobs %v, everywhere %v, %v", name, k.who, forJobs, everywhere, err)
					}
				}
				return nil
			})
		}
	})
}

// entering is a call by a session of a user of no tenant in particular.
func entering(t *testing.T, u store.User, sessionID string) context.Context {
	return access.With(t.Context(), access.Caller{UserID: u.ID, Name: u.Email, SessionID: sessionID, RequestID: "req_test", Peer: "203.0.113.9"})
}

func TestBreakGlass_ACodeLetsOneSessionInForAnHourAndTellsAllOwners(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := &policy.Service{Kit: w.Kit}
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		w.Member(t, tn.ID, "bob@example.com", owner)
		w.Member(t, tn.ID, "eve@example.com", permission.RoleAdmin)
		ctx, _ := w.As(t, tn, u, owner)
		first, err := s.CreateBreakGlassCodes(ctx, nil)
		if err != nil || len(first.GetCodes()) != 10 {
			t.Fatalf("%v, %v", first, err)
		}
		made, err := s.CreateBreakGlassCodes(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: tn.ID, RequireSSO: true, Version: 1})
		})
		in := entering(t, u, "ses_1")
		_, err = s.UseBreakGlassCode(in, &cloudv1.UseBreakGlassCodeRequest{Tenant: "acme", Code: first.GetCodes()[0]})
		cloudtest.Refused(t, err, "WRONG_CODE") // Replaced.
		w.Outbox(t)
		code := made.GetCodes()[0]
		res, err := s.UseBreakGlassCode(in, &cloudv1.UseBreakGlassCodeRequest{Tenant: tn.ID, Code: " " + strings.ToUpper(code)})
		if err != nil || res.GetCodesLeft() != 9 || !res.GetExpiresAt().AsTime().Equal(w.Now().Add(time.Hour)) {
			t.Fatalf("%v, %v", res, err)
		}
		var to []string
		for _, m := range w.Emails(t) {
			to = append(to, m.To)
			if !strings.Contains(m.Text, "ada@example.com") || !strings.Contains(m.Text, "203.0.113.9") || strings.Contains(m.Text, code) {
				t.Errorf("email\n%s", m.Text)
			}
		}
		if slices.Sort(to); !slices.Equal(to, []string{"ada@example.com", "bob@example.com"}) {
			t.Errorf("emails to %v", to)
		}
		admit := func(sessionID string, may access.Rights) error {
			return policy.Admit(t.Context(), w.Kit, access.Caller{TenantID: tn.ID, Tenant: "acme", UserID: u.ID, SessionID: sessionID, Rights: may})
		}
		if err := admit("ses_1", cloudtest.Rights(owner)); err != nil {
			t.Error(err)
		}
		cloudtest.Refused(t, admit("ses_2", cloudtest.Rights(owner)), "SSO_REQUIRED")
		cloudtest.Refused(t, admit("ses_1", cloudtest.Rights(permission.RoleAdmin)), "SSO_REQUIRED") // No owner any more.
		w.Advance(time.Hour)
		cloudtest.Refused(t, admit("ses_1", cloudtest.Rights(owner)), "SSO_REQUIRED")
		if got := strings.Join(w.Audit(t, tn.ID), " "); got != "break_glass_codes.create break_glass_codes.create break_glass_codes.refuse break_glass_codes.use" {
			t.Errorf("audit has %q", got)
		}
	})
}

func TestBreakGlass_GuessesAreCounted(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := &policy.Service{Kit: w.Kit}
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, u, owner)
		made, err := s.CreateBreakGlassCodes(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := entering(t, u, "ses_1")
		for range 5 {
			_, err = s.UseBreakGlassCode(in, &cloudv1.UseBreakGlassCodeRequest{Tenant: "acme", Code: "aaaa"})
		}
		cloudtest.Refused(t, err, "FACTOR_LOCKED")
		good := &cloudv1.UseBreakGlassCodeRequest{Tenant: "acme", Code: made.GetCodes()[0]}
		_, err = s.UseBreakGlassCode(in, good)
		if f := cloudtest.Refused(t, err, "FACTOR_LOCKED"); f.RetryAfter <= 0 {
			t.Error("no time to wait")
		}
		w.Advance(15 * time.Minute)
		if _, err := s.UseBreakGlassCode(in, good); err != nil {
			t.Errorf("what was refused unread is not used up: %v", err)
		}
	})
}

func TestBreakGlass_OwnersMakeCodesAndKeysDont(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := &policy.Service{Kit: w.Kit}
	tn, u := w.Tenant(t, "acme", "ada@example.com")
	ctx, _ := w.As(t, tn, u, permission.RoleAdmin)
	_, err := s.CreateBreakGlassCodes(ctx, nil)
	cloudtest.Refused(t, err, "OWNERS_ONLY")
	c := access.From(ctx)
	c.Rights, c.KeyID = cloudtest.Rights(owner), "key_1"
	_, err = s.CreateBreakGlassCodes(access.With(ctx, c), nil)
	cloudtest.Refused(t, err, "OWNERS_ONLY")
}
