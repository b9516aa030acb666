package sso

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	startPath  = "/auth/oidc/start"
	stylePath  = "/auth/style.css"
	signinPath = "/signin"

	// flowLife is how long a person may take at the provider.
	flowLife = 10 * time.Minute
	// exchangeMax bounds the calls to the provider after the return.
	exchangeMax = 20 * time.Second

	purpose     = "oidc"
	purposeSAML = "saml"
	cookieBase  = "corvo_oidc_"
	nextMax     = 2000
	paramMax    = 4096
)

// flow is a sign-in under way. It is stored sealed under the digest of its state.
type flow struct {
	TenantID     string `json:"tenant_id"`
	Tenant       string `json:"tenant"`
	ConnectionID string `json:"connection_id"`
	Settings     int64  `json:"settings"`
	Issuer       string `json:"issuer"`
	Nonce        string `json:"nonce"`
	Verifier     string `json:"verifier"`
	// OwnRedirect: it comes back by the tenant's own redirect URI, not by the shared one.
	OwnRedirect bool `json:"own_redirect,omitempty"`
	// RequestID is that of a SAML request; nonce and verifier are OpenID Connect's.
	RequestID string `json:"request_id,omitempty"`
	// Browser is the digest of the cookie that the browser must show.
	Browser string    `json:"browser"`
	Next    string    `json:"next"`
	Trial   bool      `json:"trial"`
	Begun   time.Time `json:"begun"`
}

// Handler answers the browsers' part of single sign-on, under /auth/.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+startPath, s.start)
	mux.HandleFunc("GET /auth/oidc/callback", s.callback)
	mux.HandleFunc("GET /auth/oidc/{tenant}/callback", s.callback)
	mux.HandleFunc("GET "+stylePath, style)
	mux.HandleFunc("POST /auth/saml/{connection}/acs", s.acs)
	mux.HandleFunc("GET /auth/saml/{connection}/metadata", s.metadata)
	mux.HandleFunc("/auth/saml/{connection}/slo", s.logout)
	mux.HandleFunc("GET "+finishPath, s.finish)
	return mux
}

// start sends a browser to its tenant's provider.
func (s *Service) start(w http.ResponseWriter, r *http.Request) {
	ctx, q := r.Context(), r.URL.Query()
	isTrial := q.Get("test") == "1"
	tenant, all, err := s.entrance(ctx, q.Get("tenant"), r, isTrial)
	if err != nil {
		s.fail(w, r, err, isTrial, "")
		return
	}
	conn, err := choose(all, q.Get("connection"), isTrial)
	if err != nil {
		s.fail(w, r, err, isTrial, "")
		return
	}
	if conn == nil {
		s.showChoice(w, r, tenant, all)
		return
	}
	if isTrial {
		if *conn, err = next(*conn); err != nil {
			s.fail(w, r, err, isTrial, "")
			return
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		// Another site must not sign this browser in as a person of its choice.
		s.showContinue(w, r, tenant, *conn)
		return
	}
	to, err := s.depart(ctx, w, tenant, *conn, safeNext(q.Get("next")), isTrial)
	if err != nil {
		if isTrial {
			s.note(ctx, *conn, trial{Problem: problemOf(err).text})
		}
		s.fail(w, r, err, isTrial, "")
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// notOffered is also the answer for tenants that do not exist.
func notOffered() *problem {
	return &problem{
		status: http.StatusNotFound, title: "Single sign-on isn't set up",
		text: "No company with this name uses single sign-on. Check the spelling, or sign in by email.",
	}
}

// entrance finds the tenant and connection to sign in with, and counts the attempt.
func (s *Service) entrance(ctx context.Context, name string, r *http.Request, isTrial bool) (t store.Tenant, all []store.Connection, err error) {
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		err := ratelimit.Count(ctx, tx, s.Now(), ratelimit.Limit{
			Bucket: "sso.start:" + ratelimit.Peer(access.From(ctx).Peer), Window: time.Minute, Max: s.StartsPerMinute, What: "sign-ins from your network",
		})
		if err != nil {
			return err
		}
		if t, err = tx.GetTenantByName(ctx, name); err != nil {
			return err
		}
		if isTrial {
			if err := s.mayTry(ctx, tx, t, r); err != nil {
				return err
			}
		}
		all, err = tx.ListConnections(ctx, t.ID)
		return err
	})
	if refusal, ok := fault.As(err); ok {
		return t, nil, &problem{status: http.StatusTooManyRequests, title: "Too many sign-ins", text: refusal.Message, retryAfter: refusal.RetryAfter}
	}
	if errors.Is(err, store.ErrNotFound) {
		return t, nil, notOffered()
	}
	return t, all, err
}

// mayTry asks for a session, in this browser, of somebody who may set up single sign-on.
func (s *Service) mayTry(ctx context.Context, tx *store.Tx, t store.Tenant, r *http.Request) error {
	denied := &problem{
		status: http.StatusForbidden, title: "You can't start this test sign-in",
		text: "Start it from the console, in the browser where you're signed in, with a role that can set up single sign-on.",
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return denied
	}
	found, err := session.Find(ctx, tx, s.policy.Session(r.Header), s.Now())
	if errors.Is(err, session.ErrNone) || err == nil && found.TenantID != "" && found.TenantID != t.ID {
		return denied
	}
	if err != nil {
		return err
	}
	may, err := rights.Of(ctx, tx, t.ID, found.UserID)
	if err == nil && !may.Grants.Tenant(permission.SSOUpdate) {
		return denied
	}
	if err != nil {
		return err
	}
	enters, err := policy.MayTry(ctx, tx, s.Kit, t.ID, found, may)
	if err == nil && !enters {
		return denied
	}
	return err
}

// choose returns the connection to use; none if the person has to choose.
func choose(all []store.Connection, id string, isTrial bool) (*store.Connection, error) {
	var possible []store.Connection
	for _, c := range all {
		if (c.Enabled || isTrial) && (id == "" || c.ID == id) {
			possible = append(possible, c)
		}
	}
	switch {
	case len(possible) == 0 || isTrial && id == "":
		return nil, notOffered()
	case len(possible) > 1:
		return nil, nil
	}
	return &possible[0], nil
}

// depart stores the flow and gives the provider's address.
func (s *Service) depart(ctx context.Context, w http.ResponseWriter, t store.Tenant, c store.Connection, next string, isTrial bool) (string, error) {
	f := flow{TenantID: t.ID, Tenant: t.Name, ConnectionID: c.ID, Settings: c.Settings, Issuer: c.Issuer, Next: next, Trial: isTrial, Begun: s.Now()}
	if isSAML(c) {
		return s.departSAML(ctx, w, c, f)
	}
	p, err := s.providers.get(ctx, t.ID, c.ID, c.Settings, c.Issuer, isTrial)
	if err != nil {
		return "", err
	}
	f.Nonce, _ = seal.NewToken("")
	f.Verifier = oauth2.GenerateVerifier()
	f.OwnRedirect = isTrial || !c.SharedRedirect
	state, err := s.keep(ctx, w, f, purpose)
	if err != nil {
		return "", err
	}
	return p.oauth(c.ClientID, "", s.redirectURI(f), c.Scopes).
		AuthCodeURL(state, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// redirectURI is where a flow comes back. A trial always comes back by the tenant's own: that is
// what shows whether its provider knows it.
func (s *Service) redirectURI(f flow) string {
	if f.OwnRedirect {
		return s.URLs.RedirectURI(f.TenantID)
	}
	return s.URLs.SharedRedirectURI()
}

// keep stores a flow, ties it to the browser by a cookie, and gives its state.
func (s *Service) keep(ctx context.Context, w http.ResponseWriter, f flow, purpose string) (state string, _ error) {
	now := s.Now()
	state, digest := seal.NewToken("")
	browser, browserDigest := seal.NewToken("")
	f.Browser = browserDigest
	data, err := s.sealedJSON(f)
	if err == nil {
		err = s.Store.Service(ctx, func(tx *store.Tx) error {
			return tx.InsertToken(ctx, store.Token{Digest: digest, Purpose: purpose, Subject: f.ConnectionID, Data: data, CreatedAt: now, ExpiresAt: now.Add(flowLife)})
		})
	}
	if err != nil {
		return "", fmt.Errorf("keep the sign-in: %w", err)
	}
	s.policy.Set(w.Header(), cookieFor(state), browser, now.Add(flowLife))
	return state, nil
}

func (s *Service) sealedJSON(v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write a sign-in: %w", err)
	}
	return s.Seal.Seal(seal.SignIn, plain)
}

// cookieFor names the cookie of one sign-in, so that two windows do not disturb each other.
func cookieFor(state string) string { return cookieBase + seal.Digest(state)[:12] }

// callback handles a browser that returns from the provider.
func (s *Service) callback(w http.ResponseWriter, r *http.Request) {
	ctx, q := r.Context(), r.URL.Query()
	f, err := s.resume(ctx, w, r)
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeMax)
	defer cancel()
	conn, who, err := s.identify(ctx, f, r.PathValue("tenant"), q)
	if f.Trial {
		s.finishTrial(w, r, conn, who, err)
		return
	}
	if err == nil {
		err = s.enter(ctx, w, r, f, who)
	}
	if err != nil {
		s.fail(w, r, err, false, f.Tenant)
		return
	}
	http.Redirect(w, r, f.Next, http.StatusSeeOther)
}

// resume finds the flow of a state. That uses it up, whatever the outcome, and it is
// valid only in the browser that began it.
func (s *Service) resume(ctx context.Context, w http.ResponseWriter, r *http.Request) (flow, error) {
	var f flow
	q := r.URL.Query()
	state := q.Get("state")
	if state == "" || len(state) > paramMax || len(q["state"]) != 1 || len(q["code"]) > 1 || len(q["iss"]) > 1 {
		return f, stale("The identity provider's response is incomplete (state). Sign in again.")
	}
	cookie := s.cookie(w, r, cookieFor(state))
	if err := s.use(ctx, state, purpose, &f); err != nil {
		return f, err
	}
	return f, f.checkBrowser(cookie)
}

// cookie reads the cookie of a sign-in and removes it.
func (s *Service) cookie(w http.ResponseWriter, r *http.Request, base string) string {
	defer s.policy.Set(w.Header(), base, "", time.Time{})
	return s.policy.Read(r.Header, base)
}

// use uses up what was kept under a token, and reads it.
func (s *Service) use(ctx context.Context, token, purpose string, into any) error {
	now := s.Now()
	t, err := store.Get(ctx, s.Store.Service, func(tx *store.Tx) (store.Token, error) { return tx.UseToken(ctx, seal.Digest(token), purpose, now) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errUnknown()
	case err != nil:
		return fmt.Errorf("find the sign-in: %w", err)
	case !t.UsedAt.IsZero():
		return stale("This sign-in has already finished. If you aren't signed in, sign in again.")
	case !now.Before(t.ExpiresAt):
		return stale(fmt.Sprintf("This sign-in took longer than %d minutes. Sign in again.", int(t.ExpiresAt.Sub(t.CreatedAt).Minutes())))
	}
	plain, err := s.Seal.Open(seal.SignIn, t.Data)
	if err != nil {
		return fmt.Errorf("read the sign-in: %w", err)
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return fmt.Errorf("read the sign-in: %w", err)
	}
	return nil
}

func errUnknown() *problem {
	return stale("This sign-in is too old or was never started. Sign in again.")
}

// checkBrowser: the flow goes on in the browser that began it.
func (f flow) checkBrowser(cookie string) error {
	if cookie == "" || subtle.ConstantTimeCompare([]byte(seal.Digest(cookie)), []byte(f.Browser)) != 1 {
		return stale("This sign-in was started in another browser, or this browser blocks cookies. Sign in again here.")
	}
	return nil
}

// identify asks the provider who came back, by the redirect URI of a tenant or, if that is
// empty, by the shared one.
func (s *Service) identify(ctx context.Context, f flow, tenantID string, q url.Values) (store.Connection, person, error) {
	var conn store.Connection
	err := s.Store.ReadTenant(ctx, f.TenantID, func(tx *store.Tx) (err error) {
		conn, err = tx.GetConnection(ctx, f.TenantID, f.ConnectionID)
		if err == nil && f.Trial {
			conn, err = next(conn)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && changedSince(conn, f) {
		return conn, person{}, stale("Single sign-on was changed while you were signing in. Sign in again.")
	}
	if err != nil {
		return conn, person{}, fmt.Errorf("find the connection: %w", err)
	}
	if err := checkPlace(f, conn, tenantID); err != nil {
		return conn, person{}, err
	}
	p, err := s.providers.get(ctx, f.TenantID, conn.ID, conn.Settings, conn.Issuer, false)
	if err != nil {
		return conn, person{}, err
	}
	if err := checkAnswer(p, f, q); err != nil {
		return conn, person{}, err
	}
	secret, err := s.secret(conn)
	if err != nil {
		return conn, person{}, err
	}
	token, err := p.oauth(conn.ClientID, secret, s.redirectURI(f), conn.Scopes).
		Exchange(oidc.ClientContext(ctx, s.client), q.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return conn, person{}, tokenProblem(err)
	}
	want := expected{issuer: conn.Issuer, clientID: conn.ClientID, nonce: f.Nonce, begun: f.Begun}
	who, err := p.verify(ctx, s.client, token, want, conn.GroupsClaim, s.Now())
	return conn, who, err
}

func changedSince(c store.Connection, f flow) bool {
	return c.Settings != f.Settings || c.Issuer != f.Issuer || !c.Enabled && !f.Trial
}

// checkPlace refuses what came back by another redirect URI than that of its flow. A provider
// can send a browser on to another tenant's provider, and would otherwise be handed the code that
// that one gives: a sign-in there as whoever sat at the browser.
func checkPlace(f flow, c store.Connection, tenantID string) error {
	own := f.OwnRedirect && tenantID == f.TenantID
	shared := !f.OwnRedirect && tenantID == "" && c.SharedRedirect && !f.Trial
	if own || shared {
		return nil
	}
	return refused(nil, "this response doesn't come from your company's identity provider (redirect URI). Sign in again")
}

// checkAnswer checks what came with the browser, before anything is sent.
func checkAnswer(p *provider, f flow, q url.Values) error {
	iss, given := q.Get("iss"), q.Has("iss")
	switch {
	case given && iss != f.Issuer, !given && p.said.AnswersWithIss:
		// RFC 9207: the answer of one provider must not be carried to another.
		return refused(nil, "this response doesn't come from your company's identity provider (iss). Sign in again")
	case q.Get("error") != "":
		return answerProblem(q)
	case q.Get("code") == "" || len(q.Get("code")) > paramMax:
		return stale("The identity provider's response is incomplete (code). Sign in again.")
	}
	return nil
}

// answerProblem translates the errors that providers send. Their own descriptions are
// for the log and the trial only.
func answerProblem(q url.Values) *problem {
	cause := fmt.Errorf("%s: %s", clip(q.Get("error")), clip(q.Get("error_description")))
	p := answerText(q, cause)
	p.said = cause.Error()
	return p
}

func answerText(q url.Values, cause error) *problem {
	switch q.Get("error") {
	case "access_denied":
		return refused(cause, "your identity provider denied access (access_denied). Unless you cancelled, ask your administrator to assign you to this application")
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		return refused(cause, "your identity provider needs you to sign in there first. Then sign in here again")
	case "temporarily_unavailable", "server_error":
		return providerDown(cause, "your identity provider has a temporary problem. Try again in a few minutes.")
	}
	return refused(cause, "your identity provider refused the sign-in. The person who manages single sign-on can run a test sign-in in the console to see why")
}

// safeNext allows only pages of this origin: an absolute path, nothing that a browser
// reads as another host.
func safeNext(next string) string {
	const home = "/"
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || len(next) > nextMax {
		return home
	}
	if strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || isControl(r) || r == ' ' }) {
		return home
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") {
		return home
	}
	if strings.ContainsFunc(u.Path, func(r rune) bool { return r == '\\' || isControl(r) }) { // Written as %5c, say.
		return home
	}
	return next
}
