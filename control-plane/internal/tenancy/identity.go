package tenancy

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// Own lists where a signed-in user may go: everywhere they are a member, but only to
// the one tenant that the session is limited to.
func Own(ctx context.Context, tx *store.Tx, c access.Caller) ([]store.Access, error) {
	own, err := tx.ListAccess(ctx, c.UserID)
	if err != nil {
		return nil, fmt.Errorf("list the caller's tenants: %w", err)
	}
	if c.OnlyTenantID != "" {
		own = slices.DeleteFunc(own, func(a store.Access) bool { return a.Tenant.ID != c.OnlyTenantID })
	}
	return own, nil
}

// GetCurrentIdentity tells who calls and what the caller may do.
func (s *Service) GetCurrentIdentity(ctx context.Context, _ *cloudv1.GetCurrentIdentityRequest) (*cloudv1.GetCurrentIdentityResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.GetCurrentIdentityResponse{Version: s.Version}
	if c.KeyID != "" {
		res.Key = &cloudv1.KeyIdentity{Id: c.KeyID, Name: c.Name}
		res.Tenants = []*cloudv1.TenantAccess{s.accessMessage(c.TenantID, c.Tenant, c.Rights)}
		if c.UserID == "" {
			return res, nil
		}
	}
	var u store.User
	var own []ownTenant
	err := s.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		if u, err = tx.GetUser(ctx, c.UserID); err != nil {
			return missing(err, "user")
		}
		if c.KeyID == "" {
			own, err = withRights(ctx, tx, c)
		}
		if err == nil && c.ByEmail() {
			res.OperatorRole, err = roleAsOperator(ctx, tx, c.UserID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	res.User = &cloudv1.User{Id: u.ID, Email: u.Email, Name: u.Name}
	for _, a := range own {
		res.Tenants = append(res.Tenants, s.accessMessage(a.Tenant.ID, a.Tenant.Name, a.rights))
	}
	return res, nil
}

// roleAsOperator is empty for somebody who is no operator of the service.
func roleAsOperator(ctx context.Context, tx *store.Tx, userID string) (string, error) {
	o, err := tx.GetOperator(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return o.Role, err
}

// ownTenant is a tenant of a user's and what they may do in it.
type ownTenant struct {
	store.Access
	rights access.Rights
}

func withRights(ctx context.Context, tx *store.Tx, c access.Caller) (out []ownTenant, _ error) {
	own, err := Own(ctx, tx, c)
	if err != nil {
		return nil, err
	}
	for _, a := range own {
		may, err := rights.Of(ctx, tx, a.Tenant.ID, c.UserID)
		if err != nil {
			return nil, err
		}
		out = append(out, ownTenant{a, may})
	}
	return out, nil
}

func (s *Service) accessMessage(id, name string, may access.Rights) *cloudv1.TenantAccess {
	m := &cloudv1.TenantAccess{TenantId: id, Tenant: name, TenantUrl: s.URLs.Tenant(name), Roles: may.Roles}
	for _, i := range permission.All() {
		if may.Grants.Tenant(i.Permission) {
			m.Permissions = append(m.Permissions, cloudv1.Permission(i.Permission))
		}
		if may.Grants.Anywhere(i.Permission) {
			m.Somewhere = append(m.Somewhere, cloudv1.Permission(i.Permission))
		}
	}
	return m
}

// MintToken gives a signed-in user a token for the jobs of one namespace.
func (s *Service) MintToken(ctx context.Context, r *cloudv1.MintTokenRequest) (*cloudv1.MintTokenResponse, error) {
	c := access.From(ctx)
	if c.KeyID != "" {
		return nil, fault.New(fault.Denied, "KEY_NEEDS_NO_TOKEN", "tokens are only for people who are signed in; use your key directly at the tenant URL %s", s.URLs.Tenant(c.Tenant))
	}
	if r.GetNamespace() == "" {
		return nil, fault.InvalidField("namespace", "enter its name or id")
	}
	n, t, err := s.namespace(ctx, r.GetNamespace())
	if err != nil {
		return nil, err
	}
	private, keyID, err := s.Keys.Signing(ctx)
	if err != nil {
		return nil, err
	}
	s.awaitTokenKeys(ctx)
	return s.mint(c, n, s.CellNow(ctx, t.Cell), private, keyID)
}

// awaitTokenKeys waits, right after a rotation, until the proxies know the key that signs: a
// browser would be refused with its new token and give up. It does not wait for long.
func (s *Service) awaitTokenKeys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.ObserveWait)
	defer cancel()
	s.Wake()
	_, err := s.Await(ctx, "", func(tx *store.Tx) (bool, error) { return s.Keys.Carried(ctx, tx) })
	if err != nil {
		s.Log.WarnContext(ctx, "wait for token keys", "error", err)
	}
}

func (s *Service) mint(c access.Caller, n store.Namespace, now time.Time, private ed25519.PrivateKey, keyID string) (*cloudv1.MintTokenResponse, error) {
	here := c.Rights.Grants.At(n.ID)
	if here.None() {
		return nil, fault.Missing("namespace")
	}
	if _, err := identity.GrantsText(here); err != nil {
		return nil, fault.New(fault.Conflict, "TOO_MANY_PLACES",
			"you have roles in more than %d patterns of queues in namespace %s, which is more than a browser can show; ask for a role in the whole namespace", identity.PatternsMax, n.Name)
	}
	// As they are on the wire. A whole second would put a token of somebody who was just
	// let in again before the moment that cut them off.
	now = now.Truncate(time.Millisecond)
	expires := now.Add(usertoken.Life).Truncate(time.Second)
	token, err := usertoken.Sign(private, keyID, usertoken.Claims{
		TenantID: c.TenantID, NamespaceID: n.ID, UserID: c.UserID, Grants: here, IssuedAt: now, ExpiresAt: expires,
	})
	if err != nil {
		return nil, err
	}
	res := &cloudv1.MintTokenResponse{
		Token: token, ExpiresAt: stamp(expires), Permissions: here.All.Names(), TenantUrl: s.URLs.Tenant(c.Tenant), Namespace: n.Name,
	}
	for _, q := range here.Some {
		res.InQueues = append(res.InQueues, &cloudv1.QueueGrant{Permissions: q.Permissions.Names(), Queues: q.Queues})
	}
	return res, nil
}
