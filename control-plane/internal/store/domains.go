package store

import (
	"context"
	"time"
)

var domains = table[Domain]{
	name:    "domains",
	columns: "tenant_id, id, name, token, connection_id, verified_at, missing_since, checked_at, problem, due_at, attempts, created_at, updated_at, version",
	fields: func(v *Domain) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, &v.Token, &v.ConnectionID, asTime{&v.VerifiedAt}, asTime{&v.MissingSince}, asTime{&v.CheckedAt},
			&v.Problem, asTime{&v.DueAt}, &v.Attempts, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
	},
	key: "tenant_id, id", changes: "connection_id, verified_at, missing_since, checked_at, problem, due_at, attempts, updated_at",
}

// InsertDomain adds a claim; ErrExists if the tenant has claimed the name.
func (t *Tx) InsertDomain(ctx context.Context, v Domain) error {
	return domains.insert(ctx, t.of(v.TenantID), v)
}

// GetDomain finds a tenant's domain by id.
func (t *Tx) GetDomain(ctx context.Context, tenantID, id string) (Domain, error) {
	return domains.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetDomainByName finds a tenant's domain.
func (t *Tx) GetDomainByName(ctx context.Context, tenantID, name string) (Domain, error) {
	return domains.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListDomains lists a tenant's domains by name.
func (t *Tx) ListDomains(ctx context.Context, tenantID string) ([]Domain, error) {
	return domains.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? ORDER BY name", tenantID)
}

// HolderOfDomain finds the one domain of a name that is verified, whose ever it is.
func (t *Tx) HolderOfDomain(ctx context.Context, name string) (Domain, error) {
	return domains.get(ctx, t.across(), "name = ? AND verified_at > 0", name)
}

// UpdateDomain writes a domain at the version it was read at; ErrExists if it is to be
// verified while another tenant's is.
func (t *Tx) UpdateDomain(ctx context.Context, v *Domain) error {
	return domains.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteDomain deletes a domain.
func (t *Tx) DeleteDomain(ctx context.Context, tenantID, id string) error {
	return t.of(tenantID).change(ctx, "delete domain", "DELETE FROM domains WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// NoteDomain records what DNS said where that changes nothing, unless v has changed since it
// was read.
func (t *Tx) NoteDomain(ctx context.Context, v Domain) error {
	return t.of(v.TenantID).change(ctx, "note domain", "UPDATE domains SET checked_at = ?, problem = ?, due_at = ?, attempts = ? WHERE tenant_id = ? AND id = ? AND version = ?",
		v.CheckedAt, v.Problem, v.DueAt, v.Attempts, v.TenantID, v.ID, v.Version)
}

// DueDomains are the verified ones of all tenants that are to be looked up again, the longest
// waiting first.
func (t *Tx) DueDomains(ctx context.Context, now time.Time, limit int) ([]Domain, error) {
	return domains.list(ctx, t.across(), limit, "verified_at > 0 AND due_at <= ? ORDER BY due_at, tenant_id, id", now)
}

// DomainSignIn is how people of a verified domain sign in.
type DomainSignIn struct {
	Tenant       string // Its name.
	ConnectionID string // Empty: any enabled one of the tenant.
	// Enabled counts the connections among these that people can use.
	Enabled int
}

// FindDomainSignIn finds how people of a verified domain sign in. It is one statement, so that
// a known name takes no longer than an unknown one.
func (t *Tx) FindDomainSignIn(ctx context.Context, name string) (DomainSignIn, error) {
	into := func(v *DomainSignIn) []any { return []any{&v.Tenant, &v.ConnectionID, &v.Enabled} }
	return first(ctx, t.across(), "find the sign-in of a domain", into, `SELECT t.name, d.connection_id,
			(SELECT COUNT(*) FROM sso_connections c WHERE c.tenant_id = d.tenant_id AND c.enabled = 1 AND (d.connection_id = '' OR c.id = d.connection_id))
		FROM domains d JOIN tenants t ON t.tenant_id = d.tenant_id WHERE d.name = ? AND d.verified_at > 0 AND t.deleted_at = 0`, name)
}

// ReachableOwners lists users who are owners directly and whose address is proved: one that a
// tenant's provider told could be anybody's.
func (t *Tx) ReachableOwners(ctx context.Context, tenantID string, limit int) ([]User, error) {
	return t.ReachableHolders(ctx, tenantID, limit, RoleOwner)
}

// ReachableHolders lists those who have one of some roles directly, in the whole tenant.
func (t *Tx) ReachableHolders(ctx context.Context, tenantID string, limit int, roles ...string) ([]User, error) {
	args := []any{tenantID}
	for _, r := range roles {
		args = append(args, r)
	}
	return query(ctx, t.of(tenantID), "list holders of roles", users.fields, "SELECT "+users.under("u")+` FROM users u
		WHERE u.home_tenant = '' AND u.id IN (SELECT principal_id FROM role_bindings WHERE tenant_id = ? AND role_id IN (`+places(len(roles))+`) AND namespace_id = '' AND queues = '')
		ORDER BY u.id LIMIT ?`, append(args, limit)...)
}
