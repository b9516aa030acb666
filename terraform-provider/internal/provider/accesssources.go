package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// source is what all data sources do alike; M is the model of one. Read fills in what the
// configuration asks for, and says what it was doing if that fails.
type source[M any] struct {
	configured

	typeName string
	schema   schema.Schema
	read     func(ctx context.Context, c *configured, m *M) (doing string, err error)
}

// Metadata implements datasource.DataSource.
func (s *source[M]) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = s.typeName
}

// Schema implements datasource.DataSource.
func (s *source[M]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = s.schema
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *source[M]) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *source[M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	var m M
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if doing, err := s.read(ctx, &s.configured, &m); err != nil {
		addError(&resp.Diagnostics, doing, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

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
		Permissions: toSet(r.GetPermissions(), types.SetNull(types.StringType)), Fixed: types.BoolValue(r.GetFixed()), Narrowest: types.StringValue(r.GetNarrowest()),
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
	attributes := roleAttributes()
	attributes["name"] = schema.StringAttribute{Required: true, MarkdownDescription: "Name or id of the role."}
	return &source[shownRole]{
		typeName: "corvo_role", schema: schema.Schema{MarkdownDescription: "A role, by its name or id.", Attributes: attributes},
		read: func(ctx context.Context, c *configured, m *shownRole) (string, error) {
			role, err := findRole(ctx, c.cloud, m.Name.ValueString())
			asked := m.Name
			*m = showRole(role)
			m.Name = asked
			return "read role " + asked.ValueString(), err
		},
	}
}

type rolesModel struct {
	Roles []shownRole `tfsdk:"roles"`
}

func newRolesSource() datasource.DataSource {
	return &source[rolesModel]{
		typeName: "corvo_roles",
		schema: schema.Schema{MarkdownDescription: "All roles: first those that every tenant has, then the tenant's own.", Attributes: map[string]schema.Attribute{
			"roles": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The roles.", NestedObject: schema.NestedAttributeObject{Attributes: roleAttributes()}},
		}},
		read: func(ctx context.Context, c *configured, m *rolesModel) (string, error) {
			req := &cloudv1.ListRolesRequest{PageSize: pageMax}
			for {
				res, err := c.cloud.Roles().ListRoles(ctx, connect.NewRequest(req))
				if err != nil {
					return "list roles", err
				}
				for _, r := range res.Msg.GetRoles() {
					m.Roles = append(m.Roles, showRole(r))
				}
				if req.PageToken = res.Msg.GetNextPageToken(); req.GetPageToken() == "" {
					return "", nil
				}
			}
		},
	}
}

type permissionsModel struct {
	Permissions []shownPermission `tfsdk:"permissions"`
}

type shownPermission struct {
	Name  types.String `tfsdk:"name"`
	Level types.String `tfsdk:"level"`
	About types.String `tfsdk:"about"`
}

func newPermissionsSource() datasource.DataSource {
	return &source[permissionsModel]{
		typeName: "corvo_permissions",
		schema: schema.Schema{MarkdownDescription: "Everything that a role can allow.", Attributes: map[string]schema.Attribute{
			"permissions": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The permissions.", NestedObject: schema.NestedAttributeObject{
				Attributes: map[string]schema.Attribute{
					"name":  schema.StringAttribute{Computed: true, MarkdownDescription: "For example `job.enqueue`."},
					"level": schema.StringAttribute{Computed: true, MarkdownDescription: "The narrowest place at which it can be given: `tenant`, `namespace` or `queue`."},
					"about": schema.StringAttribute{Computed: true, MarkdownDescription: "What it allows to do."},
				},
			}},
		}},
		read: func(ctx context.Context, c *configured, m *permissionsModel) (string, error) {
			res, err := c.cloud.Roles().ListPermissions(ctx, connect.NewRequest(&cloudv1.ListPermissionsRequest{}))
			if err != nil {
				return "list permissions", err
			}
			for _, p := range res.Msg.GetPermissions() {
				m.Permissions = append(m.Permissions, shownPermission{types.StringValue(p.GetName()), types.StringValue(p.GetLevel()), types.StringValue(p.GetAbout())})
			}
			return "", nil
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

func newServiceAccountSource() datasource.DataSource {
	return &source[shownServiceAccount]{
		typeName: "corvo_service_account",
		schema: schema.Schema{MarkdownDescription: "A service account, by its name.", Attributes: map[string]schema.Attribute{
			"id":          schema.StringAttribute{Computed: true, MarkdownDescription: "`sa_…`."},
			"name":        schema.StringAttribute{Required: true, MarkdownDescription: "Name or id of the service account."},
			"description": schema.StringAttribute{Computed: true, MarkdownDescription: "What it is for."},
			"disabled":    schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether its keys don't work."},
			"roles":       schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Names of the roles that it has in the whole tenant."},
		}},
		read: func(ctx context.Context, c *configured, m *shownServiceAccount) (string, error) {
			a, err := findServiceAccount(ctx, c.cloud, m.Name.ValueString())
			m.ID, m.Description, m.Disabled = types.StringValue(a.GetId()), types.StringValue(a.GetDescription()), types.BoolValue(a.GetDisabled())
			m.Roles = toSet(a.GetRoles(), types.SetNull(types.StringType))
			return "read service account " + m.Name.ValueString(), err
		},
	}
}

var _ datasource.DataSourceWithConfigure = (*source[shownRole])(nil)
