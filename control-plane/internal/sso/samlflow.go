package sso

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	finishPath = "/auth/saml/finish"
	// ticketLife is for a redirect, or for a person to press a button.
	ticketLife = 5 * time.Minute

	purposeTicket    = "saml.finish"
	purposeAssertion = "saml.assertion"
)

// ticket is a sign-in whose response was verified, on its way back into the browser that
// began it. A provider's response comes as a POST from its site, and browsers send no cookie
// of ours with that; the redirect that follows brings them.
type ticket struct {
	Flow flow `json:"flow"`
	// Cookie is the base name of the cookie that the browser must show.
	Cookie    string   `json:"cookie"`
	Subject   string   `json:"subject"`
	Email     string   `json:"email"`
	Name      string   `json:"name"`
	Groups    []string `json:"groups"`
	HasGroups bool     `json:"has_groups"`
	Claims    []string `json:"claims"`
}

func (t ticket) person() person {
	return person{subject: t.Subject, email: t.Email, name: t.Name, groups: t.Groups, hasGroups: t.HasGroups, claims: t.Claims}
}

// departSAML keeps the flow and gives the address of the provider with our request. Its
// RelayState is the flow's state, which stands for nothing but itself.
func (s *Service) departSAML(ctx context.Context, w http.ResponseWriter, c store.Connection, f flow) (string, error) {
	if err := tryable(c); err != nil {
		return "", stale(sentence(err.Error()))
	}
	conn, err := s.samlConnection(c)
	if err != nil {
		return "", err
	}
	if f.Trial { // So that it tells whether the provider knows the next key.
		conn = conn.Rotated()
	}
	f.RequestID = saml.NewRequestID()
	state, err := s.keep(ctx, w, f, purposeSAML)
	if err != nil {
		return "", err
	}
	return conn.Request(f.RequestID, state, s.Now())
}

// acs takes a provider's response.
func (s *Service) acs(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	raw, relay, err := posted(r)
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	conn, err := s.samlByID(ctx, r.PathValue("connection"))
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	t, started, err := s.resumeSAML(ctx, conn, relay)
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	if t.Flow.Trial {
		if conn, err = next(conn); err != nil {
			s.fail(w, r, err, true, "")
			return
		}
	}
	if err := s.accept(ctx, conn, raw, &t); err != nil {
		if t.Flow.Trial {
			s.note(ctx, conn, trial{Problem: trialText(err)})
		}
		s.fail(w, r, err, t.Flow.Trial, t.Flow.Tenant)
		return
	}
	s.handBack(w, r, conn, t, started)
}

// posted reads the form. A response is never compressed in this binding, so nothing is
// inflated.
func posted(r *http.Request) (raw []byte, relay string, _ error) {
	if err := r.ParseForm(); err != nil {
		return nil, "", stale("The identity provider's response is too large or incomplete. Sign in again.")
	}
	form := r.PostForm
	if form.Has("SAMLRequest") {
		return nil, "", noLogout()
	}
	text := form.Get("SAMLResponse")
	if text == "" || len(form["SAMLResponse"]) != 1 || len(form["RelayState"]) > 1 || len(form.Get("RelayState")) > paramMax {
		return nil, "", stale("The identity provider's response is incomplete (SAMLResponse). Sign in again.")
	}
	if len(text) > base64.StdEncoding.EncodedLen(saml.ResponseBytesMax)*2 { // Lines may be broken.
		return nil, "", stale("The identity provider's response is too large.")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, "", stale("The identity provider's response is incomplete (SAMLResponse). Sign in again.")
	}
	return raw, form.Get("RelayState"), nil
}

func (s *Service) samlByID(ctx context.Context, id string) (store.Connection, error) {
	c, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (store.Connection, error) { return tx.FindConnection(ctx, id) })
	if errors.Is(err, store.ErrNotFound) || err == nil && !isSAML(c) {
		return c, notOffered()
	}
	if err != nil {
		return c, fmt.Errorf("find the connection: %w", err)
	}
	return c, nil
}

// resumeSAML finds the flow that a response belongs to, and uses it up. Without one, the
// provider began, which the connection must allow; whatever it sent as RelayState is not
// looked at then.
func (s *Service) resumeSAML(ctx context.Context, c store.Connection, relay string) (t ticket, started bool, _ error) {
	err := error(errUnknown())
	if relay != "" {
		err = s.use(ctx, relay, purposeSAML, &t.Flow)
	}
	if err == nil {
		if t.Flow.ConnectionID != c.ID {
			return ticket{}, false, refused(nil, "this response doesn't come from the identity provider of this sign-in. Sign in again")
		}
		t.Cookie = cookieFor(relay)
		return t, true, nil
	}
	var p *problem
	if !errors.As(err, &p) || p.text != errUnknown().text || !c.Enabled || !c.SAML.IdPInitiated {
		return ticket{}, false, err
	}
	tenant, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (store.Tenant, error) { return tx.GetTenant(ctx, c.TenantID) })
	if errors.Is(err, store.ErrNotFound) || err == nil && !tenant.DeletedAt.IsZero() {
		return ticket{}, false, notOffered()
	}
	if err != nil {
		return ticket{}, false, fmt.Errorf("find the tenant: %w", err)
	}
	t.Flow = flow{TenantID: c.TenantID, Tenant: tenant.Name, ConnectionID: c.ID, Settings: c.Settings, Issuer: c.Issuer, Next: "/", Begun: s.Now()}
	return t, false, nil
}

// accept verifies a response, uses up its assertion, and notes whom it is about.
func (s *Service) accept(ctx context.Context, c store.Connection, raw []byte, t *ticket) error {
	if changedSince(c, t.Flow) {
		return stale("Single sign-on was changed while you were signing in. Sign in again.")
	}
	conn, err := s.samlConnection(c)
	if err != nil {
		return err
	}
	got, err := conn.Verify(raw, saml.Expected{RequestID: t.Flow.RequestID, Now: s.Now()})
	if err != nil {
		p := refused(err, "the identity provider's response isn't valid. The person who manages single sign-on can run a test sign-in in the console to see why")
		p.said, p.cause = clip(saml.ReasonOf(err)), errors.New(saml.ReasonOf(err))
		return p
	}
	if err := fill(t, c, got); err != nil {
		return err
	}
	now := s.Now()
	// The row outlives the assertion, in the database that all replicas share.
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		return tx.InsertToken(ctx, store.Token{
			Digest: seal.Digest(purposeAssertion + "\x00" + c.ID + "\x00" + got.ID), Purpose: purposeAssertion, Subject: c.ID, CreatedAt: now, ExpiresAt: got.Until, UsedAt: now,
		})
	})
	if errors.Is(err, store.ErrExists) {
		p := refused(err, "this response of the identity provider was already used. Sign in again")
		p.said = "its assertion was used before"
		return p
	}
	if err != nil {
		return fmt.Errorf("remember the assertion: %w", err)
	}
	return nil
}

// handBack sends the browser on with a ticket. A sign-in that the provider began has no
// browser yet: this one gets a cookie, and a person must press a button, since another site
// could have posted the response of its own account here.
func (s *Service) handBack(w http.ResponseWriter, r *http.Request, c store.Connection, t ticket, started bool) {
	ctx, now := r.Context(), s.Now()
	text, digest := seal.NewToken("")
	browser := ""
	if !started {
		browser, t.Flow.Browser = seal.NewToken("")
		t.Cookie = cookieFor(text)
	}
	data, err := s.sealedJSON(t)
	if err == nil {
		err = s.Store.Service(ctx, func(tx *store.Tx) error {
			return tx.InsertToken(ctx, store.Token{Digest: digest, Purpose: purposeTicket, Subject: c.ID, Data: data, CreatedAt: now, ExpiresAt: now.Add(ticketLife)})
		})
	}
	if err != nil {
		s.fail(w, r, fmt.Errorf("keep the sign-in: %w", err), t.Flow.Trial, t.Flow.Tenant)
		return
	}
	to := finishPath + "?ticket=" + url.QueryEscape(text)
	if started {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	s.policy.Set(w.Header(), t.Cookie, browser, now.Add(ticketLife))
	s.show(w, r, http.StatusOK, page{
		Title: "Sign in to " + t.Flow.Tenant, Good: true,
		Text:  "You came here from your identity provider. Continue only if this is you. Anyone else who is signed in with this browser will be signed out.",
		Facts: []fact{{"Person", clip(label(t.person()))}},
		Links: []link{{"Continue", to}},
	})
}

// finish signs in the person of a ticket, in the browser that began.
func (s *Service) finish(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var t ticket
	text := r.URL.Query().Get("ticket")
	err := error(errUnknown())
	if text != "" && len(text) <= paramMax {
		err = s.use(ctx, text, purposeTicket, &t)
	}
	if err == nil {
		err = t.Flow.checkBrowser(s.cookie(w, r, t.Cookie))
	}
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	if t.Flow.Trial {
		conn, err := s.samlByID(ctx, t.Flow.ConnectionID)
		if err == nil {
			conn, err = next(conn)
		}
		if err == nil && changedSince(conn, t.Flow) {
			err = stale("Single sign-on was changed while you were signing in. Sign in again.")
		}
		s.finishTrial(w, r, conn, t.person(), err)
		return
	}
	if err := s.enter(ctx, w, r, t.Flow, t.person()); err != nil {
		s.fail(w, r, err, false, t.Flow.Tenant)
		return
	}
	http.Redirect(w, r, t.Flow.Next, http.StatusSeeOther)
}

// metadata is ours, for the provider of a connection.
func (s *Service) metadata(w http.ResponseWriter, r *http.Request) {
	c, err := s.samlByID(r.Context(), r.PathValue("connection"))
	var conn saml.Connection
	if err == nil {
		conn, err = s.samlConnection(c)
	}
	var raw []byte
	if err == nil {
		raw, err = conn.Metadata(s.Now())
	}
	if err != nil {
		s.fail(w, r, err, false, "")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/samlmetadata+xml")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", `attachment; filename="corvo-saml-metadata.xml"`)
	_, _ = w.Write(raw) // The caller may be gone.
}

// logout refuses single logout, signed or not: nothing that a provider sends ends a session.
func (s *Service) logout(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, noLogout(), false, "")
}

func noLogout() *problem {
	return &problem{
		status: http.StatusForbidden, title: "Single logout isn't supported",
		text: "Your identity provider asked to sign you out here, which isn't supported. Sign out in the console.",
	}
}

// The attributes that hold an email address and a name unless the connection names others.
var (
	emailAttributes = []string{
		"email", "mail", "emailAddress", "urn:oid:0.9.2342.19200300.100.1.3", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
	}
	nameAttributes = []string{
		"name", "displayName", "urn:oid:2.16.840.1.113730.3.1.241", "http://schemas.microsoft.com/identity/claims/displayname",
		"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
	}
)

// groupsLink is what Entra sends in place of the groups of a person in more than 150 of them.
const groupsLink = "http://schemas.microsoft.com/claims/groups.link"

// fill notes whom an assertion is about.
func fill(t *ticket, c store.Connection, a saml.Assertion) error {
	t.Subject = a.Subject
	if len(a.Subject) > subjectMax {
		return refused(nil, "the subject (NameID) has more than %d bytes", subjectMax)
	}
	t.Email = first(a, c.SAML.EmailAttribute, emailAttributes)
	if t.Email == "" && c.SAML.EmailAttribute == "" && a.SubjectFormat == saml.FormatEmail {
		t.Email = a.Subject
	}
	if address, err := mail.Address(t.Email); err == nil {
		t.Email = address
	} else {
		t.Email = "" // Shown only; nothing rests on it.
	}
	t.Name = shortName(first(a, c.SAML.NameAttribute, nameAttributes))
	if groups, ok := attribute(a, c.GroupsClaim); ok {
		t.HasGroups, t.Groups = true, slices.Compact(groups)
	} else if _, left := attribute(a, groupsLink); left {
		return groupsLeftOut()
	}
	if len(t.Groups) > groupsMax {
		return refused(nil, "the attribute %q has more than %d groups", c.GroupsClaim, groupsMax)
	}
	for _, at := range a.Attributes {
		t.Claims = append(t.Claims, cmp.Or(at.Name, at.FriendlyName))
	}
	slices.Sort(t.Claims)
	t.Claims = t.Claims[:min(len(t.Claims), claimsMax)]
	return nil
}

// attribute gives an attribute by its name or, if none has it, its friendly name.
func attribute(a saml.Assertion, name string) ([]string, bool) {
	for _, at := range a.Attributes {
		if at.Name == name {
			return at.Values, true
		}
	}
	for _, at := range a.Attributes {
		if at.FriendlyName == name {
			return at.Values, true
		}
	}
	return nil, false
}

func first(a saml.Assertion, chosen string, usual []string) string {
	if chosen != "" {
		usual = []string{chosen}
	}
	for _, name := range usual {
		if values, ok := attribute(a, name); ok && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}
