package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// accessTokenResource exchanges a token of an outside issuer for a key that ends by itself.
type accessTokenResource struct{ configured }

type accessTokenModel struct {
	Tenant         types.String `tfsdk:"tenant"`
	Token          types.String `tfsdk:"token"`
	Trust          types.String `tfsdk:"trust"`
	Key            types.String `tfsdk:"key"`
	KeyID          types.String `tfsdk:"key_id"`
	ExpiresAt      types.String `tfsdk:"expires_at"`
	TenantURL      types.String `tfsdk:"tenant_url"`
	TrustID        types.String `tfsdk:"trust_id"`
	ServiceAccount types.String `tfsdk:"service_account_id"`
}

// Metadata implements ephemeral.EphemeralResource.
func (*accessTokenResource) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "corvo_access_token"
}

// Schema implements ephemeral.EphemeralResource.
func (*accessTokenResource) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	required := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: about}
	}
	computed := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: about}
	}
	token := required("The token that the issuer signed (an OpenID Connect ID token, or a service account token of Kubernetes).")
	token.Sensitive = true
	key := computed("The key, `corvo_tmp_…`. It works as the provider's `token` and at the tenant URL, until it expires.")
	key.Sensitive = true
	resp.Schema = schema.Schema{
		MarkdownDescription: "Exchanges a token that GitHub Actions, GitLab CI, Kubernetes or another issuer signed for a key that expires after some minutes (`corvo_trust` says " +
			"which tokens are accepted), so that CI needs no stored key. Neither the plan nor the state contains the token or the key.\n\n" +
			"The exchange needs no key itself: use a provider block with `anonymous = true` for it. **Terraform exchanges twice**, once for the plan and once for the " +
			"apply, and a token counts once unless its trust has `allow_reuse = true`.",
		Attributes: map[string]schema.Attribute{
			"tenant":             required("Name or id (`tn_…`) of the tenant."),
			"token":              token,
			"trust":              schema.StringAttribute{Optional: true, MarkdownDescription: "Name or id (`trust_…`) of the trust that shall accept the token. Default: the one that does."},
			"key":                key,
			"key_id":             computed("Id of the key (`key_…`)."),
			"expires_at":         computed("When the key expires (RFC 3339)."),
			"tenant_url":         computed("Where the tenant's jobs are."),
			"trust_id":           computed("Id of the trust that accepted the token."),
			"service_account_id": computed("Id of the service account that the key belongs to."),
		},
	}
}

// Configure implements ephemeral.EphemeralResourceWithConfigure.
func (r *accessTokenResource) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	r.set(req.ProviderData, &resp.Diagnostics)
}

// Open implements ephemeral.EphemeralResource. There is nothing to close: the key may not
// revoke itself, and expires soon.
func (r *accessTokenResource) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	var m accessTokenModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	res, err := r.cloud.Trusts().ExchangeToken(ctx, connect.NewRequest(&cloudv1.ExchangeTokenRequest{
		Tenant: m.Tenant.ValueString(), Token: m.Token.ValueString(), Trust: m.Trust.ValueString(),
	}))
	if err != nil {
		addFieldErrors(&resp.Diagnostics, "exchange the token", withHelp(err, reasonNotAccepted,
			"The reason is in the tenant's audit log. A token counts once, and Terraform exchanges it for the plan and again for the apply, unless its trust has allow_reuse = true."),
			attributes{"tenant": "tenant", "token": "token", "trust": "trust"})
		return
	}
	got := res.Msg
	if got.GetSync() == cloudv1.Sync_SYNC_PENDING {
		resp.Diagnostics.AddWarning("Not in use everywhere yet", "The key "+got.GetKeyId()+" isn't known to every proxy yet; it will be in some seconds.")
	}
	m.Key, m.KeyID, m.ExpiresAt = types.StringValue(got.GetKey()), types.StringValue(got.GetKeyId()), timestamp(got.GetExpiresAt())
	m.TenantURL, m.TrustID, m.ServiceAccount = types.StringValue(got.GetTenantUrl()), types.StringValue(got.GetTrustId()), types.StringValue(got.GetServiceAccountId())
	resp.Diagnostics.Append(resp.Result.Set(ctx, m)...)
}

var _ ephemeral.EphemeralResourceWithConfigure = (*accessTokenResource)(nil)
