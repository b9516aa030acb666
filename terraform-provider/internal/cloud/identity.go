package cloud

import (
	"context"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// Identity is who the token is, as the data source shows it.
type Identity struct {
	TenantID    string   `tfsdk:"tenant_id"`
	Tenant      string   `tfsdk:"tenant"`
	TenantURL   string   `tfsdk:"tenant_url"` // Where the tenant's jobs and queues are.
	Roles       []string `tfsdk:"roles"`
	Permissions []string `tfsdk:"permissions"`
	KeyID       string   `tfsdk:"key_id"`
	KeyName     string   `tfsdk:"key_name"`
	Version     string   `tfsdk:"service_version"`
}

// Identity asks once and remembers the answer: a key cannot change its tenant.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.identity != nil {
		return *c.identity, nil
	}
	id, err := c.askIdentity(ctx)
	if err != nil {
		return Identity{}, err
	}
	c.identity = &id
	return id, nil
}

func (c *Client) askIdentity(ctx context.Context) (Identity, error) {
	const call = "GetCurrentIdentity"
	res, err := c.auth.GetCurrentIdentity(ctx, connect.NewRequest(&cloudv1.GetCurrentIdentityRequest{}))
	if err != nil {
		return Identity{}, err
	}
	if len(res.Msg.GetTenants()) != 1 {
		return Identity{}, unexpected(call, "the service says that the token belongs to %d tenants, but a management key belongs to one", len(res.Msg.GetTenants()))
	}
	t := res.Msg.GetTenants()[0]
	base, err := checkURL(t.GetTenantUrl(), c.allowHTTP)
	if err != nil {
		return Identity{}, unexpected(call, "the tenant URL from the service isn't valid: %v", err)
	}
	id := Identity{
		TenantID: t.GetTenantId(), Tenant: t.GetTenant(), TenantURL: base, Roles: t.GetRoles(),
		KeyID: res.Msg.GetKey().GetId(), KeyName: res.Msg.GetKey().GetName(), Version: res.Msg.GetVersion(),
	}
	for _, p := range t.GetPermissions() {
		id.Permissions = append(id.Permissions, PermissionName(p))
	}
	return id, nil
}
