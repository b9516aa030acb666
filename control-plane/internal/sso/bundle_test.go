package sso

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	owner     = permission.RoleOwner
	admin     = permission.RoleAdmin
	developer = permission.RoleDeveloper
	viewer    = permission.RoleViewer
	nobody    = ""
)

// bundle is a tenant with an owner who signs in by mail, and a provider.
type bundle struct {
	*cloudtest.World
	t      *testing.T
	s      *Service
	idp    *idp
	tenant store.Tenant
	owner  store.User
	ctx    context.Context // A call by the owner.
}

func newBundle(t *testing.T, w *cloudtest.World) *bundle {
	t.Helper()
	b := &bundle{World: w, t: t, idp: newIDP(t, w.Now)}
	b.s = New(Needs{
		Kit: w.Kit, Egress: egress.Options{AllowPrivate: true},
		StartsPerMinute: 1000,
	})
	b.tenant, b.owner = w.Tenant(t, "acme", "owner@acme.example")
	b.ctx, _ = w.As(t, b.tenant, b.owner, owner)
	return b
}

// create makes a connection to the bundle's provider, not enabled yet.
func (b *bundle) create(change func(*cloudv1.CreateSsoConnectionRequest)) *cloudv1.SsoConnection {
	b.t.Helper()
	r := &cloudv1.CreateSsoConnectionRequest{
		Name: "Staff", Issuer: b.idp.issuer(), ClientId: clientID, ClientSecret: clientSecret, DefaultRole: viewer,
		GroupMappings: []*cloudv1.GroupMapping{{Group: "admins", Role: admin}, {Group: "engineers", Role: developer}},
	}
	if change != nil {
		change(r)
	}
	res, err := b.s.CreateSsoConnection(b.ctx, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.GetConnection()
}

// enabled makes a connection that people can use, after a test login.
func (b *bundle) enabled(change func(*cloudv1.CreateSsoConnectionRequest)) *cloudv1.SsoConnection {
	b.t.Helper()
	c := b.create(change)
	if code, body := b.try(c); code != http.StatusOK {
		b.t.Fatalf("trial: %d\n%s", code, body)
	}
	return b.enable(c)
}

func (b *bundle) enable(c *cloudv1.SsoConnection) *cloudv1.SsoConnection {
	b.t.Helper()
	res, err := b.update(c, "enabled", func(r *cloudv1.UpdateSsoConnectionRequest) { r.Enabled = true })
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func (b *bundle) update(c *cloudv1.SsoConnection, path string, set func(*cloudv1.UpdateSsoConnectionRequest)) (*cloudv1.SsoConnection, error) {
	r := &cloudv1.UpdateSsoConnectionRequest{ConnectionId: c.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: strings.Split(path, ",")}}
	set(r)
	res, err := b.s.UpdateSsoConnection(b.ctx, r)
	return res.GetConnection(), err
}

// try makes a test login as the owner and returns the last page.
func (b *bundle) try(c *cloudv1.SsoConnection) (int, string) {
	b.t.Helper()
	res, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: c.GetId()})
	if err != nil {
		b.t.Fatal(err)
	}
	br := b.browser()
	br.signIn(b.owner.ID, "")
	page := br.get(res.GetUrl())
	if page.Code != http.StatusSeeOther {
		return page.Code, page.Body.String()
	}
	page = br.get(b.idp.authorize(page.Header().Get("Location")).String())
	if br.session() == "" {
		b.t.Error("the trial signed the browser out")
	}
	return page.Code, page.Body.String()
}

func (b *bundle) stored(id string) store.Connection {
	b.t.Helper()
	var c store.Connection
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) (err error) {
		c, err = tx.GetConnection(ctx, b.tenant.ID, id)
		return err
	})
	return c
}

// browser keeps cookies.
type browser struct {
	b       *bundle
	cookies map[string]string
	headers http.Header
}

func (b *bundle) browser() *browser {
	return &browser{b: b, cookies: map[string]string{}, headers: http.Header{}}
}

func (br *browser) get(address string) *httptest.ResponseRecorder {
	br.b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		br.b.t.Fatal(err)
	}
	ctx := access.With(br.b.t.Context(), access.Caller{RequestID: "req_test", Peer: "203.0.113.5", UserAgent: "test"})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, u.RequestURI(), nil)
	r.Header = br.headers.Clone()
	for name, value := range br.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	br.b.s.Handler().ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			br.b.t.Errorf("cookie %s is open to scripts or to other sites", c.Name)
		}
		if c.MaxAge < 0 {
			delete(br.cookies, c.Name)
			continue
		}
		br.cookies[c.Name] = c.Value
	}
	return w
}

func (br *browser) session() string { return br.cookies[(cookies.Policy{}).SessionName()] }

// signIn gives the browser a user's session.
func (br *browser) signIn(userID, ssoTenantID string) {
	br.b.t.Helper()
	br.b.Service(br.b.t, func(ctx context.Context, tx *store.Tx) error {
		opened, err := session.Open(ctx, tx, br.b.IDs, br.b.Now(), userID, ssoTenantID, "")
		br.cookies[(cookies.Policy{}).SessionName()] = opened.Token
		return err
	})
}

// depart begins a sign-in and returns the URL at the provider.
func (br *browser) depart() string {
	br.b.t.Helper()
	page := br.get("/auth/oidc/start?tenant=acme")
	if page.Code != http.StatusSeeOther {
		br.b.t.Fatalf("start: %d\n%s", page.Code, page.Body)
	}
	return page.Header().Get("Location")
}

// login signs in at the provider and returns the response to the callback.
func (br *browser) login() *httptest.ResponseRecorder {
	br.b.t.Helper()
	return br.get(br.b.idp.authorize(br.depart()).String())
}

// found gives the session of the browser, with its user.
func (br *browser) found() (store.Session, store.User, bool) {
	br.b.t.Helper()
	var s store.Session
	var u store.User
	ok := false
	br.b.Service(br.b.t, func(ctx context.Context, tx *store.Tx) (err error) {
		if s, err = session.Find(ctx, tx, br.session(), br.b.Now()); err != nil {
			return nil // None: that is an answer.
		}
		ok = true
		u, err = tx.GetUser(ctx, s.UserID)
		return err
	})
	return s, u, ok
}

// mustEnter signs a new browser in and returns it.
func (b *bundle) mustEnter() *browser {
	b.t.Helper()
	br := b.browser()
	page := br.login()
	if page.Code != http.StatusSeeOther || br.session() == "" {
		b.t.Fatalf("login: %d\n%s", page.Code, page.Body)
	}
	return br
}

// mustRefuse expects a page with words, and no session, for a new browser.
func (b *bundle) mustRefuse(words string) {
	b.t.Helper()
	br := b.browser()
	page := br.login()
	checkRefusal(b.t, br, page, words)
}

func checkRefusal(t *testing.T, br *browser, page *httptest.ResponseRecorder, words string) {
	t.Helper()
	if page.Code < 400 || page.Code > 599 || br.session() != "" {
		t.Errorf("got %d with session %q, want a refusal", page.Code, br.session())
	}
	body := page.Body.String()
	if !strings.Contains(body, words) {
		t.Errorf("the page lacks %q:\n%s", words, body)
	}
	if strings.Contains(body, "<script") || strings.Contains(body, clientSecret) {
		t.Errorf("the page leaks or runs what it should not:\n%s", body)
	}
}

func (b *bundle) role(userID string) string {
	b.t.Helper()
	role := nobody
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) error {
		held, err := rights.NewReader(tx, b.tenant.ID).Held(ctx, userID)
		if len(held) > 0 {
			role = held[0].Role.Name
		}
		return err
	})
	return role
}
