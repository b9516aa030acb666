package provider

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

const (
	runKeyLife    = time.Hour
	runKeyLifeMax = 24 * time.Hour
	// runKeyPrivate is where Open leaves the key's id for Close.
	runKeyPrivate = "key_id"
)

// runKeyResource is an API key that lives as long as a run of Terraform.
type runKeyResource struct{ configured }

type runKeyModel struct {
	Name        types.String         `tfsdk:"name"`
	Kind        types.String         `tfsdk:"kind"`
	OwnerID     types.String         `tfsdk:"owner_id"`
	Namespaces  types.Set            `tfsdk:"namespaces"`
	Permissions types.Set            `tfsdk:"permissions"`
	Queues      types.Set            `tfsdk:"queues"`
	CIDRs       types.Set            `tfsdk:"cidrs"`
	Life        timetypes.GoDuration `tfsdk:"life"`
	KeyID       types.String         `tfsdk:"key_id"`
	Key         types.String         `tfsdk:"key"`
	ExpiresAt   types.String         `tfsdk:"expires_at"`
}

// Metadata implements ephemeral.EphemeralResource.
func (*runKeyResource) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "corvo_api_key"
}

// Schema implements ephemeral.EphemeralResource.
func (*runKeyResource) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	narrows := func(about string, each ...validator.String) schema.SetAttribute {
		return schema.SetAttribute{Optional: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.ValueStringsAre(each...)}, MarkdownDescription: about}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An API key that works during a run of Terraform and is revoked at its end: for another provider or a provisioner that needs one. " +
			"Every plan and every apply creates one of its own. If Terraform is killed, the key works until `life` is over. Neither the plan nor the state contains it.\n\n" +
			"For a key that lasts, use the resource `corvo_api_key` with the ephemeral resource `corvo_api_key_secret`.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Name shown to people; doesn't have to be unique."},
			"kind": schema.StringAttribute{Required: true, Validators: []validator.String{keyKind()}, MarkdownDescription: "`dp` for jobs, `mg` for management."},
			"owner_id": schema.StringAttribute{
				Required: true, Validators: []validator.String{serviceAccountID()}, MarkdownDescription: "Id of the service account (`sa_…`) that the key belongs to.",
			},
			"namespaces":  narrows("Ids (`ns_…`) or names of the only namespaces the key can use. Default: every namespace in which its owner has a role."),
			"permissions": narrows("The only permissions of the owner that the key has. Default: all of the owner's.", permissionName()),
			"queues":      narrows("The only queues the key can use: names, or beginnings of names followed by `*`. Default: all queues.", queuePattern()),
			"cidrs":       narrows("The only networks from which the key works. Default: from anywhere.", networkForm{}),
			"life": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{}, Validators: []validator.String{positiveDuration{most: runKeyLifeMax}},
				MarkdownDescription: "How long the key works at most, up to `24h`. Default: `1h`.",
			},
			"key_id":     schema.StringAttribute{Computed: true, MarkdownDescription: "`key_…`"},
			"key":        schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The whole key, `corvo_<kind>_…`."},
			"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: "When the key expires if nothing revokes it (RFC 3339)."},
		},
	}
}

// Configure implements ephemeral.EphemeralResourceWithConfigure.
func (r *runKeyResource) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	r.set(req.ProviderData, &resp.Diagnostics)
}

// Open implements ephemeral.EphemeralResource.
func (r *runKeyResource) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	var m runKeyModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	secret, err := apikey.Generate(apikey.Kind(m.Kind.ValueString()))
	if err != nil {
		resp.Diagnostics.AddError("Couldn't generate a key", err.Error())
		return
	}
	// Terraform closes what it could open; a key whose creation got no answer ends by its life.
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, runKeyPrivate, fmt.Appendf(nil, "%q", secret.ID()))...)
	digest := secret.Digest()
	res, err := r.cloud.Keys().CreateApiKey(ctx, connect.NewRequest(&cloudv1.CreateApiKeyRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), Kind: toKind(m.Kind), Owner: m.OwnerID.ValueString(),
		Namespaces: toStrings(m.Namespaces), Permissions: toStrings(m.Permissions), Queues: toStrings(m.Queues), Cidrs: toStrings(m.CIDRs),
		ExpiresAt: timestamppb.New(time.Now().Add(orDuration(m.Life, runKeyLife)).Truncate(time.Millisecond)), KeyId: secret.ID(), Digest: digest[:],
	}))
	if err != nil {
		known := keyFields()
		known["expires_at"], known["key_id"], known["digest"] = "life", "kind", "kind"
		addFieldErrors(&resp.Diagnostics, "create API key "+m.Name.ValueString(), err, known)
		return
	}
	key, err := awaitReady(ctx, r.cloud, res.Msg.GetApiKey(), func(ctx context.Context) (*cloudv1.ApiKey, error) {
		now, err := r.cloud.Keys().GetApiKey(ctx, connect.NewRequest(&cloudv1.GetApiKeyRequest{KeyId: secret.ID()}))
		if err != nil {
			return nil, err
		}
		return now.Msg.GetApiKey(), nil
	})
	if err != nil {
		warnPending(&resp.Diagnostics, "API key "+secret.ID(), err)
	}
	m.KeyID, m.Key, m.ExpiresAt = types.StringValue(secret.ID()), types.StringValue(secret.Reveal()), timestamp(key.GetExpiresAt())
	resp.Diagnostics.Append(resp.Result.Set(ctx, m)...)
}

// Close implements ephemeral.EphemeralResourceWithClose.
func (r *runKeyResource) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	quoted, diags := req.Private.GetKey(ctx, runKeyPrivate)
	resp.Diagnostics.Append(diags...)
	var id string
	if _, err := fmt.Sscanf(string(quoted), "%q", &id); err != nil || resp.Diagnostics.HasError() {
		return // Open got nowhere.
	}
	_, err := r.cloud.Keys().RevokeApiKey(ctx, connect.NewRequest(&cloudv1.RevokeApiKeyRequest{KeyId: id, AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(&resp.Diagnostics, "revoke API key "+id+" (it works until it expires)", err)
	}
}

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*runKeyResource)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*runKeyResource)(nil)
)
