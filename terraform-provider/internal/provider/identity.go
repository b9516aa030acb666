package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type identitySource struct{ configured }

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
			"roles":           schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Names of the token's roles in the whole tenant, for example `admin`."},
			"permissions":     schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What the token may do in the whole tenant, for example `namespace.create`."},
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
	resp.Diagnostics.Append(resp.State.Set(ctx, id)...)
}

var _ datasource.DataSourceWithConfigure = (*identitySource)(nil)
