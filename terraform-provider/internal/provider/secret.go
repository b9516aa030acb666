package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// secretResource forms keys; it needs no client, because it makes no call.
type secretResource struct{}

type secretModel struct {
	Kind  types.String `tfsdk:"kind"`
	KeyID types.String `tfsdk:"key_id"`
	Key   types.String `tfsdk:"key"`
}

// Metadata implements ephemeral.EphemeralResource.
func (*secretResource) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "corvo_api_key_secret"
}

// Schema implements ephemeral.EphemeralResource.
func (*secretResource) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Generates an API key on this machine from 256 random bits, without calling the service. Pass `key` to the write-only argument of a " +
			"secrets manager and to `secret_wo` of `corvo_api_key` or `corvo_scim_token`. Corvo Cloud only receives its id and SHA-256 digest, and neither the plan nor the state contains it.\n\n" +
			"**Every run generates a new key**, because the resource is ephemeral. Plans don't change: a new key is only used when a version " +
			"number changes (`secret_wo_version` of `corvo_api_key`, and that of the secrets manager). Use the same number for both, and increase it to rotate the key.",
		Attributes: map[string]schema.Attribute{
			"kind": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{stringvalidator.OneOf(string(apikey.DataPlane), string(apikey.Management), string(apikey.SCIM))},
				MarkdownDescription: "`dp` for jobs, `mg` for management, `scim` for a directory (`corvo_scim_token`).",
			},
			"key_id": schema.StringAttribute{
				Optional:   true,
				Computed:   true,
				Validators: []validator.String{keyID()},
				MarkdownDescription: "Id of the key (`key_…`). Default: a new one. To rotate an existing key and keep its id, write its id here; " +
					"a reference to `corvo_api_key` would be a cycle.",
			},
			"key": schema.StringAttribute{
				Computed:            true,
				Sensitive:           true,
				MarkdownDescription: "The whole key, `corvo_<kind>_…`.",
			},
		},
	}
}

// Open implements ephemeral.EphemeralResource.
func (*secretResource) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m secretModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	k, err := form(apikey.Kind(m.Kind.ValueString()), m.KeyID.ValueString())
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("key_id"), "Couldn't generate a key", err.Error())
		return
	}
	m.KeyID, m.Key = types.StringValue(k.ID()), types.StringValue(k.Reveal())
	resp.Diagnostics.Append(resp.Result.Set(ctx, m)...)
}

func form(kind apikey.Kind, id string) (apikey.Key, error) {
	if id == "" {
		return apikey.Generate(kind)
	}
	return apikey.Renew(kind, id)
}

func keyKind() validator.String {
	return stringvalidator.OneOf(string(apikey.DataPlane), string(apikey.Management))
}

var _ ephemeral.EphemeralResource = (*secretResource)(nil)
