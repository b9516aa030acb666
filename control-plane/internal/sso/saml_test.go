package sso

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml/samltest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// samlBundle is a tenant with a SAML provider beside its OpenID Connect one.
type samlBundle struct {
	*bundle
	saml *samltest.IdP
	conn *cloudv1.SsoConnection
}

func newSAML(t *testing.T, w *cloudtest.World, settings *cloudv1.SamlSettings) *samlBundle {
	t.Helper()
	b := &samlBundle{bundle: newBundle(t, w)}
	b.saml = samltest.New(t, "https://idp.example/saml", w.Now())
	if settings == nil {
		settings = &cloudv1.SamlSettings{}
	}
	settings.MetadataXml = b.saml.Metadata()
	b.conn = b.createSAML(settings)
	return b
}

func (b *samlBundle) createSAML(settings *cloudv1.SamlSettings) *cloudv1.SsoConnection {
	b.t.Helper()
	res, err := b.s.CreateSsoConnection(b.ctx, &cloudv1.CreateSsoConnectionRequest{
		Name: "Company", Type: cloudv1.SsoType_SSO_TYPE_SAML, Saml: settings, DefaultRole: viewer,
		GroupMappings: []*cloudv1.GroupMapping{{Group: "admins", Role: admin}, {Group: "engineers", Role: developer}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return res.GetConnection()
}

// enabledSAML is a bundle whose connection people can use.
func enabledSAML(t *testing.T, w *cloudtest.World, settings *cloudv1.SamlSettings) *samlBundle {
	t.Helper()
	b := newSAML(t, w, settings)
	if page := b.trySAML(nil); page.Code != http.StatusOK {
		t.Fatalf("trial: %d\n%s", page.Code, page.Body)
	}
	b.conn = b.enable(b.conn)
	return b
}

// request is what the browser takes to the provider.
type request struct{ id, relay string }

func (b *samlBundle) read(to string) request {
	b.t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		b.t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(u.Query().Get("SAMLRequest"))
	if err != nil {
		b.t.Fatal(err)
	}
	plain, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		b.t.Fatal(err)
	}
	var asked struct {
		ID string `xml:"ID,attr"`
	}
	if err := xml.Unmarshal(plain, &asked); err != nil {
		b.t.Fatal(err)
	}
	return request{asked.ID, u.Query().Get("RelayState")}
}

// answer is what the provider says of ada to a request.
func (b *samlBundle) answer(id string) samltest.Answer {
	d := b.conn.GetSamlDetails()
	return samltest.Answer{
		ACS: d.GetAcsUrl(), Audience: d.GetSpEntityId(), RequestID: id, Subject: "subject-1", Now: b.Now(),
		Attributes: []samltest.Attribute{{Name: "email", Values: []string{"ada@idp.example"}}, {Name: "displayName", Values: []string{"Ada"}}, {Name: "groups", Values: []string{"x", "engineers"}}},
	}
}

// post is the provider's page in the browser: another site's, so that no cookie goes along.
func (br *browser) post(address string, form url.Values) *httptest.ResponseRecorder {
	br.b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		br.b.t.Fatal(err)
	}
	ctx := access.With(br.b.t.Context(), access.Caller{RequestID: "req_test", Peer: "203.0.113.5", UserAgent: "test"})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, u.RequestURI(), strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	br.b.s.Handler().ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			br.b.t.Errorf("cookie %s is open to scripts or to other sites", c.Name)
		}
		br.cookies[c.Name] = c.Value
	}
	return w
}

func form(raw []byte, relay string) url.Values {
	out := url.Values{"SAMLResponse": {base64.StdEncoding.EncodeToString(raw)}}
	if relay != "" {
		out.Set("RelayState", relay)
	}
	return out
}

func (b *samlBundle) departSAML(br *browser) request {
	b.t.Helper()
	return b.read(br.depart())
}

// respond signs in at the provider and returns the last page.
func (b *samlBundle) respond(br *browser, asked request, change func(*samltest.Answer)) *httptest.ResponseRecorder {
	b.t.Helper()
	a := b.answer(asked.id)
	if change != nil {
		change(&a)
	}
	page := br.post(b.conn.GetSamlDetails().GetAcsUrl(), form(b.saml.Response(a), asked.relay))
	if page.Code != http.StatusSeeOther {
		return page
	}
	return br.get(page.Header().Get("Location"))
}

func (b *samlBundle) trySAML(change func(*samltest.Answer)) *httptest.ResponseRecorder {
	b.t.Helper()
	res, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: b.conn.GetId()})
	if err != nil {
		b.t.Fatal(err)
	}
	br := b.browser()
	br.signIn(b.owner.ID, "")
	page := br.get(res.GetUrl())
	if page.Code != http.StatusSeeOther {
		return page
	}
	return b.respond(br, b.read(page.Header().Get("Location")), change)
}

func (b *samlBundle) updateSAML(settings *cloudv1.SamlSettings, paths ...string) (*cloudv1.SsoConnection, error) {
	b.t.Helper()
	res, err := b.s.UpdateSsoConnection(b.ctx, &cloudv1.UpdateSsoConnectionRequest{ConnectionId: b.conn.GetId(), Saml: settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
	return res.GetConnection(), err
}

func TestSAML_SignsInAsAUserOfThisTenantAlone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := enabledSAML(t, w, &cloudv1.SamlSettings{SignRequests: true})
		br := b.browser()
		to := br.get("/auth/oidc/start?tenant=acme&next=/acme/jobs%3Fstate%3Ddead").Header().Get("Location")
		if !strings.HasPrefix(to, "https://idp.example/saml/sso?SAMLRequest=") || !strings.Contains(to, "&SigAlg=http%3A%2F%2Fwww.w3.org%2F2001%2F04%2Fxmldsig-more%23rsa-sha256&Signature=") {
			t.Errorf("sent to %s", to)
		}
		page := b.respond(br, b.read(to), nil)
		if page.Code != http.StatusSeeOther || page.Header().Get("Location") != "/acme/jobs?state=dead" {
			t.Fatalf("%d to %q\n%s", page.Code, page.Header().Get("Location"), page.Body)
		}
		found, u, ok := br.found()
		if !ok || found.TenantID != b.tenant.ID || u.HomeTenant != b.tenant.ID || u.Email != "ada@idp.example" || u.Name != "Ada" {
			t.Errorf("session %+v of %+v", found, u)
		}
		if got := b.role(u.ID); got != developer {
			t.Errorf("role %s", got)
		}
		if len(br.cookies) != 1 {
			t.Errorf("cookies are left: %v", br.cookies)
		}
		again := b.browser()
		b.respond(again, b.departSAML(again), func(a *samltest.Answer) { a.Attributes[2].Values = []string{"admins"} })
		if _, same, _ := again.found(); same.ID != u.ID || b.role(u.ID) != admin {
			t.Error("the second sign-in made another user, or kept the role")
		}
		// The identity is (connection, issuer, subject).
		var id store.Identity
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			id, err = tx.GetIdentity(ctx, b.tenant.ID, b.conn.GetId(), "https://idp.example/saml", "subject-1")
			return err
		})
		if id.UserID != u.ID {
			t.Errorf("identity %+v", id)
		}
	})
}

func TestSAML_ASetUpBeginsWithOurSideAndEndsWithATrial(t *testing.T) {
	t.Parallel()
	b := newSAML(t, cloudtest.New(t), nil)
	b.conn = b.createSAML(nil) // Without the provider's settings.
	d := b.conn.GetSamlDetails()
	if !strings.HasSuffix(d.GetAcsUrl(), "/auth/saml/"+b.conn.GetId()+"/acs") || d.GetSpEntityId() != d.GetSpMetadataUrl() || !strings.Contains(d.GetSpCertificate(), "BEGIN CERTIFICATE") || b.conn.GetRedirectUri() != d.GetAcsUrl() {
		t.Errorf("details %+v", d)
	}
	_, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: b.conn.GetId()})
	wantReason(t, err, "SAML_INCOMPLETE")
	if _, err := b.update(b.conn, "enabled", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Enabled = true }); err == nil {
		t.Error("an incomplete connection was enabled")
	}
	page := b.browser().get(d.GetSpMetadataUrl())
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), d.GetAcsUrl()) || strings.Contains(page.Body.String(), "SingleLogoutService") || !strings.Contains(page.Body.String(), `entityID="`+d.GetSpEntityId()+`"`) {
		t.Errorf("metadata: %d\n%s", page.Code, page.Body)
	}
	if b.conn, err = b.updateSAML(&cloudv1.SamlSettings{EntityId: b.saml.EntityID, SsoUrl: b.saml.SSO, Certificates: []string{b.saml.PEM()}}, "saml.entity_id", "saml.sso_url", "saml.certificates"); err != nil {
		t.Fatal(err)
	}
	// A trial that fails says why, to the person who tries.
	if body := b.trySAML(func(a *samltest.Answer) { a.Audience = "urn:other" }).Body.String(); !strings.Contains(body, "another audience") {
		t.Errorf("the trial's page lacks the reason:\n%s", body)
	}
	if last := b.message().GetLastTest(); last.GetSucceeded() || !strings.Contains(last.GetProblem(), "another audience") {
		t.Errorf("last test %+v", last)
	}
	if body := b.trySAML(nil).Body.String(); !strings.Contains(body, "developer") || !strings.Contains(body, "displayName, email, groups") {
		t.Errorf("the trial's page lacks role or attributes:\n%s", body)
	}
	if last := b.message().GetLastTest(); !last.GetSucceeded() || last.GetRole() != developer || last.GetSubject() != "subject-1" || len(last.GetClaims()) != 3 {
		t.Errorf("last test %+v", last)
	}
	b.enable(b.conn)
	if stored := b.stored(b.conn.GetId()); strings.Contains(stored.SAMLKey, "PRIVATE") {
		t.Error("the key is stored in clear")
	}
}

func (b *samlBundle) message() *cloudv1.SsoConnection {
	b.t.Helper()
	res, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range res.GetConnections() {
		if c.GetId() == b.conn.GetId() {
			return c
		}
	}
	b.t.Fatal("the connection is gone")
	return nil
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	if refusal, ok := fault.As(err); !ok || refusal.Reason != reason {
		t.Errorf("got %v, want %s", err, reason)
	}
}

func TestSAML_AChangeOfAnEnabledConnectionIsStaged(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	other := samltest.New(t, "https://other.example", b.Now())
	got, err := b.updateSAML(&cloudv1.SamlSettings{MetadataXml: other.Metadata()}, "saml.metadata_xml")
	if err != nil {
		t.Fatal(err)
	}
	if got.GetSaml().GetEntityId() != "https://idp.example/saml" || got.GetStaged().GetSaml().GetEntityId() != "https://other.example" {
		t.Fatalf("live %v, staged %v", got.GetSaml(), got.GetStaged())
	}
	br := b.browser()
	if page := b.respond(br, b.departSAML(br), nil); page.Code != http.StatusSeeOther || br.session() == "" {
		t.Errorf("the live settings don't work: %s", page.Body)
	}
	_, err = b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: b.conn.GetId()})
	wantReason(t, err, "SSO_TEST_NEEDED")
	live := b.saml
	b.saml = other
	if page := b.trySAML(nil); page.Code != http.StatusOK {
		t.Fatalf("trial of the staged settings: %s", page.Body)
	}
	if _, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: b.conn.GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := br.found(); ok {
		t.Error("a session of the former provider lives on")
	}
	b.saml = live
	late := b.browser()
	checkRefusal(t, late, b.respond(late, b.departSAML(late), nil), "isn&#39;t valid")
}

func TestSAML_FieldsOfTheOtherTypeAreRefused(t *testing.T) {
	t.Parallel()
	b := newSAML(t, cloudtest.New(t), nil)
	if _, err := b.update(b.conn, "client_id", func(r *cloudv1.UpdateSsoConnectionRequest) { r.ClientId = "x" }); err == nil {
		t.Error("a SAML connection took a client ID")
	}
	oidc := b.create(nil)
	if oidc.GetType() != cloudv1.SsoType_SSO_TYPE_OIDC {
		t.Errorf("type %s", oidc.GetType())
	}
	if _, err := b.update(oidc, "saml.sso_url", func(r *cloudv1.UpdateSsoConnectionRequest) {
		r.Saml = &cloudv1.SamlSettings{SsoUrl: "https://x.example"}
	}); err == nil {
		t.Error("an OpenID Connect connection took a sign-on URL")
	}
	for name, s := range map[string]*cloudv1.SamlSettings{
		"a script":            {SsoUrl: "javascript:alert(1)"},
		"no URL":              {SsoUrl: "idp.example"},
		"a key":               {Certificates: []string{"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"}},
		"no certificate":      {Certificates: []string{"hello"}},
		"no metadata":         {MetadataXml: "<x/>"},
		"an entity":           {MetadataXml: `<!DOCTYPE x [<!ENTITY a "b">]>` + b.saml.Metadata()[38:]},
		"metadata and fields": {MetadataXml: b.saml.Metadata(), EntityId: "x"},
		"both ways":           {MetadataXml: b.saml.Metadata(), MetadataUrl: "https://idp.example"},
	} {
		if _, err := b.updateSAML(s, samlPaths...); err == nil || !strings.Contains(err.Error(), "saml.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S24: a response is good in the browser that asked, for the request that it made.
func TestSAML_S24_ResponseOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	victim, attacker := b.browser(), b.browser()
	asked := b.departSAML(attacker)
	checkRefusal(t, victim, b.respond(victim, asked, nil), "another browser")
	// It is used up by that.
	checkRefusal(t, attacker, b.respond(attacker, asked, nil), "already finished")
	// One request's response with another one's state.
	first, second := b.departSAML(attacker), b.departSAML(attacker)
	checkRefusal(t, attacker, b.respond(attacker, request{first.id, second.relay}, nil), "isn&#39;t valid")
	late := b.browser()
	asked = b.departSAML(late)
	b.Advance(flowLife)
	checkRefusal(t, late, b.respond(late, asked, nil), "longer than 10 minutes")
	// The state of a SAML sign-in is none of OpenID Connect's.
	asked = b.departSAML(late)
	checkRefusal(t, late, late.get("/auth/oidc/callback?code=x&state="+asked.relay), "never started")
}

// S25: an assertion works once, whichever replica sees it, and after a restart.
func TestSAML_S25_ReplayOfAnAssertion(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := enabledSAML(t, w, &cloudv1.SamlSettings{AllowIdpInitiated: true})
		a := b.answer("")
		raw, acs := b.saml.Response(a), b.conn.GetSamlDetails().GetAcsUrl()
		first := b.browser()
		if page := first.post(acs, form(raw, "")); page.Code != http.StatusOK {
			t.Fatalf("%d\n%s", page.Code, page.Body)
		}
		checkRefusal(t, first, first.post(acs, form(raw, "")), "already used")
		// Another replica, or the same after a restart: what it knows stands in the database.
		b.s = New(Needs{Kit: w.Kit, Egress: egress.Options{AllowPrivate: true}, StartsPerMinute: 1000})
		second := b.browser()
		checkRefusal(t, second, second.post(acs, form(raw, "")), "already used")
		// The same assertion in another response.
		a.AssertionID = "_again"
		once := b.saml.Response(a)
		if page := second.post(acs, form(once, "")); page.Code != http.StatusOK {
			t.Fatal(page.Body)
		}
		a.ResponseID = "_other"
		checkRefusal(t, second, second.post(acs, form(b.saml.Response(a), "")), "already used")
		// For as long as it is good by its own times, and the row is kept for longer.
		b.Advance(5*time.Minute + 59*time.Second)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.DeleteTokensBefore(ctx, w.Now())
			return err
		})
		checkRefusal(t, second, second.post(acs, form(once, "")), "already used")
		b.Advance(time.Second)
		checkRefusal(t, second, second.post(acs, form(once, "")), "isn&#39;t valid")
	})
}

// S26: a response that nobody asked for is taken only where the connection allows it.
func TestSAML_S26_UnsolicitedOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	acs := b.conn.GetSamlDetails().GetAcsUrl()
	br := b.browser()
	checkRefusal(t, br, br.post(acs, form(b.saml.Response(b.answer("")), "")), "never started")
	checkRefusal(t, br, br.post(acs, form(b.saml.Response(b.answer("")), "made up")), "never started")
	b = enabledSAML(t, cloudtest.New(t), &cloudv1.SamlSettings{AllowIdpInitiated: true})
	acs = b.conn.GetSamlDetails().GetAcsUrl()
	br = b.browser()
	page := br.post(acs, form(b.saml.Response(b.answer("")), "https://evil.example"))
	if page.Code != http.StatusOK || br.session() != "" {
		t.Fatalf("%d with session %q\n%s", page.Code, br.session(), page.Body)
	}
	to := continueURL(t, page.Body.String())
	stranger := b.browser()
	checkRefusal(t, stranger, stranger.get(to), "another browser")
	page = br.post(acs, form(b.saml.Response(b.answer("")), ""))
	if page = br.get(continueURL(t, page.Body.String())); page.Code != http.StatusSeeOther || page.Header().Get("Location") != "/" || br.session() == "" {
		t.Errorf("%d to %q\n%s", page.Code, page.Header().Get("Location"), page.Body)
	}
	// A response to a request is no start of the provider.
	checkRefusal(t, stranger, stranger.post(acs, form(b.saml.Response(b.answer("id-x")), "")), "isn&#39;t valid")
}

func continueURL(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `href="`+finishPath)
	if !ok {
		t.Fatalf("no way on:\n%s", body)
	}
	query, _, _ := strings.Cut(rest, `"`)
	return finishPath + strings.ReplaceAll(query, "&amp;", "&")
}

// S27: RelayState leads nowhere; where a sign-in ends is kept on our side and checked.
func TestSAML_S27_RelayStateIsNoAddress(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), &cloudv1.SamlSettings{AllowIdpInitiated: true})
	for _, relay := range []string{"https://evil.example", "//evil.example", "javascript:alert(1)", "/\\evil.example", "\r\nLocation: https://evil.example"} {
		br := b.browser()
		page := br.post(b.conn.GetSamlDetails().GetAcsUrl(), form(b.saml.Response(b.answer("")), relay))
		if strings.Contains(page.Body.String(), "evil") || strings.Contains(page.Body.String(), "alert") || page.Header().Get("Location") != "" {
			t.Errorf("%q stands on the page:\n%s", relay, page.Body)
		}
		page = br.get(continueURL(t, page.Body.String()))
		if page.Header().Get("Location") != "/" {
			t.Errorf("%q leads to %q", relay, page.Header().Get("Location"))
		}
		br = b.browser()
		to := br.get("/auth/oidc/start?tenant=acme&next=" + url.QueryEscape(relay)).Header().Get("Location")
		if page = b.respond(br, b.read(to), nil); page.Header().Get("Location") != "/" {
			t.Errorf("next=%q leads to %q", relay, page.Header().Get("Location"))
		}
	}
}

// S28: too much is refused before it is read.
func TestSAML_S28_TooLargeForms(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	br := b.browser()
	acs := b.conn.GetSamlDetails().GetAcsUrl()
	asked := b.departSAML(br)
	checkRefusal(t, br, br.post(acs, form(bytes.Repeat([]byte("a"), 10<<20), asked.relay)), "too large")
	checkRefusal(t, br, br.post(acs, url.Values{"SAMLResponse": {"?"}}), "incomplete")
	checkRefusal(t, br, br.post(acs, url.Values{"SAMLResponse": {"YQ==", "YQ=="}}), "incomplete")
	checkRefusal(t, br, br.post(acs, url.Values{}), "incomplete")
}

// S29: a provider speaks for nobody of another tenant, whatever address or subject it names.
func TestSAML_S29_AnotherTenantsPerson(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	b := enabledSAML(t, w, nil)
	victim, victimOwner := w.Tenant(t, "victim", "boss@victim.example")
	br := b.browser()
	b.respond(br, b.departSAML(br), func(a *samltest.Answer) {
		a.Subject, a.Attributes[0].Values[0] = victimOwner.ID, "boss@victim.example"
		a.Attributes = append(a.Attributes, samltest.Attribute{Name: "tenant", Values: []string{"victim"}}, samltest.Attribute{Name: "role", Values: []string{"owner"}})
	})
	found, u, ok := br.found()
	if !ok || u.ID == victimOwner.ID || found.TenantID != b.tenant.ID || u.HomeTenant != b.tenant.ID || b.role(u.ID) != developer {
		t.Errorf("session %+v of %+v", found, u)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if m, err := tx.GetMembership(ctx, victim.ID, u.ID); err == nil {
			t.Errorf("member of the other tenant: %+v", m)
		}
		return nil
	})
}

// S30: the response of one connection at another one's address, or in its sign-in.
func TestSAML_S30_MixUpOfConnections(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	b := enabledSAML(t, w, &cloudv1.SamlSettings{AllowIdpInitiated: true})
	evil := &samlBundle{bundle: b.bundle, saml: samltest.New(t, "https://evil.example", w.Now())}
	evil.conn = evil.createSAML(&cloudv1.SamlSettings{MetadataXml: evil.saml.Metadata(), AllowIdpInitiated: true})
	if page := evil.trySAML(nil); page.Code != http.StatusOK {
		t.Fatal(page.Body)
	}
	evil.conn = evil.enable(evil.conn)
	depart := func(br *browser, c *cloudv1.SsoConnection) request {
		return b.read(br.get("/auth/oidc/start?tenant=acme&connection=" + c.GetId()).Header().Get("Location"))
	}
	// The evil provider answers a sign-in of the good one, at the good one's address.
	br := b.browser()
	asked := depart(br, b.conn)
	a := b.answer(asked.id)
	checkRefusal(t, br, br.post(b.conn.GetSamlDetails().GetAcsUrl(), form(evil.saml.Response(a), asked.relay)), "isn&#39;t valid")
	// With the good one's name.
	asked = depart(br, b.conn)
	evil.saml.EntityID = b.saml.EntityID
	checkRefusal(t, br, br.post(b.conn.GetSamlDetails().GetAcsUrl(), form(evil.saml.Response(b.answer(asked.id)), asked.relay)), "isn&#39;t valid")
	evil.saml.EntityID = "https://evil.example"
	// At its own address, with the state of the good one's sign-in.
	asked = depart(br, b.conn)
	checkRefusal(t, br, br.post(evil.conn.GetSamlDetails().GetAcsUrl(), form(evil.saml.Response(evil.answer(asked.id)), asked.relay)), "doesn&#39;t come from the identity provider of this sign-in")
	// The good one's response, meant for the good one, at the evil one's address.
	checkRefusal(t, br, br.post(evil.conn.GetSamlDetails().GetAcsUrl(), form(b.saml.Response(b.answer("")), "")), "isn&#39;t valid")
	// A connection of the other type, and none.
	oidc := b.create(nil)
	for _, id := range []string{oidc.GetId(), "sso_none"} {
		checkRefusal(t, br, br.post("/auth/saml/"+id+"/acs", form(b.saml.Response(b.answer("")), "")), "isn&#39;t set up")
		checkRefusal(t, br, br.get("/auth/saml/"+id+"/metadata"), "isn&#39;t set up")
	}
	// Two connections, one subject: two people.
	first, second := b.browser(), b.browser()
	b.respond(first, depart(first, b.conn), nil)
	evil.respond(second, depart(second, evil.conn), nil)
	_, u1, ok1 := first.found()
	_, u2, ok2 := second.found()
	if !ok1 || !ok2 || u1.ID == u2.ID {
		t.Errorf("%v %s, %v %s", ok1, u1.ID, ok2, u2.ID)
	}
}

// S31: the provider changes its certificate without a gap, and its end is told before.
func TestSAML_S31_RollOverAndWarning(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	if w := b.message().GetSamlDetails().GetWarnings(); len(w) != 0 {
		t.Errorf("warned of %q", w)
	}
	old := b.saml.PEM()
	b.Advance(340 * 24 * time.Hour)
	b.ctx, _ = b.As(t, b.tenant, b.owner, owner)
	if w := b.message().GetSamlDetails().GetWarnings(); len(w) != 1 || !strings.Contains(w[0], "certificate expires on") {
		t.Errorf("warned of %q", w)
	}
	b.saml.Rotate(b.Now().Add(-time.Hour), b.Now().Add(365*24*time.Hour))
	br := b.browser()
	checkRefusal(t, br, b.respond(br, b.departSAML(br), nil), "isn&#39;t valid")
	if _, err := b.updateSAML(&cloudv1.SamlSettings{Certificates: []string{old, b.saml.PEM()}}, "saml.certificates"); err != nil {
		t.Fatal(err)
	}
	if page := b.trySAML(nil); page.Code != http.StatusOK {
		t.Fatal(page.Body)
	}
	if _, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: b.conn.GetId()}); err != nil {
		t.Fatal(err)
	}
	if page := b.respond(br, b.departSAML(br), nil); page.Code != http.StatusSeeOther || br.session() == "" {
		t.Errorf("the new certificate doesn't work: %s", page.Body)
	}
	if w := b.message().GetSamlDetails().GetWarnings(); len(w) != 0 {
		t.Errorf("warned of %q although the next certificate is there", w)
	}
	b.Advance(30 * 24 * time.Hour)
	b.ctx, _ = b.As(t, b.tenant, b.owner, owner)
	if w := b.message().GetSamlDetails().GetWarnings(); len(w) != 1 || !strings.Contains(w[0], "expired on") {
		t.Errorf("warned of %q", w)
	}
}

// S32: metadata is read like anything at an address that a customer chose.
func TestSAML_S32_MetadataByURL(t *testing.T) {
	t.Parallel()
	b := newSAML(t, cloudtest.New(t), nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, b.saml.Metadata()) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20)) })
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html><html></html>") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for path, part := range map[string]string{"/away": "redirect", "/large": "too large", "/html": "document type", "/none": "404"} {
		_, err := b.updateSAML(&cloudv1.SamlSettings{MetadataUrl: server.URL + path}, "saml.metadata_url")
		if err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "saml.metadata_url") {
			t.Errorf("%s: %v", path, err)
		}
	}
	got, err := b.updateSAML(&cloudv1.SamlSettings{MetadataUrl: server.URL + "/good"}, "saml.metadata_url")
	if err != nil || got.GetSaml().GetEntityId() != b.saml.EntityID || got.GetSaml().GetMetadataUrl() != server.URL+"/good" || len(got.GetSaml().GetCertificates()) != 1 {
		t.Errorf("%v %v", got.GetSaml(), err)
	}
	b.s = New(Needs{Kit: b.Kit, StartsPerMinute: 1000}) // As in production.
	for _, address := range []string{server.URL + "/good", "http://idp.example/metadata", "https://127.0.0.1/metadata", "https://169.254.169.254/latest", "https://[::1]/", "file:///etc/passwd", "https://user@idp.example/"} {
		if _, err := b.updateSAML(&cloudv1.SamlSettings{MetadataUrl: address}, "saml.metadata_url"); err == nil || !strings.Contains(err.Error(), "isn't allowed") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// S33: nothing that a provider sends ends a session; metadata offers no logout.
func TestSAML_S33_LogoutIsRefused(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	br := b.browser()
	b.respond(br, b.departSAML(br), nil)
	ask := `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_l" Version="2.0" IssueInstant="2026-11-20T12:00:00Z"><saml:Issuer>` +
		b.saml.EntityID + `</saml:Issuer><saml:NameID>subject-1</saml:NameID></samlp:LogoutRequest>`
	stranger := b.browser()
	for _, text := range []string{ask, b.saml.Sign(ask, "_l", samltest.Signing{})} {
		for _, path := range []string{"/slo", "/acs"} {
			page := stranger.post("/auth/saml/"+b.conn.GetId()+path, url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(text))}})
			checkRefusal(t, stranger, page, "Single logout isn&#39;t supported")
		}
		checkRefusal(t, stranger, stranger.get("/auth/saml/"+b.conn.GetId()+"/slo?SAMLRequest=x"), "Single logout isn&#39;t supported")
	}
	if _, _, ok := br.found(); !ok {
		t.Error("the session has ended")
	}
}

// S34: encrypted assertions, and the same page for each that can't be used.
func TestSAML_S34_EncryptedAssertion(t *testing.T) {
	t.Parallel()
	b := newSAML(t, cloudtest.New(t), &cloudv1.SamlSettings{WantEncrypted: true})
	ours, err := b.s.samlConnection(b.stored(b.conn.GetId()))
	if err != nil {
		t.Fatal(err)
	}
	own := ours.Certificate
	encrypted := func(a *samltest.Answer) { a.EncryptFor = own }
	if body := b.trySAML(nil).Body.String(); !strings.Contains(body, "isn&#39;t encrypted") {
		t.Errorf("a plain assertion: %s", body)
	}
	if page := b.trySAML(encrypted); page.Code != http.StatusOK {
		t.Fatal(page.Body)
	}
	b.conn = b.enable(b.conn)
	br := b.browser()
	if page := b.respond(br, b.departSAML(br), encrypted); page.Code != http.StatusSeeOther {
		t.Fatal(page.Body)
	}
	other := samltest.New(t, b.saml.EntityID, b.Now())
	pages := map[string]bool{}
	for _, change := range []func(*samltest.Answer){
		func(a *samltest.Answer) { a.EncryptFor = other.Certificate },
		func(a *samltest.Answer) { a.EncryptFor, a.Signing.Key = own, other.Key },
		func(a *samltest.Answer) { a.EncryptFor, a.Audience = own, "urn:other" },
		func(a *samltest.Answer) { a.Audience = "urn:other" },
	} {
		stranger := b.browser()
		page := b.respond(stranger, b.departSAML(stranger), change)
		checkRefusal(t, stranger, page, "isn&#39;t valid")
		pages[page.Body.String()] = true
	}
	if len(pages) != 1 {
		t.Errorf("%d different pages", len(pages))
	}
}

// A connection's own key is replaced without a moment in which the provider can't use either.
func TestSAML_OwnKeyIsReplacedBesideTheOldOne(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := enabledSAML(t, w, &cloudv1.SamlSettings{SignRequests: true})
		rotate := func(finish bool) (*cloudv1.SamlDetails, error) {
			res, err := b.s.RotateSamlKey(b.ctx, &cloudv1.RotateSamlKeyRequest{ConnectionId: b.conn.GetId(), Finish: finish})
			return res.GetConnection().GetSamlDetails(), err
		}
		signsIn := func(certificate string) bool {
			cert, err := saml.ParseCertificate(certificate)
			if err != nil {
				t.Fatal(err)
			}
			br := b.browser()
			page := b.respond(br, b.departSAML(br), func(a *samltest.Answer) { a.EncryptFor = cert })
			return page.Code == http.StatusSeeOther
		}
		// signer is whose key signed a request: the first of certificates that fits.
		signer := func(to string, certificates ...string) int {
			signed, signature, _ := strings.Cut(to[strings.Index(to, "?")+1:], "&Signature=")
			raw, err := url.QueryUnescape(signature)
			if err != nil {
				t.Fatal(err)
			}
			sig, err := base64.StdEncoding.DecodeString(raw)
			if err != nil {
				t.Fatal(err)
			}
			return slices.IndexFunc(certificates, func(text string) bool {
				cert, err := saml.ParseCertificate(text)
				return err == nil && cert.CheckSignature(x509.SHA256WithRSA, []byte(signed), sig) == nil
			})
		}
		trial := func() string {
			res, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: b.conn.GetId()})
			if err != nil {
				t.Fatal(err)
			}
			br := b.browser()
			br.signIn(b.owner.ID, "")
			return br.get(res.GetUrl()).Header().Get("Location")
		}
		_, err := rotate(true)
		wantReason(t, err, "NO_NEXT_KEY")
		before := b.conn.GetSamlDetails().GetSpCertificate()
		staged, err := rotate(false)
		next := staged.GetSpNextCertificate()
		if err != nil || staged.GetSpCertificate() != before || next == "" || next == before {
			t.Fatalf("%v, %v", staged, err)
		}
		if again, err := rotate(false); err != nil || again.GetSpNextCertificate() != next {
			t.Errorf("repeated, it makes another key: %v", err)
		}
		metadata := b.browser().get("/auth/saml/" + b.conn.GetId() + "/metadata").Body.String()
		for _, text := range []string{before, next} {
			if cert, err := saml.ParseCertificate(text); err != nil || !strings.Contains(metadata, base64.StdEncoding.EncodeToString(cert.Raw)) {
				t.Errorf("our metadata lacks a certificate: %v", err)
			}
		}
		if !signsIn(before) || !signsIn(next) {
			t.Error("an assertion for one of both keys is refused")
		}
		if people, tried := signer(b.browser().depart(), before, next), signer(trial(), before, next); people != 0 || tried != 1 {
			t.Errorf("people's requests are signed by %d, a trial's by %d", people, tried)
		}
		// A change that was staged before the switch does not bring the old key back.
		if _, err := b.updateSAML(&cloudv1.SamlSettings{EmailAttribute: "mail"}, "saml.email_attribute"); err != nil {
			t.Fatal(err)
		}
		done, err := rotate(true)
		if err != nil || done.GetSpCertificate() != next || done.GetSpNextCertificate() != "" {
			t.Fatalf("%v, %v", done, err)
		}
		if page := b.trySAML(nil); page.Code != http.StatusOK {
			t.Fatalf("trial of the staged change: %d", page.Code)
		}
		if _, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: b.conn.GetId()}); err != nil {
			t.Fatal(err)
		}
		if signsIn(before) || !signsIn(next) || signer(b.browser().depart(), before, next) != 1 {
			t.Error("after the switch, the next key alone counts")
		}
		if log := strings.Join(w.Audit(t, b.tenant.ID), " "); strings.Count(log, "sso.create_key") != 1 || strings.Count(log, "sso.switch_key") != 1 {
			t.Errorf("the audit log has %s", log)
		}
	})
}

func TestRotateSamlKey_IsForSAMLAndWarnsInTime(t *testing.T) {
	t.Parallel()
	b := newSAML(t, cloudtest.New(t), nil)
	oidc := b.create(nil)
	_, err := b.s.RotateSamlKey(b.ctx, &cloudv1.RotateSamlKeyRequest{ConnectionId: oidc.GetId()})
	wantReason(t, err, "NOT_SAML")
	warned := func() bool {
		return strings.Contains(strings.Join(b.message().GetSamlDetails().GetWarnings(), " "), "Our certificate")
	}
	if warned() {
		t.Error("warned of a new certificate")
	}
	b.Advance(10*365*24*time.Hour - warnBefore)
	if !warned() {
		t.Error("nobody is warned of our certificate's end")
	}
	if _, err := b.s.RotateSamlKey(b.ctx, &cloudv1.RotateSamlKeyRequest{ConnectionId: b.conn.GetId()}); err != nil || warned() {
		t.Errorf("warned although the next one is there: %v", err)
	}
}

// S35: an attacker's own response, posted into somebody's browser, signs nobody in.
func TestSAML_S35_LoginCSRF(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), &cloudv1.SamlSettings{AllowIdpInitiated: true})
	attacker, victim := b.browser(), b.browser()
	acs := b.conn.GetSamlDetails().GetAcsUrl()
	asked := b.departSAML(attacker)
	page := victim.post(acs, form(b.saml.Response(b.answer(asked.id)), asked.relay))
	checkRefusal(t, victim, victim.get(page.Header().Get("Location")), "another browser")
	// Begun at the provider: the person must agree, and reads as whom.
	page = victim.post(acs, form(b.saml.Response(b.answer("")), ""))
	if page.Code != http.StatusOK || victim.session() != "" || !strings.Contains(page.Body.String(), "ada@idp.example") {
		t.Errorf("%d with session %q\n%s", page.Code, victim.session(), page.Body)
	}
	// A ticket works once, for five minutes.
	to := continueURL(t, page.Body.String())
	b.Advance(ticketLife)
	checkRefusal(t, victim, victim.get(to), "longer than 5 minutes")
	page = victim.post(acs, form(b.saml.Response(b.answer("")), ""))
	to = continueURL(t, page.Body.String())
	if page = victim.get(to); page.Code != http.StatusSeeOther {
		t.Fatal(page.Body)
	}
	again := b.browser()
	checkRefusal(t, again, again.get(to), "already finished")
}

// Above 150 groups, Entra sends a link in place of the list. Taken for no groups, it would take
// roles away, or give the default one.
func TestSAML_GroupsLeftOutByTheProviderAreNotNone(t *testing.T) {
	t.Parallel()
	b := enabledSAML(t, cloudtest.New(t), nil)
	link := samltest.Attribute{Name: "http://schemas.microsoft.com/claims/groups.link", Values: []string{"https://graph.windows.net/d/users/u/getMemberObjects"}}
	inPlace := func(a *samltest.Answer) { a.Attributes[2] = link }
	br := b.browser()
	checkRefusal(t, br, b.respond(br, b.departSAML(br), inPlace), "there are too many")
	if page := b.trySAML(inPlace); page.Code == http.StatusOK || !strings.Contains(page.Body.String(), "there are too many") {
		t.Errorf("a test sign-in: %d\n%s", page.Code, page.Body)
	}
	br = b.browser()
	b.respond(br, b.departSAML(br), func(a *samltest.Answer) { a.Attributes = append(a.Attributes, link) })
	if _, u, ok := br.found(); !ok || b.role(u.ID) != developer {
		t.Error("a list beside a link doesn't count")
	}
}
