package sso

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// connectionsMax is for a merger of many companies.
const connectionsMax = 10

// ListSsoConnections lists all; there are few.
func (s *Service) ListSsoConnections(ctx context.Context, _ *cloudv1.ListSsoConnectionsRequest) (*cloudv1.ListSsoConnectionsResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.ListSsoConnectionsResponse{}
	all, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) ([]store.Connection, error) { return tx.ListConnections(ctx, c.TenantID) })
	for _, conn := range all {
		res.Connections = append(res.Connections, s.message(conn, c.Tenant))
	}
	return res, err
}

// CreateSsoConnection stores a connection whose issuer answered as OpenID Connect
// demands. It starts disabled.
func (s *Service) CreateSsoConnection(ctx context.Context, r *cloudv1.CreateSsoConnectionRequest) (*cloudv1.CreateSsoConnectionResponse, error) {
	c := access.From(ctx)
	given, err := s.samlGiven(ctx, r.GetSaml(), samlPaths)
	if err != nil {
		return nil, err
	}
	conn, err := s.fromCreate(ctx, r, given)
	if err != nil {
		return nil, err
	}
	call, err := once.Of(ctx, "CreateSsoConnection", r)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.CreateSsoConnectionResponse{}
	if repeated, err := call.Answered(ctx, s.Kit, res); err != nil || repeated {
		return res, err
	}
	if !isSAML(conn) {
		if _, err := s.providers.discover(ctx, conn.Issuer); err != nil {
			return nil, fault.InvalidField("issuer", "%s", problemOf(err).text)
		}
	}
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		if err := plans.Feature(ctx, tx, c.TenantID, s.Now(), plans.FeatureSSO); err != nil {
			return err
		}
		all, err := tx.ListConnections(ctx, c.TenantID)
		if err != nil {
			return err
		}
		if len(all) >= connectionsMax {
			return fault.New(fault.Exhausted, "CONNECTION_LIMIT", "a tenant can have at most %d connections; delete one first", connectionsMax)
		}
		res.Connection = s.message(conn, c.Tenant)
		return change.Make(ctx, s.Kit, tx, "sso.create", change.InsertConnection(conn), differences(store.Connection{}, conn))
	})
	return res, err
}

func (s *Service) fromCreate(ctx context.Context, r *cloudv1.CreateSsoConnectionRequest, given samlGiven) (store.Connection, error) {
	now := s.Now()
	c := store.Connection{
		TenantID: access.From(ctx).TenantID, ID: s.IDs.New(ids.Connection, now), Name: r.GetName(), Issuer: r.GetIssuer(), ClientID: r.GetClientId(),
		Scopes: r.GetScopes(), GroupsClaim: r.GetGroupsClaim(), DefaultRole: r.GetDefaultRole(), GroupMappings: fromMappings(r.GetGroupMappings()),
		Settings: 1, CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	c.Name = cmp.Or(c.Name, nameDefault)
	if err := s.typed(&c, r, given); err != nil {
		return c, err
	}
	if err := s.validate(&c, r.GetClientSecret()); err != nil {
		return c, err
	}
	_, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (none struct{}, err error) {
		if err = resolveRoles(ctx, tx, &c); err == nil {
			err = principals.MayVouch(ctx, tx, c)
		}
		return none, err
	})
	if err != nil {
		return c, err
	}
	c.ClientSecret, err = s.sealed(r.GetClientSecret())
	return c, err
}

// UpdateSsoConnection changes the fields that the mask names.
func (s *Service) UpdateSsoConnection(ctx context.Context, r *cloudv1.UpdateSsoConnectionRequest) (*cloudv1.UpdateSsoConnectionResponse, error) {
	c := access.From(ctx)
	paths := r.GetUpdateMask().GetPaths()
	err := fault.InvalidMask(paths, append([]string{"name", "issuer", "client_id", "client_secret", "scopes", "groups_claim", "default_role", "group_mappings", "enabled"}, samlPaths...)...)
	if err != nil {
		return nil, err
	}
	given, err := s.samlGiven(ctx, r.GetSaml(), paths)
	if err != nil {
		return nil, err
	}
	if slices.Contains(paths, "issuer") {
		if err := s.checkIssuer(ctx, r.GetIssuer()); err != nil {
			return nil, err
		}
	}
	res := &cloudv1.UpdateSsoConnectionResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		before, err := find(ctx, tx, r.GetConnectionId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(before), "this connection"); err != nil {
			return err
		}
		after, err := s.changed(ctx, tx, before, r, given)
		if err != nil {
			return err
		}
		var out []string
		if before.Enabled && !after.Enabled {
			if err := policy.KeepDoor(ctx, tx, after); err != nil {
				return err
			}
			if out, err = endSessions(ctx, tx, after); err != nil {
				return err
			}
		}
		err = change.Make(ctx, s.Kit, tx, "sso.update", change.UpdateConnection(&after).CutOff(out...), differences(before, after))
		res.Connection = s.message(after, c.Tenant)
		return err
	})
}

// changed applies a request to a connection.
func (s *Service) changed(ctx context.Context, tx *store.Tx, before store.Connection, r *cloudv1.UpdateSsoConnectionRequest, given samlGiven) (store.Connection, error) {
	after, err := next(before) // What was staged is changed further.
	if err != nil {
		return after, err
	}
	known := after
	paths := r.GetUpdateMask().GetPaths()
	if err := checkPaths(before, paths); err != nil {
		return after, err
	}
	given.apply(&after)
	secret := ""
	for _, p := range paths {
		switch p {
		case "name":
			after.Name = r.GetName()
		case "issuer":
			after.Issuer = r.GetIssuer()
		case "client_id":
			after.ClientID = r.GetClientId()
		case "client_secret":
			secret = r.GetClientSecret()
		case "scopes":
			after.Scopes = r.GetScopes()
		case "groups_claim":
			after.GroupsClaim = r.GetGroupsClaim()
		case "default_role":
			after.DefaultRole = r.GetDefaultRole()
		case "group_mappings":
			after.GroupMappings = fromMappings(r.GetGroupMappings())
		case "enabled":
			after.Enabled = r.GetEnabled()
		}
	}
	if err := s.validate(&after, secret); err != nil {
		return after, err
	}
	// Both: whoever may not make owners must not redirect a connection that does.
	if err := resolveRoles(ctx, tx, &after); err != nil {
		return after, err
	}
	if err := principals.MayVouch(ctx, tx, before); err != nil {
		return after, err
	}
	if err := principals.MayVouch(ctx, tx, after); err != nil {
		return after, err
	}
	if slices.Contains(paths, "client_secret") {
		var err error
		if after.ClientSecret, err = s.sealed(secret); err != nil {
			return after, err
		}
	}
	if needsTrial(known, after) {
		after.Settings++
	}
	return after, settle(before, &after)
}

// settle demands a new trial after a change that could break or redirect the sign-in. A
// connection that people sign in through stays as it is until then: the change is staged.
func settle(before store.Connection, after *store.Connection) error {
	if before.Enabled && after.Enabled {
		return stage(before, after)
	}
	if after.Enabled && after.Tested != after.Settings {
		return testNeeded()
	}
	return nil
}

// DeleteSsoConnection removes a connection with the people who came through it.
func (s *Service) DeleteSsoConnection(ctx context.Context, r *cloudv1.DeleteSsoConnectionRequest) (*cloudv1.DeleteSsoConnectionResponse, error) {
	return &cloudv1.DeleteSsoConnectionResponse{}, s.Write(ctx, func(tx *store.Tx) error {
		conn, err := find(ctx, tx, r.GetConnectionId())
		if err != nil {
			return err
		}
		if err := principals.MayVouch(ctx, tx, conn); err != nil {
			return err
		}
		if err := policy.KeepDoor(ctx, tx, conn); err != nil {
			return err
		}
		if err := s.removeMembers(ctx, tx, conn); err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "sso.delete", change.DeleteConnection(conn), nil)
	})
}

// StartTestLogin gives the address of a trial, for the browser that the caller is signed
// in with.
func (s *Service) StartTestLogin(ctx context.Context, r *cloudv1.StartTestLoginRequest) (*cloudv1.StartTestLoginResponse, error) {
	conn, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.Connection, error) {
		conn, err := find(ctx, tx, r.GetConnectionId())
		if err != nil {
			return conn, err
		}
		return conn, tryable(conn)
	})
	return &cloudv1.StartTestLoginResponse{Url: s.URLs.OIDCStart(access.From(ctx).Tenant) + "&connection=" + conn.ID + "&test=1"}, err
}

// ofConnection lists the members who came through a connection.
func ofConnection(ctx context.Context, tx *store.Tx, conn store.Connection) (came []store.Member, _ error) {
	all := store.All(func(p store.Page) ([]store.Member, error) { return tx.ListMembers(ctx, conn.TenantID, p) }, func(m store.Member) string { return m.UserID })
	for m, err := range all {
		switch {
		case err != nil:
			return nil, err
		case m.ConnectionID == conn.ID:
			came = append(came, m)
		}
	}
	return came, nil
}

// endSessions ends the sessions of those who came through a connection, and gives who they
// are: their tokens have to be cut off, too.
func endSessions(ctx context.Context, tx *store.Tx, conn store.Connection) (userIDs []string, _ error) {
	came, err := ofConnection(ctx, tx, conn)
	if err != nil {
		return nil, err
	}
	for _, m := range came {
		if _, err := tx.DeleteSessionsOfUser(ctx, m.UserID, conn.TenantID); err != nil {
			return nil, err
		}
		userIDs = append(userIDs, m.UserID)
	}
	return userIDs, nil
}

func (s *Service) removeMembers(ctx context.Context, tx *store.Tx, conn store.Connection) error {
	if _, err := tx.CountOwners(ctx, conn.TenantID); err != nil { // Locks them.
		return err
	}
	came, err := ofConnection(ctx, tx, conn)
	if err != nil {
		return err
	}
	for _, m := range came {
		_, err = members.Remove(ctx, s.Kit, tx, m.Membership, m.User, nil)
		if f, ok := fault.As(err); ok && f.Reason == "LAST_OWNER" {
			return fault.New(fault.Conflict, "LAST_OWNER", "every owner of this tenant signs in through this connection; make someone else an owner first")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// differences lists what changed. Of the secret only that it did.
func differences(a, b store.Connection) change.Fields {
	out := change.Fields{}
	add := func(field string, before, after any) {
		if fmt.Sprint(before) != fmt.Sprint(after) {
			out[field] = store.Change{Before: before, After: after}
		}
	}
	add("name", a.Name, b.Name)
	add("issuer", a.Issuer, b.Issuer)
	add("client_id", a.ClientID, b.ClientID)
	add("scopes", a.Scopes, b.Scopes)
	add("groups_claim", a.GroupsClaim, b.GroupsClaim)
	add("default_role", roleText(a.DefaultRole), roleText(b.DefaultRole))
	add("group_mappings", mappingTexts(a), mappingTexts(b))
	add("enabled", a.Enabled, b.Enabled)
	if !isSAML(b) {
		add("shared_redirect", a.SharedRedirect, b.SharedRedirect)
	}
	add("saml", samlWords(a), samlWords(b))
	if staged := changeMessage(b); a.Staged != b.Staged && staged != nil {
		out["staged"] = store.Change{After: stagedWords(staged)}
	}
	if a.ClientSecret != b.ClientSecret {
		out["client_secret"] = store.Change{After: "changed"}
	}
	return out
}

func stagedWords(c *cloudv1.SsoChange) []string {
	out := []string{"issuer " + c.GetIssuer(), "client_id " + c.GetClientId(), "groups_claim " + c.GetGroupsClaim()}
	if c.GetNewClientSecret() {
		out = append(out, "client_secret changed")
	}
	if m := c.GetSaml(); m != nil {
		out = append(out[:1], "groups_claim "+c.GetGroupsClaim(), "sso_url "+m.GetSsoUrl(), fmt.Sprintf("%d certificates", len(m.GetCertificates())))
	}
	return out
}

func mappingTexts(c store.Connection) []string {
	out := make([]string, len(c.GroupMappings))
	for i, m := range c.GroupMappings {
		out[i] = m.Group + " → " + roleText(string(m.Role))
	}
	return out
}
