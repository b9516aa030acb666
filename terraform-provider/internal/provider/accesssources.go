package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type shownRole struct {
	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Permissions types.Set    `tfsdk:"permissions"`
	Fixed       types.Bool   `tfsdk:"fixed"`
	Narrowest   types.String `tfsdk:"narrowest"`
}

func showRole(r *cloudv1.Role) shownRole {
	return shownRole{
		ID: types.StringValue(r.GetId()), Name: types.StringValue(r.GetName()), Description: types.StringValue(r.GetDescription()),
		Permissions: setOf(r.GetPermissions()), Fixed: types.BoolValue(r.GetFixed()), Narrowest: types.StringValue(r.GetNarrowest()),
	}
}

func roleAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":          schema.StringAttribute{Computed: true, MarkdownDescription: "`role_…`."},
		"name":        schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the role."},
		"description": schema.StringAttribute{Computed: true, MarkdownDescription: "What it is for."},
		"permissions": schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What the role allows, for example `job.enqueue`."},
		"fixed":       schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether every tenant has it as it is."},
		"narrowest":   schema.StringAttribute{Computed: true, MarkdownDescription: "The narrowest place at which it can be given: `tenant`, `namespace` or `queue`."},
	}
}

func newRoleSource() datasource.DataSource {
	return &findSource[shownRole]{
		typeName: "corvo_role", about: "A role, by its name or id.", by: "name", item: roleAttributes(),
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownRole, error) {
			r, err := findRole(ctx, c, asked)
			return showRole(r), err
		},
	}
}

func newRolesSource() datasource.DataSource {
	return &listSource[shownRole]{
		typeName: "corvo_roles", items: "roles", about: "All roles: first those that every tenant has, then the tenant's own.", item: roleAttributes(),
		list: func(ctx context.Context, c *cloud.Client, _ func(string) string) ([]shownRole, error) {
			return shown(listRoles(ctx, c), showRole)
		},
	}
}

type shownPermission struct {
	Name  types.String `tfsdk:"name"`
	Level types.String `tfsdk:"level"`
	About types.String `tfsdk:"about"`
}

func newPermissionsSource() datasource.DataSource {
	return &listSource[shownPermission]{
		typeName: "corvo_permissions", items: "permissions", about: "Everything that a role can allow.",
		item: map[string]schema.Attribute{
			"name":  computed("For example `job.enqueue`."),
			"level": computed("The narrowest place at which it can be given: `tenant`, `namespace` or `queue`."),
			"about": computed("What it allows to do."),
		},
		list: func(ctx context.Context, c *cloud.Client, _ func(string) string) ([]shownPermission, error) {
			res, err := c.Roles().ListPermissions(ctx, connect.NewRequest(&cloudv1.ListPermissionsRequest{}))
			if err != nil {
				return nil, err
			}
			var out []shownPermission
			for _, p := range res.Msg.GetPermissions() {
				out = append(out, shownPermission{types.StringValue(p.GetName()), types.StringValue(p.GetLevel()), types.StringValue(p.GetAbout())})
			}
			return out, nil
		},
	}
}

type shownServiceAccount struct {
	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Disabled    types.Bool   `tfsdk:"disabled"`
	Roles       types.Set    `tfsdk:"roles"`
}

func showServiceAccount(a *cloudv1.ServiceAccount) shownServiceAccount {
	return shownServiceAccount{
		ID: types.StringValue(a.GetId()), Name: types.StringValue(a.GetName()), Description: types.StringValue(a.GetDescription()), Disabled: types.BoolValue(a.GetDisabled()),
		Roles: setOf(a.GetRoles()),
	}
}

func serviceAccountAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":          computed("`sa_…`."),
		"name":        computed("Name of the service account."),
		"description": computed("What it is for."),
		"disabled":    schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether its keys don't work."},
		"roles":       computedSet("Names of the roles that it has in the whole tenant."),
	}
}

func newServiceAccountSource() datasource.DataSource {
	return &findSource[shownServiceAccount]{
		typeName: "corvo_service_account", about: "A service account, by its name or id.", by: "name", item: serviceAccountAttributes(),
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownServiceAccount, error) {
			a, err := findServiceAccount(ctx, c, asked)
			return showServiceAccount(a), err
		},
	}
}

func newServiceAccountsSource() datasource.DataSource {
	return &listSource[shownServiceAccount]{
		typeName: "corvo_service_accounts", items: "service_accounts", about: "All service accounts.", item: serviceAccountAttributes(),
		list: func(ctx context.Context, c *cloud.Client, _ func(string) string) ([]shownServiceAccount, error) {
			return shown(listServiceAccounts(ctx, c), showServiceAccount)
		},
	}
}

type shownKey struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Kind         types.String `tfsdk:"kind"`
	OwnerID      types.String `tfsdk:"owner_id"`
	Owner        types.String `tfsdk:"owner"`
	Prefix       types.String `tfsdk:"prefix"`
	NamespaceIDs types.Set    `tfsdk:"namespace_ids"`
	Permissions  types.Set    `tfsdk:"permissions"`
	Queues       types.Set    `tfsdk:"queues"`
	CIDRs        types.Set    `tfsdk:"cidrs"`
	ExpiresAt    types.String `tfsdk:"expires_at"`
	CreatedAt    types.String `tfsdk:"created_at"`
}

func showKey(k *cloudv1.ApiKey) shownKey {
	return shownKey{
		ID: types.StringValue(k.GetId()), Name: types.StringValue(k.GetName()), Kind: fromKind(k.GetKind()), OwnerID: types.StringValue(k.GetOwnerId()), Owner: types.StringValue(k.GetOwner()),
		Prefix: types.StringValue(k.GetPrefix()), NamespaceIDs: setOf(k.GetNamespaceIds()), Permissions: setOf(k.GetPermissions()), Queues: setOf(k.GetQueues()), CIDRs: setOf(k.GetCidrs()),
		ExpiresAt: timestamp(k.GetExpiresAt()), CreatedAt: timestamp(k.GetCreatedAt()),
	}
}

func newAPIKeysSource() datasource.DataSource {
	return &listSource[shownKey]{
		typeName: "corvo_api_keys", items: "api_keys", about: "API keys that haven't been revoked: what they are and can be used for, never their secrets.",
		filters: map[string]string{"owner_id": "Only keys of this service account (`sa_…`) or person (`usr_…`). Default: all keys."},
		item: map[string]schema.Attribute{
			"id":            computed("`key_…`."),
			"name":          computed("Name of the key."),
			"kind":          computed("`dp` for jobs, `mg` for management, `pat` for a person's."),
			"owner_id":      computed("Whose key it is: a service account (`sa_…`) or a person (`usr_…`)."),
			"owner":         computed("Name or email address of the owner."),
			"prefix":        computed("Public prefix of the key, to recognize it by."),
			"namespace_ids": computedSet("Ids of the only namespaces that it can use; null if it can use all of the owner's."),
			"permissions":   computedSet("The only permissions of the owner that it has; null if it has all."),
			"queues":        computedSet("The only queues that it can use; null if it can use all."),
			"cidrs":         computedSet("The only networks from which it works; null if it works from anywhere."),
			"expires_at":    computed("When it expires (RFC 3339); null if never."),
			"created_at":    computed("RFC 3339."),
		},
		list: func(ctx context.Context, c *cloud.Client, filter func(string) string) ([]shownKey, error) {
			return shown(listKeys(ctx, c, filter("owner_id")), showKey)
		},
	}
}

type shownMember struct {
	UserID       types.String `tfsdk:"user_id"`
	Email        types.String `tfsdk:"email"`
	Name         types.String `tfsdk:"name"`
	Roles        types.Set    `tfsdk:"roles"`
	ConnectionID types.String `tfsdk:"connection_id"`
	External     types.Bool   `tfsdk:"external"`
	CreatedAt    types.String `tfsdk:"created_at"`
}

func showMember(m *cloudv1.Member) shownMember {
	return shownMember{
		UserID: types.StringValue(m.GetUserId()), Email: types.StringValue(m.GetEmail()), Name: types.StringValue(m.GetName()), Roles: setOf(m.GetRoles()),
		ConnectionID: types.StringValue(m.GetSsoConnectionId()), External: types.BoolValue(m.GetExternal()), CreatedAt: timestamp(m.GetCreatedAt()),
	}
}

func memberAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"user_id":       computed("`usr_…`."),
		"email":         computed("Email address."),
		"name":          computed("Name of the person."),
		"roles":         computedSet("Names of the roles that the member has in the whole tenant, without those of groups."),
		"connection_id": computed("The SSO connection that they sign in through (`sso_…`); empty: by email."),
		"external":      schema.BoolAttribute{Computed: true, MarkdownDescription: "They sign in through that connection with an address outside the tenant's verified domains. False while it has none."},
		"created_at":    computed("When they joined (RFC 3339)."),
	}
}

func newMemberSource() datasource.DataSource {
	return &findSource[shownMember]{
		typeName: "corvo_member", about: "A member of the tenant, by email address or id. Who is only invited isn't one.", by: "email", item: memberAttributes(),
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownMember, error) {
			m, err := findMember(ctx, c, asked)
			return showMember(m), err
		},
	}
}

func newMembersSource() datasource.DataSource {
	return &listSource[shownMember]{
		typeName: "corvo_members", items: "members", about: "All members of the tenant.", item: memberAttributes(),
		list: func(ctx context.Context, c *cloud.Client, _ func(string) string) ([]shownMember, error) {
			return shown(listMembers(ctx, c), showMember)
		},
	}
}

type shownGroup struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Description  types.String `tfsdk:"description"`
	ExternalID   types.String `tfsdk:"external_id"`
	ConnectionID types.String `tfsdk:"connection_id"`
}

type groupWithUsers struct {
	shownGroup

	UserIDs types.Set `tfsdk:"user_ids"`
}

func showGroup(g *cloudv1.Group) shownGroup {
	return shownGroup{
		ID: types.StringValue(g.GetId()), Name: types.StringValue(g.GetName()), Description: types.StringValue(g.GetDescription()),
		ExternalID: types.StringValue(g.GetExternalId()), ConnectionID: types.StringValue(g.GetConnectionId()),
	}
}

func groupAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":            computed("`grp_…`."),
		"name":          computed("Name of the group."),
		"description":   computed("What it is for."),
		"external_id":   computed("The directory's id of it; empty if people keep it."),
		"connection_id": computed("The SSO connection whose directory keeps it (`sso_…`); empty if people keep it."),
	}
}

func newGroupSource() datasource.DataSource {
	attributes := groupAttributes()
	attributes["user_ids"] = computedSet("Ids of its members (`usr_…`); null if it has none.")
	return &findSource[groupWithUsers]{
		typeName: "corvo_group", about: "A group, by its name or id: for example one that a directory keeps, to give it a role with `corvo_role_binding`.", by: "name", item: attributes,
		find: func(ctx context.Context, c *cloud.Client, asked string) (groupWithUsers, error) {
			g, err := findGroup(ctx, c, asked)
			if err != nil {
				return groupWithUsers{}, err
			}
			users, err := usersIn(ctx, c, g.GetId())
			return groupWithUsers{showGroup(g), setOf(users)}, err
		},
	}
}

func newGroupsSource() datasource.DataSource {
	return &listSource[shownGroup]{
		typeName: "corvo_groups", items: "groups", about: "All groups.", item: groupAttributes(),
		list: func(ctx context.Context, c *cloud.Client, _ func(string) string) ([]shownGroup, error) {
			return shown(listGroups(ctx, c), showGroup)
		},
	}
}

type shownTrust struct {
	ID               types.String `tfsdk:"id"`
	Name             types.String `tfsdk:"name"`
	ServiceAccountID types.String `tfsdk:"service_account_id"`
	TokenProvider    types.String `tfsdk:"token_provider"`
	Issuer           types.String `tfsdk:"issuer"`
	Audience         types.String `tfsdk:"audience"`
	Conditions       types.Map    `tfsdk:"conditions"`
}

func showTrust(v *cloudv1.Trust) shownTrust {
	return shownTrust{
		ID: types.StringValue(v.GetId()), Name: types.StringValue(v.GetName()), ServiceAccountID: types.StringValue(v.GetServiceAccountId()), TokenProvider: tokenProviderWord(v.GetProvider()),
		Issuer: types.StringValue(v.GetIssuer()), Audience: types.StringValue(v.GetAudience()), Conditions: fromConditions(v.GetConditions()),
	}
}

func trustAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":                 computed("`trust_…`."),
		"name":               computed("Name of the trust."),
		"service_account_id": computed("Id of the service account (`sa_…`) that the keys belong to."),
		"token_provider":     computed("Who signs the tokens: `github`, `gitlab`, `kubernetes` or `other`."),
		"issuer":             computed("The claim `iss` of the tokens."),
		"audience":           computed("The claim `aud` of the tokens."),
		"conditions": schema.MapAttribute{
			Computed: true, ElementType: types.SetType{ElemType: types.StringType}, MarkdownDescription: "Claims that a token must have, and their values, of which one must fit.",
		},
	}
}

func newTrustSource() datasource.DataSource {
	return &findSource[shownTrust]{
		typeName: "corvo_trust", about: "A trust in tokens of an outside issuer, by its name or id.", by: "name", item: trustAttributes(),
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownTrust, error) {
			v, err := findTrust(ctx, c, asked)
			return showTrust(v), err
		},
	}
}

func newTrustsSource() datasource.DataSource {
	return &listSource[shownTrust]{
		typeName: "corvo_trusts", items: "trusts", about: "All trusts in tokens of outside issuers.", item: trustAttributes(),
		filters: map[string]string{"service_account_id": "Only those of this service account (`sa_…`). Default: all."},
		list: func(ctx context.Context, c *cloud.Client, filter func(string) string) ([]shownTrust, error) {
			return shown(listTrusts(ctx, c, filter("service_account_id")), showTrust)
		},
	}
}

type shownConnection struct {
	ID             types.String `tfsdk:"id"`
	Name           types.String `tfsdk:"name"`
	Type           types.String `tfsdk:"type"`
	Enabled        types.Bool   `tfsdk:"enabled"`
	Staged         types.Bool   `tfsdk:"staged"`
	LoginURL       types.String `tfsdk:"login_url"`
	RedirectURI    types.String `tfsdk:"redirect_uri"`
	OldRedirectURI types.String `tfsdk:"old_redirect_uri"`
	SPEntityID     types.String `tfsdk:"sp_entity_id"`
	SPMetadataURL  types.String `tfsdk:"sp_metadata_url"`
	EndpointURL    types.String `tfsdk:"scim_endpoint_url"`
}

func newConnectionSource() datasource.DataSource {
	return &findSource[shownConnection]{
		typeName: "corvo_sso_connection", about: "An SSO connection, by its name or id.", by: "name",
		item: map[string]schema.Attribute{
			"id":                computed("`sso_…`."),
			"name":              computed("Name of the connection. Several can have the same one: then use the id."),
			"type":              computed("`oidc` or `saml`."),
			"enabled":           schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether people can sign in through it."},
			"staged":            schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether a change waits for a test sign-in and a switch."},
			"login_url":         computed("Where people start."),
			"redirect_uri":      computed("The redirect URI, or the ACS URL of SAML."),
			"old_redirect_uri":  computed("The redirect URI that people still sign in with, until a test sign-in with `redirect_uri` succeeds. Else empty."),
			"sp_entity_id":      computed("SAML: our entity ID (audience). Else empty."),
			"sp_metadata_url":   computed("SAML: our metadata. Else empty."),
			"scim_endpoint_url": computed("The SCIM endpoint, for a directory (`corvo_scim_token`)."),
		},
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownConnection, error) {
			v, err := connectionCalled(ctx, c, asked)
			if err != nil {
				return shownConnection{}, err
			}
			sync, err := c.Directory().GetDirectorySync(ctx, connect.NewRequest(&cloudv1.GetDirectorySyncRequest{ConnectionId: v.GetId()}))
			if err != nil {
				return shownConnection{}, err
			}
			kind := "oidc"
			if v.GetType() == cloudv1.SsoType_SSO_TYPE_SAML {
				kind = "saml"
			}
			return shownConnection{
				ID: types.StringValue(v.GetId()), Name: types.StringValue(v.GetName()), Type: types.StringValue(kind), Enabled: types.BoolValue(v.GetEnabled()),
				Staged: types.BoolValue(v.GetStaged() != nil), LoginURL: types.StringValue(v.GetLoginUrl()), RedirectURI: types.StringValue(v.GetRedirectUri()), OldRedirectURI: types.StringValue(v.GetOldRedirectUri()),
				SPEntityID: types.StringValue(v.GetSamlDetails().GetSpEntityId()), SPMetadataURL: types.StringValue(v.GetSamlDetails().GetSpMetadataUrl()),
				EndpointURL: types.StringValue(sync.Msg.GetSync().GetEndpointUrl()),
			}, nil
		},
	}
}

// connectionCalled takes sso_… or a name that only one connection has.
func connectionCalled(ctx context.Context, c *cloud.Client, asked string) (*cloudv1.SsoConnection, error) {
	every, err := all(listConnections(ctx, c))
	if err != nil {
		return nil, err
	}
	var found []*cloudv1.SsoConnection
	for _, v := range every {
		if v.GetId() == asked {
			return v, nil
		}
		if v.GetName() == asked {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListSsoConnections", Message: "no SSO connection has the id or name " + asked}
	}
	return nil, &cloud.Error{Kind: cloud.Invalid, Call: "ListSsoConnections", Message: "several SSO connections have the name " + asked + "; use the id of one"}
}

type shownDomain struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Verified     types.Bool   `tfsdk:"verified"`
	VerifiedAt   types.String `tfsdk:"verified_at"`
	Problem      types.String `tfsdk:"problem"`
	ConnectionID types.String `tfsdk:"connection_id"`
	TXTName      types.String `tfsdk:"txt_name"`
	TXTValue     types.String `tfsdk:"txt_value"`
}

func newDomainSource() datasource.DataSource {
	return &findSource[shownDomain]{
		typeName: "corvo_domain", about: "A domain of the tenant, by its name or id.", by: "name",
		item: map[string]schema.Attribute{
			"id":            computed("`dom_…`."),
			"name":          computed("For example `company.com`."),
			"verified":      schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it is verified."},
			"verified_at":   computed("Since when (RFC 3339); null if it isn't."),
			"problem":       computed("What was wrong when DNS was last asked; empty if nothing was."),
			"connection_id": computed("The SSO connection that people of the domain sign in through (`sso_…`); empty: the tenant's enabled ones."),
			"txt_name":      computed("Name of the TXT record that proves the domain."),
			"txt_value":     computed("Value of the TXT record."),
		},
		find: func(ctx context.Context, c *cloud.Client, asked string) (shownDomain, error) {
			d, err := findDomain(ctx, c, asked)
			return shownDomain{
				ID: types.StringValue(d.GetId()), Name: types.StringValue(d.GetName()), Verified: types.BoolValue(isVerified(d)), VerifiedAt: timestamp(d.GetVerifiedAt()),
				Problem: types.StringValue(d.GetProblem()), ConnectionID: types.StringValue(d.GetConnectionId()), TXTName: types.StringValue(d.GetTxtName()), TXTValue: types.StringValue(d.GetTxtValue()),
			}, err
		},
	}
}

func computed(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: about}
}

func computedSet(about string) schema.SetAttribute {
	return schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: about}
}

// setOf is null for none.
func setOf(items []string) types.Set { return toSet(items, types.SetNull(types.StringType)) }
