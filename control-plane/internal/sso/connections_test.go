package sso

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml/samltest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func (b *bundle) request() *cloudv1.CreateSsoConnectionRequest {
	return &cloudv1.CreateSsoConnectionRequest{Name: "Staff", Issuer: b.idp.issuer(), ClientId: clientID, ClientSecret: clientSecret}
}

func TestCreate_StoresNothingUntilTheIssuerAnswers(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	for name, tc := range map[string]struct {
		document func(map[string]any)
		words    string
	}{
		"O12 another issuer":            {func(d map[string]any) { d["issuer"] = "https://evil.example" }, "match exactly"},
		"O12 a slash more":              {func(d map[string]any) { d["issuer"] = b.idp.issuer() + "/" }, "match exactly"},
		"O11 a template":                {func(d map[string]any) { d["issuer"] = "https://login.example/{tenantid}/v2.0" }, "match exactly"},
		"O13 keys at the metadata":      {func(d map[string]any) { d["jwks_uri"] = "https://169.254.169.254/keys" }, "jwks_uri"},
		"O13 token by plain http":       {func(d map[string]any) { d["token_endpoint"] = "http://idp.example/token" }, "token_endpoint"},
		"O13 userinfo in a file":        {func(d map[string]any) { d["userinfo_endpoint"] = "file:///etc/passwd" }, "userinfo_endpoint"},
		"O13 script for people":         {func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" }, "authorization_endpoint"},
		"no token endpoint":             {func(d map[string]any) { delete(d, "token_endpoint") }, "token_endpoint"},
		"O3 PKCE by plain text only":    {func(d map[string]any) { d["code_challenge_methods_supported"] = []string{"plain"} }, "S256"},
		"O6 signs with secrets or not":  {func(d map[string]any) { d["id_token_signing_alg_values_supported"] = []string{"none", "HS256"} }, "algorithms"},
		"no code flow":                  {func(d map[string]any) { d["response_types_supported"] = []string{"id_token"} }, "code flow"},
		"not a document":                {func(d map[string]any) { d["code_challenge_methods_supported"] = "S256" }, "can't read"},
		"O13 as large as one can think": {func(d map[string]any) { d["x"] = strings.Repeat("a", 1<<20) }, "too large"},
	} {
		b.idp.with(func(p *idp) { p.document = tc.document })
		_, err := b.s.CreateSsoConnection(b.ctx, b.request())
		f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		if f.Fields[0].Name != "issuer" || !strings.Contains(f.Fields[0].Problem, tc.words) {
			t.Errorf("%s: %+v", name, f.Fields)
		}
	}
	b.idp.with(func(p *idp) { p.document, p.down = nil, true })
	_, err := b.s.CreateSsoConnection(b.ctx, b.request())
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); !strings.Contains(f.Error(), "status 503") || strings.Contains(f.Error(), "secret inside") {
		t.Errorf("%s", f.Error())
	}
	if res, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{}); err != nil || len(res.GetConnections()) != 0 {
		t.Errorf("%v, %v", res, err)
	}
}

// O13: on the hosted service nothing inside is called, whatever a tenant writes.
func TestCreate_InsideAddressesAreRefusedWithoutACall(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	hosted := New(Needs{
		Kit: b.Kit, Egress: egress.Options{},
	})
	for _, issuer := range []string{
		b.idp.issuer(), strings.Replace(b.idp.issuer(), "http://", "https://", 1), "https://169.254.169.254", "https://localhost", "https://[::1]",
		"http://idp.example", "https://user:pw@idp.example", "https://idp.example?x=1", "https://idp.example#f", "https://idp.example:8443", "idp.example",
		"https://idp.example/{tenantid}", "", "https://" + strings.Repeat("a", 600),
	} {
		r := b.request()
		r.Issuer = issuer
		_, err := hosted.CreateSsoConnection(b.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "issuer" {
			t.Errorf("%s: %+v", issuer, f.Fields)
		}
	}
	if b.idp.documentReads != 0 {
		t.Error("the provider on this machine was called")
	}
}

func TestCreate_ListsEveryWrongField(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	_, err := b.s.CreateSsoConnection(b.ctx, &cloudv1.CreateSsoConnectionRequest{
		Name: strings.Repeat("a", 101), Issuer: "ftp://x", ClientSecret: "a\nb", Scopes: []string{"a b"}, GroupsClaim: "a\x00", DefaultRole: "nobody",
		GroupMappings: []*cloudv1.GroupMapping{{Group: "a", Role: viewer}, {Group: "a", Role: admin}},
	})
	f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Name)
	}
	if want := "name issuer client_id client_secret scopes groups_claim group_mappings"; strings.Join(got, " ") != want {
		t.Errorf("fields %v, want %s", got, want)
	}
	// Roles are looked up among the tenant's, once the rest is right.
	_, err = b.s.CreateSsoConnection(b.ctx, &cloudv1.CreateSsoConnectionRequest{Name: "Staff", Issuer: b.idp.issuer(), ClientId: clientID, DefaultRole: "nobody"})
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); len(f.Fields) != 1 || f.Fields[0].Name != "default_role" {
		t.Errorf("fields %v", f.Fields)
	}
}

func TestCreate_IsIdempotentAndBounded(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		r := b.request()
		r.RequestId = "9b2f1c9e-55a0-4d0e-9a58-0c0f5b9a3a11"
		first, err := b.s.CreateSsoConnection(b.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.s.CreateSsoConnection(b.ctx, r)
		if err != nil || again.GetConnection().GetId() != first.GetConnection().GetId() {
			t.Errorf("%v, %v", again, err)
		}
		r.Name = "Other"
		_, err = b.s.CreateSsoConnection(b.ctx, r)
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		r.RequestId = "nonsense"
		_, err = b.s.CreateSsoConnection(b.ctx, r)
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		for range connectionsMax - 1 {
			b.create(nil)
		}
		_, err = b.s.CreateSsoConnection(b.ctx, b.request())
		cloudtest.Refused(t, err, "CONNECTION_LIMIT")
	})
}

func TestSecret_IsSealedAndNeverShown(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.enabled(nil)
	list, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	shown := protojson.Format(list) + protojson.Format(c)
	b.Service(t, func(ctx context.Context, tx *store.Tx) error {
		stored, err := tx.GetConnection(ctx, b.tenant.ID, c.GetId())
		if err != nil {
			return err
		}
		if stored.ClientSecret == "" || strings.Contains(stored.ClientSecret, clientSecret) {
			t.Errorf("stored as %q", stored.ClientSecret)
		}
		if strings.Contains(shown, stored.ClientSecret) || strings.Contains(shown, clientSecret) || !list.GetConnections()[0].GetHasClientSecret() {
			t.Errorf("shown:\n%s", shown)
		}
		events, err := tx.ListAudit(ctx, b.tenant.ID, store.AuditFilter{}, store.Page{})
		for _, e := range events {
			for field, change := range e.Changes {
				if text := strings.ToLower(field + " " + toText(change)); strings.Contains(text, clientSecret) || strings.Contains(text, strings.ToLower(stored.ClientSecret)) {
					t.Errorf("audit has %s", text)
				}
			}
		}
		return err
	})
	if got := list.GetConnections()[0]; got.GetRedirectUri() != "http://corvo.test:8080/auth/oidc/"+b.tenant.ID+"/callback" || got.GetOldRedirectUri() != "" || got.GetLoginUrl() != "http://corvo.test:8080/auth/oidc/start?tenant=acme" {
		t.Errorf("%v", got)
	}
}

func toText(c store.Change) string {
	var b strings.Builder
	for _, v := range []any{c.Before, c.After} {
		if s, ok := v.(string); ok {
			b.WriteString(s)
		}
	}
	return b.String()
}

func TestTrial_NotesItsResultAndChangesNothingElse(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		c := b.create(nil)
		b.idp.with(func(p *idp) { p.person["groups"] = []string{"engineers", "<script>alert(1)</script>"} })
		before := b.stored(c.GetId())
		audit := len(b.Audit(t, b.tenant.ID))
		code, body := b.try(c)
		if code != http.StatusOK || !strings.Contains(body, "Close this window") || strings.Contains(body, "<script") {
			t.Fatalf("%d\n%s", code, body)
		}
		list, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := list.GetConnections()[0]
		test := got.GetLastTest()
		if !test.GetSucceeded() || test.GetSubject() != "subject-1" || test.GetEmail() != "ada@idp.example" || test.GetRole() != developer || len(test.GetGroups()) != 2 {
			t.Errorf("%v", test)
		}
		if got.GetEtag() != c.GetEtag() || got.GetEnabled() {
			t.Errorf("the trial changed the connection: %v", got)
		}
		after := b.stored(c.GetId())
		after.LastTest, after.Tested, after.Version = before.LastTest, before.Tested, before.Version
		if toJSON(t, after) != toJSON(t, before) {
			t.Errorf("%+v became %+v", before, after)
		}
		if n := len(b.Audit(t, b.tenant.ID)); n != audit {
			t.Errorf("%d audit rows more", n-audit)
		}
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.GetIdentity(ctx, b.tenant.ID, c.GetId(), b.idp.issuer(), "subject-1"); err == nil {
				t.Error("the trial made a user")
			}
			all, err := tx.ListMembers(ctx, b.tenant.ID, store.Page{})
			if len(all) != 1 {
				t.Errorf("%d members", len(all))
			}
			return err
		})
	})
}

// Settings that changed while somebody was signing in at the provider were not tried.
func TestTrial_OfOlderSettingsDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.create(nil)
	b.s.note(t.Context(), b.stored(c.GetId()), trial{Succeeded: true})
	c = b.enable(c)
	old := b.stored(c.GetId())
	c, err := b.update(c, "scopes", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Scopes = []string{"groups"} })
	if err != nil {
		t.Fatal(err)
	}
	b.s.note(t.Context(), old, trial{Succeeded: true})
	_, err = b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: c.GetId()})
	cloudtest.Refused(t, err, "SSO_TEST_NEEDED")
}

func TestTrial_FailureSaysWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.create(func(r *cloudv1.CreateSsoConnectionRequest) { r.ClientSecret = "wrong" })
	code, body := b.try(c)
	if code != http.StatusBadGateway || !strings.Contains(body, "invalid_client") || strings.Contains(body, "<script") {
		t.Errorf("%d\n%s", code, body)
	}
	list, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if test := list.GetConnections()[0].GetLastTest(); test.GetSucceeded() || !strings.Contains(test.GetProblem(), "wrong secret") {
		t.Errorf("%v", test)
	}
	_, err = b.update(c, "enabled", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Enabled = true })
	cloudtest.Refused(t, err, "SSO_TEST_NEEDED")
	b.idp.with(func(p *idp) { p.down = true })
	if code, _ := b.try(c); code != http.StatusBadGateway {
		t.Errorf("down: %d", code)
	}
}

func TestTrial_IsForThoseWhoMaySetUpSingleSignOn(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.create(nil)
	dev := b.Member(t, b.tenant.ID, "dev@acme.example", developer)
	_, stranger := b.Tenant(t, "other", "eve@other.example")
	res, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: c.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for name, br := range map[string]*browser{"nobody": b.browser(), "developer": b.browser(), "stranger": b.browser(), "another site": b.browser(), "session of another tenant": b.browser()} {
		switch name {
		case "developer":
			br.signIn(dev.ID, "")
		case "stranger":
			br.signIn(stranger.ID, "")
		case "another site":
			br.signIn(b.owner.ID, "")
			br.headers.Set("Sec-Fetch-Site", "cross-site")
		case "session of another tenant":
			br.signIn(b.owner.ID, "tn_01JD0000000000000000000000")
		}
		if page := br.get(res.GetUrl()); page.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, page.Code)
		}
	}
}

// A new client secret used to lock everybody out until it was tested.
func TestUpdate_NewSecretStagesBesideTheLiveSettings(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		c := b.enabled(nil)
		br := b.mustEnter()
		signedIn := func() bool { _, _, ok := br.found(); return ok }
		// Role mappings need no trial.
		c, err := b.update(c, "group_mappings,default_role,name", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Name, r.DefaultRole = "Staff 2", viewer })
		if err != nil || !c.GetEnabled() || c.GetLastTest() == nil || c.GetStaged() != nil {
			t.Fatalf("%v, %v", c, err)
		}
		c, err = b.update(c, "client_secret", func(r *cloudv1.UpdateSsoConnectionRequest) { r.ClientSecret = "the new secret" })
		if err != nil || !c.GetEnabled() || !c.GetStaged().GetNewClientSecret() || !c.GetLastTest().GetSucceeded() {
			t.Fatalf("%v, %v", c, err)
		}
		_, err = b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: c.GetId()})
		cloudtest.Refused(t, err, "SSO_TEST_NEEDED")
		// The provider does not know it yet: the trial fails, and people sign in as before.
		if code, body := b.try(c); code == http.StatusOK || !strings.Contains(body, "invalid_client") {
			t.Fatalf("%d %s", code, body)
		}
		b.mustEnter()
		if !signedIn() {
			t.Error("a session ended")
		}
		// Now it does, and no longer the old one.
		b.idp.with(func(p *idp) { p.secret = "the new secret" })
		if code, body := b.try(c); code != http.StatusOK {
			t.Fatal(body)
		}
		switched, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: c.GetId()})
		if got := switched.GetConnection(); err != nil || !got.GetEnabled() || got.GetStaged() != nil || !got.GetLastTest().GetSucceeded() {
			t.Fatalf("%v, %v", switched, err)
		}
		b.mustEnter()
		if !signedIn() {
			t.Error("switching signed people out")
		}
		if got := strings.Join(b.Audit(t, b.tenant.ID), " "); !strings.Contains(got, "sso.switch") || strings.Contains(got, "sso.discard") {
			t.Errorf("audit has %s", got)
		}
	})
}

func TestDiscard_ForgetsTheStagedChange(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.enabled(nil)
	c, err := b.update(c, "scopes", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Scopes = []string{"groups"} })
	if err != nil || len(c.GetScopes()) != 0 || len(c.GetStaged().GetScopes()) != 1 {
		t.Fatalf("%v, %v", c, err)
	}
	// Changed back by hand, nothing is staged either.
	back, err := b.update(c, "scopes", func(*cloudv1.UpdateSsoConnectionRequest) {})
	if err != nil || back.GetStaged() != nil {
		t.Errorf("%v, %v", back, err)
	}
	if _, err = b.update(c, "scopes", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Scopes, r.Etag = []string{"groups"}, "" }); err != nil {
		t.Fatal(err)
	}
	res, err := b.s.DiscardSsoChange(b.ctx, &cloudv1.DiscardSsoChangeRequest{ConnectionId: c.GetId()})
	if err != nil || res.GetConnection().GetStaged() != nil || !res.GetConnection().GetEnabled() {
		t.Errorf("%v, %v", res, err)
	}
	_, err = b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: c.GetId()})
	cloudtest.Refused(t, err, "NOTHING_STAGED")
}

// The provider accepted the login, but nobody could sign in with these settings.
func TestTrial_FailsAndNamesTheClaimIfNobodyCouldSignIn(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.create(func(r *cloudv1.CreateSsoConnectionRequest) {
		r.DefaultRole, r.GroupMappings, r.GroupsClaim = nobody, []*cloudv1.GroupMapping{{Group: "staff", Role: viewer}}, "roles"
	})
	code, body := b.try(c)
	got := lastTest(b.stored(c.GetId()))
	if code == http.StatusOK || got.GetSucceeded() || got.GetMissingClaim() != "roles" || !strings.Contains(got.GetProblem(), `no claim "roles"`) || !slices.Contains(got.GetClaims(), "email") {
		t.Errorf("%d %v\n%s", code, got, body)
	}
	_, err := b.update(c, "enabled", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Enabled = true })
	cloudtest.Refused(t, err, "SSO_TEST_NEEDED")
	// The claim is there, and no group of it is mapped.
	b.idp.with(func(p *idp) { p.person["roles"] = []string{"guests"} })
	_, _ = b.try(c)
	if got := lastTest(b.stored(c.GetId())); got.GetSucceeded() || got.GetMissingClaim() != "" || !strings.Contains(got.GetProblem(), "guests") {
		t.Errorf("%v", got)
	}
	b.idp.with(func(p *idp) { p.person["roles"] = []string{"staff"} })
	if code, body := b.try(c); code != http.StatusOK || !lastTest(b.stored(c.GetId())).GetSucceeded() {
		t.Errorf("%d %s", code, body)
	}
}

func TestUpdate_RefusesWhatIsStaleForeignOrUnknown(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.create(nil)
	_, err := b.update(c, "name", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Name, r.Etag = "x", "old" })
	cloudtest.Refused(t, err, "ETAG_MISMATCH")
	_, err = b.update(c, "tenant_id", func(*cloudv1.UpdateSsoConnectionRequest) {})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	_, err = b.s.UpdateSsoConnection(b.ctx, &cloudv1.UpdateSsoConnectionRequest{ConnectionId: c.GetId(), UpdateMask: &fieldmaskpb.FieldMask{}})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	_, err = b.update(c, "issuer", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Issuer = "https://10.1.1.1:9" })
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")

	other, eve := b.Tenant(t, "other", "eve@other.example")
	foreign, _ := b.As(t, other, eve, owner)
	var texts []string
	for _, id := range []string{c.GetId(), b.IDs.New(ids.Connection, b.Now()), "nonsense"} {
		_, err := b.s.UpdateSsoConnection(foreign, &cloudv1.UpdateSsoConnectionRequest{ConnectionId: id, Name: "x", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
		texts = append(texts, cloudtest.Refused(t, err, "NOT_FOUND").Error())
		_, err = b.s.DeleteSsoConnection(foreign, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: id})
		texts = append(texts, cloudtest.Refused(t, err, "NOT_FOUND").Error())
		_, err = b.s.StartTestLogin(foreign, &cloudv1.StartTestLoginRequest{ConnectionId: id})
		texts = append(texts, cloudtest.Refused(t, err, "NOT_FOUND").Error())
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("%q and %q", text, texts[0])
		}
	}
}

// Whoever may not make owners must not reach a connection that does, in any way.
func TestConnections_NobodyGrantsMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	makesOwners := b.create(func(r *cloudv1.CreateSsoConnectionRequest) {
		r.GroupMappings = []*cloudv1.GroupMapping{{Group: "owners", Role: owner}}
	})
	plain := b.create(nil)
	adm := b.Member(t, b.tenant.ID, "admin@acme.example", admin)
	b.ctx, _ = b.As(t, b.tenant, adm, admin)
	_, err := b.update(makesOwners, "name", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Name = "x" })
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = b.update(makesOwners, "group_mappings", func(*cloudv1.UpdateSsoConnectionRequest) {})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = b.update(plain, "default_role", func(r *cloudv1.UpdateSsoConnectionRequest) { r.DefaultRole = owner })
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: makesOwners.GetId()})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	r := b.request()
	r.DefaultRole = owner
	_, err = b.s.CreateSsoConnection(b.ctx, r)
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	if _, err := b.update(plain, "name", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Name = "x" }); err != nil {
		t.Error(err)
	}
}

// Whoever chooses the provider chooses who its people are: an admin with a provider of their
// own would sign in as an owner who came that way.
func TestConnections_NobodyVouchesForWhoeverHoldsMore(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := enabledSAML(t, w, nil)
		br := b.browser()
		b.respond(br, b.departSAML(br), nil)
		_, ada, ok := br.found()
		if !ok {
			t.Fatal("nobody signed in")
		}
		adm := b.Member(t, b.tenant.ID, "admin@acme.example", admin)
		asOwner := b.ctx
		b.ctx, _ = b.As(t, b.tenant, adm, admin)
		evil := samltest.New(t, b.conn.GetSaml().GetEntityId(), b.Now())
		swap := func() error {
			_, err := b.updateSAML(&cloudv1.SamlSettings{MetadataXml: evil.Metadata()}, "saml.metadata_xml")
			return err
		}
		if err := swap(); err != nil {
			t.Fatalf("the people of this connection hold less than an admin: %v", err)
		}
		give := func(principalID string) store.Binding {
			return store.Binding{TenantID: b.tenant.ID, ID: b.IDs.New(ids.Binding, b.Now()), PrincipalID: principalID, RoleID: store.RoleOwner, CreatedAt: b.Now()}
		}
		group := func(connectionID string) store.Group {
			id := b.IDs.New(ids.Group, b.Now())
			return store.Group{TenantID: b.tenant.ID, ID: id, Name: id, ConnectionID: connectionID, CreatedAt: b.Now(), UpdatedAt: b.Now(), Version: 1}
		}
		for name, make := range map[string]func(context.Context, *store.Tx) (store.Binding, error){
			"a person's own role": func(context.Context, *store.Tx) (store.Binding, error) { return give(ada.ID), nil },
			"a group that a person is in": func(ctx context.Context, tx *store.Tx) (store.Binding, error) {
				g := group("")
				err := tx.InsertGroup(ctx, g)
				return give(g.ID), errors.Join(err, tx.InsertGroupMember(ctx, store.GroupMember{TenantID: g.TenantID, GroupID: g.ID, UserID: ada.ID, CreatedAt: b.Now()}))
			},
			"an empty group of its directory": func(ctx context.Context, tx *store.Tx) (store.Binding, error) {
				g := group(b.conn.GetId())
				return give(g.ID), tx.InsertGroup(ctx, g)
			},
		} {
			var held store.Binding
			b.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
				if held, err = make(ctx, tx); err != nil {
					return err
				}
				return tx.InsertBinding(ctx, held)
			})
			_, disabled := b.update(b.conn, "enabled", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Enabled = false })
			_, switched := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: b.conn.GetId()})
			_, deleted := b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: b.conn.GetId()})
			for _, err := range []error{swap(), disabled, switched, deleted} {
				if f, ok := fault.As(err); !ok || f.Reason != "ABOVE_CALLER" {
					t.Errorf("%s: %v", name, err)
				}
			}
			b.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteBinding(ctx, held.TenantID, held.ID) })
			if err := swap(); err != nil {
				t.Errorf("after %s was taken: %v", name, err)
			}
		}
		b.ctx = asOwner
		if err := swap(); err != nil {
			t.Error(err)
		}
	})
}

func TestDelete_TakesItsPeopleAlongButNotTheLastOwner(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		c := b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) { r.DefaultRole = owner })
		br := b.mustEnter()
		_, u, _ := br.found()
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.DeleteMembership(ctx, b.tenant.ID, b.owner.ID)
		})
		_, err := b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: c.GetId()})
		cloudtest.Refused(t, err, "LAST_OWNER")
		b.Member(t, b.tenant.ID, "second@acme.example", owner)
		if _, err := b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: c.GetId()}); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := br.found(); ok || b.role(u.ID) != nobody {
			t.Error("somebody who can never sign in again is still here")
		}
		if page := b.browser().get("/auth/oidc/start?tenant=acme"); page.Code != http.StatusNotFound {
			t.Errorf("%d", page.Code)
		}
	})
}

// A connection that makes owners no more may have made some.
func TestDelete_AnAdminRemovesNoOwnerWithAConnection(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	c := b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) { r.DefaultRole = owner })
	_, u, _ := b.mustEnter().found()
	if _, err := b.update(c, "default_role", func(r *cloudv1.UpdateSsoConnectionRequest) { r.DefaultRole = admin }); err != nil {
		t.Fatal(err)
	}
	adm := b.Member(t, b.tenant.ID, "admin@acme.example", admin)
	b.ctx, _ = b.As(t, b.tenant, adm, admin)
	_, err := b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: c.GetId()})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	if got := b.role(u.ID); got != owner {
		t.Errorf("the owner is %v now", got)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
