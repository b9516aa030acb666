package sso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	// Egress is how providers are called.
	Egress egress.Options
	// Refused notes a sign-in that was refused, for the audit log of the tenant of that name;
	// why never repeats what a stranger sent. May be nil.
	Refused func(ctx context.Context, tenant, why string)
	// StartsPerMinute is how many sign-ins one network may begin; 0: no limit.
	StartsPerMinute int
}

// StartsPerMinuteDefault lets an office come in on Monday morning.
const StartsPerMinuteDefault = 300

// Service is the use cases of single sign-on.
type Service struct {
	Needs
	policy    cookies.Policy
	client    *http.Client
	providers *providers
}

// New makes a Service.
func New(n Needs) *Service {
	client := egress.NewClient(n.Egress)
	return &Service{
		Needs: n, policy: cookies.Policy{Secure: n.URLs.Secure()}, client: client,
		providers: newProviders(client, n.Egress, n.Now),
	}
}

// trial is what a trial sign-in found; it is kept as JSON.
type trial struct {
	At time.Time `json:"at"`
	// Settings are those that were tried.
	Settings  int64        `json:"settings"`
	Succeeded bool         `json:"succeeded"`
	Problem   string       `json:"problem,omitempty"`
	Subject   string       `json:"subject,omitempty"`
	Email     string       `json:"email,omitempty"`
	Groups    []string     `json:"groups,omitempty"`
	Role      store.RoleID `json:"role,omitempty"`
	// MissingClaim is the one that the provider did not send although roles hang on it;
	// Claims are the names of those that it did send.
	MissingClaim string   `json:"missing_claim,omitempty"`
	Claims       []string `json:"claims,omitempty"`
}

func (s *Service) message(c store.Connection, tenant string) *cloudv1.SsoConnection {
	out := &cloudv1.SsoConnection{
		Id: c.ID, TenantId: c.TenantID, Name: c.Name, Issuer: c.Issuer, ClientId: c.ClientID, HasClientSecret: c.ClientSecret != "",
		Scopes: c.Scopes, GroupsClaim: c.GroupsClaim, DefaultRole: roleText(c.DefaultRole), Enabled: c.Enabled,
		Type: typeOf(c), RedirectUri: s.URLs.RedirectURI(c.TenantID), LoginUrl: s.URLs.OIDCStart(tenant), LastTest: lastTest(c),
		CreatedAt: timestamppb.New(c.CreatedAt), UpdatedAt: timestamppb.New(c.UpdatedAt), Etag: tag(c), Staged: changeMessage(c),
	}
	for _, m := range c.GroupMappings {
		out.GroupMappings = append(out.GroupMappings, &cloudv1.GroupMapping{Group: m.Group, Role: roleText(string(m.Role))})
	}
	if isSAML(c) {
		out.RedirectUri, out.Saml, out.SamlDetails = s.URLs.SAMLACS(c.ID), samlMessage(c), s.samlDetails(c)
	} else if c.SharedRedirect {
		out.OldRedirectUri = s.URLs.SharedRedirectURI()
	}
	return out
}

// lastTest is nil if other settings than the present ones were tried.
func lastTest(c store.Connection) *cloudv1.SsoTest {
	var t trial
	if c.LastTest == "" || json.Unmarshal([]byte(c.LastTest), &t) != nil || t.Settings != c.Settings {
		return nil
	}
	return &cloudv1.SsoTest{
		At: timestamppb.New(t.At), Succeeded: t.Succeeded, Problem: t.Problem, Subject: t.Subject, Email: t.Email, Groups: t.Groups, Role: roleText(string(t.Role)),
		MissingClaim: t.MissingClaim, Claims: t.Claims,
	}
}

// tag stands for what people set. A trial is not part of it: whoever tried a connection
// may then enable it with the etag they had before.
func tag(c store.Connection) string { return etag.Of(c.UpdatedAt.UnixNano(), c.ID) }

// find gives a connection of the caller's tenant.
func find(ctx context.Context, tx *store.Tx, id string) (store.Connection, error) {
	c, err := tx.GetConnection(ctx, access.From(ctx).TenantID, id)
	if errors.Is(err, store.ErrNotFound) {
		return c, fault.Missing("connection")
	}
	return c, err
}

// secret gives a connection's client secret in clear.
func (s *Service) secret(c store.Connection) (string, error) {
	if c.ClientSecret == "" {
		return "", nil
	}
	plain, err := s.Seal.Open(seal.ClientSecret, c.ClientSecret)
	if err != nil {
		return "", fmt.Errorf("client secret of connection %s: %w", c.ID, err)
	}
	return string(plain), nil
}
