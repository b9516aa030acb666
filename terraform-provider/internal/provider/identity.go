package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type identitySource struct{ configured }

type identityModel struct {
	TenantID    types.String `tfsdk:"tenant_id"`
	Tenant      types.String `tfsdk:"tenant"`
	TenantURL   types.String `tfsdk:"tenant_url"`
	Role        types.String `tfsdk:"role"`
	Permissions types.Set    `tfsdk:"permissions"`
	KeyID       types.String `tfsdk:"key_id"`
	KeyName     types.String `tfsdk:"key_name"`
	Version     types.String `tfsdk:"service_version"`
}

// Metadata implements datasource.DataSource.
func (s *identitySource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "corvo_current_identity"
}

// Schema implements datasource.DataSource.
func (s *identitySource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The identity and permissions of the provider's token.",
		Attributes: map[string]schema.Attribute{
			"tenant_id":       schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the token's tenant (`tn_…`)."},
			"tenant":          schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the tenant."},
			"tenant_url":      schema.StringAttribute{Computed: true, MarkdownDescription: "Base URL of the tenant's jobs and queues."},
			"role":            schema.StringAttribute{Computed: true, MarkdownDescription: "The token's role in the tenant, for example `admin`."},
			"permissions":     schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Permissions of the token, for example `NAMESPACE_WRITE`."},
			"key_id":          schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the token's key (`key_…`)."},
			"key_name":        schema.StringAttribute{Computed: true, MarkdownDescription: "Name of that key."},
			"service_version": schema.StringAttribute{Computed: true, MarkdownDescription: "Version of the service."},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *identitySource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *identitySource) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	id, err := s.cloud.Identity(ctx)
	if err != nil {
		addError(&resp.Diagnostics, "identify the token", err)
		return
	}
	permissions, diags := types.SetValueFrom(ctx, types.StringType, id.Permissions)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(resp.State.Set(ctx, identityModel{
		TenantID: types.StringValue(id.TenantID), Tenant: types.StringValue(id.Tenant), TenantURL: types.StringValue(id.TenantURL),
		Role: types.StringValue(id.Role), Permissions: permissions, KeyID: types.StringValue(id.KeyID),
		KeyName: types.StringValue(id.KeyName), Version: types.StringValue(id.Version),
	})...)
}

var _ datasource.DataSourceWithConfigure = (*identitySource)(nil)
