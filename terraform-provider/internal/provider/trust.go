package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type trustResource struct{ managed[trustModel] }

type trustModel struct {
	ID               types.String `tfsdk:"id"`
	Name             types.String `tfsdk:"name"`
	ServiceAccountID types.String `tfsdk:"service_account_id"`
	TokenProvider    types.String `tfsdk:"token_provider"`
	Issuer           types.String `tfsdk:"issuer"`
	JWKS             types.String `tfsdk:"jwks"`
	Audience         types.String `tfsdk:"audience"`
	Conditions       types.Map    `tfsdk:"conditions"`
	Permissions      types.Set    `tfsdk:"permissions"`
	Namespaces       types.Set    `tfsdk:"namespaces"`
	Queues           types.Set    `tfsdk:"queues"`
	CIDRs            types.Set    `tfsdk:"cidrs"`
	KeyLifeSeconds   types.Int64  `tfsdk:"key_life_seconds"`
	AllowReuse       types.Bool   `tfsdk:"allow_reuse"`
	ETag             types.String `tfsdk:"etag"`
	CreatedAt        types.String `tfsdk:"created_at"`
	CreatedBy        types.String `tfsdk:"created_by"`
}

func newTrust() resource.Resource {
	r := new(trustResource)
	r.managed = managed[trustModel]{
		typeName: "corvo_trust", schema: trustSchema, called: func(m trustModel) string { return "trust " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

// tokenProviders are the words of the attribute token_provider.
func tokenProviders() map[string]cloudv1.TrustProvider {
	return map[string]cloudv1.TrustProvider{
		"github": cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB, "gitlab": cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB,
		"kubernetes": cloudv1.TrustProvider_TRUST_PROVIDER_KUBERNETES, "other": cloudv1.TrustProvider_TRUST_PROVIDER_OTHER,
	}
}

func trustSchema() schema.Schema {
	narrows := func(about string, each validator.String) schema.SetAttribute {
		return schema.SetAttribute{Optional: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.ValueStringsAre(each)}, MarkdownDescription: about}
	}
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	valueSet := types.SetType{ElemType: types.StringType}
	return schema.Schema{
		MarkdownDescription: "Lets machines that have no stored key act as a service account: a token of theirs, which GitHub Actions, GitLab CI, Kubernetes or another issuer " +
			"signed, is exchanged for a key that expires after some minutes (ephemeral resource `corvo_access_token`, or `corvo token exchange`).\n\n" +
			"A change of anything but `name` and `key_life_seconds`, and destroying it, revokes the keys that it gave. Creating or changing one needs a token that doesn't expire itself.",
		Attributes: map[string]schema.Attribute{
			"id":                 stableText("`trust_…`, never changes."),
			"name":               schema.StringAttribute{Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Unique among the tenant's trusts."},
			"service_account_id": fixedText(true, "Id of the service account (`sa_…`) that the keys belong to. Changing it replaces the trust.", serviceAccountID()),
			"token_provider": fixedText(true, "Who signs the tokens: `github` (GitHub Actions), `gitlab` (GitLab CI), `kubernetes` (service accounts of a cluster) or `other`. It decides which "+
				"conditions are needed. Changing it replaces the trust.", stringvalidator.OneOf(slices.Sorted(maps.Keys(tokenProviders()))...)),
			"issuer": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "The claim `iss` of the tokens, exactly. Default: that of GitHub Actions or of gitlab.com. Changing it replaces the trust.",
			},
			"jwks": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Public keys (JSON Web Key Set) of an issuer that the service can't reach. Default: read from the issuer.",
			},
			"audience": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, PlanModifiers: kept,
				MarkdownDescription: "The claim `aud` of the tokens, exactly. Default when it is created: the service's address, a slash and the tenant's name.",
			},
			"conditions": schema.MapAttribute{
				Required: true, ElementType: valueSet,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1), mapvalidator.ValueSetsAre(setvalidator.SizeAtLeast(1))},
				MarkdownDescription: "Claims that a token must have, and their values, of which one must fit: exact, or the beginning followed by `*`. All claims must fit. " +
					"For example `{ repository = [\"acme/web\"], ref = [\"refs/heads/main\"] }`.",
			},
			"permissions": narrows("The only permissions of the service account that the keys have. Default: all of them.", permissionName()),
			"namespaces":  narrows("Ids (`ns_…`, preferred) or names of the only namespaces that the keys can use. Default: every one in which the service account has a role.", stringvalidator.LengthAtLeast(1)),
			"queues":      narrows("The only queues that the keys can use: names, or beginnings of names followed by `*`. Default: all queues.", queuePattern()),
			"cidrs":       narrows("The only networks from which the keys work. Default: from anywhere.", networkForm{}),
			"key_life_seconds": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(900), Validators: []validator.Int64{int64validator.Between(300, 3600)},
				MarkdownDescription: "How long a key works: 300 to 3600. Default: `900`.",
			},
			"allow_reuse": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether a token can be exchanged again until it ends, as Terraform does for plan and apply. Otherwise it counts once. Default: `false`.",
			},
			"etag":       changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at": stableText("RFC 3339."),
			"created_by": stableText("Id of the user or service account that created it."),
		},
	}
}

func trustFields() attributes {
	return attributes{
		"name": "name", "service_account": "service_account_id", "provider": "token_provider", "issuer": "issuer", "jwks": "jwks", "audience": "audience", "conditions": "conditions",
		"permissions": "permissions", "namespaces": "namespaces", "queues": "queues", "cidrs": "cidrs", "key_life_seconds": "key_life_seconds", "allow_reuse": "allow_reuse",
	}
}

func (r *trustResource) create(ctx context.Context, o operation[trustModel], m trustModel) {
	res, err := r.cloud.Trusts().CreateTrust(ctx, connect.NewRequest(&cloudv1.CreateTrustRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), ServiceAccount: m.ServiceAccountID.ValueString(), Provider: tokenProviders()[m.TokenProvider.ValueString()],
		Issuer: m.Issuer.ValueString(), Jwks: m.JWKS.ValueString(), Audience: m.Audience.ValueString(), Conditions: toConditions(m.Conditions),
		Permissions: toStrings(m.Permissions), Namespaces: toStrings(m.Namespaces), Queues: toStrings(m.Queues), Cidrs: toStrings(m.CIDRs),
		KeyLifeSeconds: m.KeyLifeSeconds.ValueInt64(), AllowReuse: m.AllowReuse.ValueBool(),
	}))
	if err != nil {
		addFieldErrors(o.diags, "create trust "+m.Name.ValueString(), importable(err, m.Name.ValueString()), trustFields())
		return
	}
	o.save(m.from(res.Msg.GetTrust(), m.Namespaces))
}

func (r *trustResource) read(ctx context.Context, m *trustModel, _ *diag.Diagnostics) error {
	now, err := r.now(ctx, *m)
	if err == nil {
		*m = now
	}
	return err
}

// now is a model brought up to date.
func (r *trustResource) now(ctx context.Context, m trustModel) (trustModel, error) {
	v, err := findTrust(ctx, r.cloud, m.ID.ValueString())
	if err != nil {
		return m, err
	}
	namespaces, err := namespacesAsWritten(ctx, r.cloud, m.Namespaces, v.GetNamespaceIds())
	return m.from(v, namespaces), err
}

func findTrust(ctx context.Context, c *cloud.Client, idOrName string) (*cloudv1.Trust, error) {
	res, err := c.Trusts().GetTrust(ctx, connect.NewRequest(&cloudv1.GetTrustRequest{Trust: idOrName}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetTrust(), nil
}

// changes names what differs between two models, in the words of a mask.
func (m trustModel) changes(o trustModel) map[string]bool {
	return map[string]bool{
		"name": m.Name.Equal(o.Name), "jwks": m.JWKS.Equal(o.JWKS), "audience": m.Audience.Equal(o.Audience), "conditions": m.Conditions.Equal(o.Conditions),
		"permissions": slices.Equal(toStrings(m.Permissions), toStrings(o.Permissions)), "namespaces": slices.Equal(toStrings(m.Namespaces), toStrings(o.Namespaces)),
		"queues": slices.Equal(toStrings(m.Queues), toStrings(o.Queues)), "cidrs": slices.Equal(toStrings(m.CIDRs), toStrings(o.CIDRs)),
		"key_life_seconds": m.KeyLifeSeconds.Equal(o.KeyLifeSeconds), "allow_reuse": m.AllowReuse.Equal(o.AllowReuse),
	}
}

func (r *trustResource) update(ctx context.Context, o operation[trustModel], plan, state trustModel) {
	mask := maskOf(plan.changes(state))
	if len(mask.GetPaths()) == 0 { // An empty set became none.
		plan.ETag = state.ETag
		o.save(plan)
		return
	}
	res, err := r.cloud.Trusts().UpdateTrust(ctx, connect.NewRequest(&cloudv1.UpdateTrustRequest{
		TrustId: state.ID.ValueString(), Etag: state.ETag.ValueString(), UpdateMask: mask, Name: plan.Name.ValueString(), Jwks: plan.JWKS.ValueString(),
		Audience: plan.Audience.ValueString(), Conditions: toConditions(plan.Conditions), Permissions: toStrings(plan.Permissions), Namespaces: toStrings(plan.Namespaces),
		Queues: toStrings(plan.Queues), Cidrs: toStrings(plan.CIDRs), KeyLifeSeconds: plan.KeyLifeSeconds.ValueInt64(), AllowReuse: plan.AllowReuse.ValueBool(),
	}))
	if err == nil {
		o.save(plan.from(res.Msg.GetTrust(), plan.Namespaces))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		if now, getErr := r.now(ctx, plan); getErr == nil && len(maskOf(plan.changes(now)).GetPaths()) == 0 {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change trust "+state.Name.ValueString(), err, trustFields())
}

func (r *trustResource) remove(ctx context.Context, m trustModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Trusts().DeleteTrust(ctx, connect.NewRequest(&cloudv1.DeleteTrustRequest{TrustId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy trust "+m.Name.ValueString(), err)
	}
}

// adopt takes trust_… or a name.
func (r *trustResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (trustModel, bool) {
	v, err := findTrust(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import trust %q (use its id, trust_…, or its name)", id), err)
		return trustModel{}, false
	}
	return importedTrust(v), true
}

func toConditions(m types.Map) []*cloudv1.TrustCondition {
	var out []*cloudv1.TrustCondition
	for claim, v := range m.Elements() {
		if values, ok := v.(types.Set); ok {
			out = append(out, &cloudv1.TrustCondition{Claim: claim, Values: toStrings(values)})
		}
	}
	slices.SortFunc(out, func(a, b *cloudv1.TrustCondition) int { return strings.Compare(a.GetClaim(), b.GetClaim()) })
	return out
}

// fromConditions relies on the service, which refuses two conditions of one claim.
func fromConditions(all []*cloudv1.TrustCondition) types.Map {
	values := map[string]attr.Value{}
	for _, c := range all {
		values[c.GetClaim()] = toSet(c.GetValues(), types.SetNull(types.StringType))
	}
	return types.MapValueMust(types.SetType{ElemType: types.StringType}, values)
}

// from takes what the service says. Namespaces are the user's words for them.
func (m trustModel) from(v *cloudv1.Trust, namespaces types.Set) trustModel {
	return trustModel{
		ID: types.StringValue(v.GetId()), Name: types.StringValue(v.GetName()), ServiceAccountID: types.StringValue(v.GetServiceAccountId()),
		TokenProvider: tokenProviderWord(v.GetProvider()),
		Issuer:        types.StringValue(v.GetIssuer()), JWKS: orNull(v.GetJwks()), Audience: types.StringValue(v.GetAudience()), Conditions: fromConditions(v.GetConditions()),
		Permissions: toSet(v.GetPermissions(), m.Permissions), Namespaces: namespaces, Queues: toSet(v.GetQueues(), m.Queues), CIDRs: networksAsWritten(v.GetCidrs(), m.CIDRs),
		KeyLifeSeconds: types.Int64Value(v.GetKeyLifeSeconds()), AllowReuse: types.BoolValue(v.GetAllowReuse()), ETag: types.StringValue(v.GetEtag()),
		CreatedAt: timestamp(v.GetCreatedAt()), CreatedBy: types.StringValue(v.GetCreatedBy()),
	}
}

func tokenProviderWord(p cloudv1.TrustProvider) types.String {
	for word, known := range tokenProviders() {
		if known == p {
			return types.StringValue(word)
		}
	}
	return types.StringNull()
}
