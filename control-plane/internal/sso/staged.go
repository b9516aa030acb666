package sso

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// staged is a change of what a trial must repeat, beside the settings that people sign in
// with. It is kept as JSON.
type staged struct {
	Issuer       string   `json:"issuer"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"` // Sealed.
	Scopes       []string `json:"scopes"`
	GroupsClaim  string   `json:"groups_claim"`
	// SAML is nil in a change of an OpenID Connect connection.
	SAML     *store.SAML `json:"saml,omitempty"`
	Settings int64       `json:"settings"`
	Tested   int64       `json:"tested"`
	LastTest string      `json:"last_test"`
	// OwnRedirect: a trial came back by the tenant's own redirect URI. One of a control plane of
	// before came back by the shared one.
	OwnRedirect bool `json:"own_redirect,omitempty"`
}

// next is a connection as it is after its staged change; the same one without a change.
// Trials go by it.
func next(c store.Connection) (store.Connection, error) {
	if c.Staged == "" {
		return c, nil
	}
	var s staged
	if err := json.Unmarshal([]byte(c.Staged), &s); err != nil {
		return c, fmt.Errorf("read the staged change of connection %s: %w", c.ID, err)
	}
	c.Issuer, c.ClientID, c.ClientSecret, c.Scopes, c.GroupsClaim = s.Issuer, s.ClientID, s.ClientSecret, s.Scopes, s.GroupsClaim
	c.Settings, c.Tested, c.LastTest, c.Staged = s.Settings, s.Tested, s.LastTest, ""
	c.SharedRedirect = c.SharedRedirect && !s.OwnRedirect
	if s.SAML != nil {
		own := c.SAML // Its keys may have changed since.
		c.SAML = *s.SAML
		c.SAML.Certificate, c.SAML.NextCertificate = own.Certificate, own.NextCertificate
	}
	return c, nil
}

// stage puts what a trial must repeat of a changed connection beside the live settings.
// If nothing differs from the live settings, nothing is staged.
func stage(live store.Connection, changed *store.Connection) error {
	after := *changed
	changed.Issuer, changed.ClientID, changed.ClientSecret, changed.Scopes, changed.GroupsClaim = live.Issuer, live.ClientID, live.ClientSecret, live.Scopes, live.GroupsClaim
	changed.Settings, changed.Tested, changed.LastTest, changed.Staged = live.Settings, live.Tested, live.LastTest, ""
	changed.SAML, changed.SharedRedirect = live.SAML, live.SharedRedirect
	if !needsTrial(live, after) {
		return nil
	}
	raw, err := json.Marshal(staged{
		SAML: &after.SAML, Issuer: after.Issuer, ClientID: after.ClientID, ClientSecret: after.ClientSecret, Scopes: after.Scopes, GroupsClaim: after.GroupsClaim,
		Settings: after.Settings, Tested: after.Tested, LastTest: after.LastTest, OwnRedirect: !after.SharedRedirect,
	})
	if err != nil {
		return fmt.Errorf("stage a change of connection %s: %w", live.ID, err)
	}
	changed.Staged = string(raw)
	return nil
}

// needsTrial tells a change that could break or redirect the sign-in.
func needsTrial(a, b store.Connection) bool {
	return a.Issuer != b.Issuer || a.ClientID != b.ClientID || a.ClientSecret != b.ClientSecret ||
		!slices.Equal(a.Scopes, b.Scopes) || a.GroupsClaim != b.GroupsClaim || !a.SAML.Equal(b.SAML)
}

func changeMessage(c store.Connection) *cloudv1.SsoChange {
	n, err := next(c)
	if err != nil || c.Staged == "" {
		return nil
	}
	out := &cloudv1.SsoChange{
		Issuer: n.Issuer, ClientId: n.ClientID, NewClientSecret: n.ClientSecret != c.ClientSecret, Scopes: n.Scopes, GroupsClaim: n.GroupsClaim, LastTest: lastTest(n),
	}
	if isSAML(n) {
		out.Saml = samlMessage(n)
	}
	return out
}

// SwitchSsoConnection applies a staged change.
func (s *Service) SwitchSsoConnection(ctx context.Context, r *cloudv1.SwitchSsoConnectionRequest) (*cloudv1.SwitchSsoConnectionResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.SwitchSsoConnectionResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		before, err := s.findToChange(ctx, tx, r.GetConnectionId(), r.GetEtag())
		if err != nil {
			return err
		}
		after, err := next(before)
		switch {
		case err != nil:
			return err
		case before.Staged == "":
			return fault.New(fault.Conflict, "NOTHING_STAGED", "this connection has no staged change")
		case after.Tested != after.Settings:
			return testNeeded()
		}
		var out []string
		if before.Issuer != after.Issuer { // Another provider does not vouch for these people.
			if out, err = endSessions(ctx, tx, after); err != nil {
				return err
			}
		}
		err = change.Make(ctx, s.Kit, tx, "sso.switch", change.UpdateConnection(&after).CutOff(out...), differences(before, after))
		res.Connection = s.message(after, c.Tenant)
		return err
	})
}

// DiscardSsoChange deletes a staged change.
func (s *Service) DiscardSsoChange(ctx context.Context, r *cloudv1.DiscardSsoChangeRequest) (*cloudv1.DiscardSsoChangeResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.DiscardSsoChangeResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		conn, err := s.findToChange(ctx, tx, r.GetConnectionId(), "")
		if err != nil {
			return err
		}
		if conn.Staged != "" {
			conn.Staged = ""
			if err := change.Make(ctx, s.Kit, tx, "sso.discard", change.UpdateConnection(&conn), nil); err != nil {
				return err
			}
		}
		res.Connection = s.message(conn, c.Tenant)
		return nil
	})
}

// findToChange finds a connection that the caller may change, as they read it.
func (s *Service) findToChange(ctx context.Context, tx *store.Tx, id, readEtag string) (store.Connection, error) {
	conn, err := find(ctx, tx, id)
	if err != nil {
		return conn, err
	}
	if err := etag.Check(readEtag, tag(conn), "this connection"); err != nil {
		return conn, err
	}
	return conn, principals.MayVouch(ctx, tx, conn)
}

func testNeeded() error {
	return fault.New(fault.Conflict, "SSO_TEST_NEEDED", "run a successful test sign-in with these settings first")
}
