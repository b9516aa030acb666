package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

type tenantSettingsResource struct {
	managed[tenantSettingsModel]
}

type tenantSettingsModel struct {
	ID                        types.String `tfsdk:"id"`
	RequireSSO                types.Bool   `tfsdk:"require_sso"`
	RequireSecondFactor       types.Bool   `tfsdk:"require_second_factor"`
	SessionIdleSeconds        types.Int64  `tfsdk:"session_idle_seconds"`
	SessionLifeSeconds        types.Int64  `tfsdk:"session_life_seconds"`
	KeyLifeMaxSeconds         types.Int64  `tfsdk:"key_life_max_seconds"`
	KeyNetworksRequired       types.Bool   `tfsdk:"key_networks_required"`
	ForbidPersonalKeysForJobs types.Bool   `tfsdk:"forbid_personal_keys_for_jobs"`
	AuditPayloadReads         types.Bool   `tfsdk:"audit_payload_reads"`
	AuditRetentionSeconds     types.Int64  `tfsdk:"audit_retention_seconds"`
	ETag                      types.String `tfsdk:"etag"`
}

func newTenantSettings() resource.Resource {
	r := new(tenantSettingsResource)
	r.managed = managed[tenantSettingsModel]{
		typeName: "corvo_tenant_settings", schema: tenantSettingsSchema,
		called: func(tenantSettingsModel) string { return "the tenant's settings" },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func tenantSettingsSchema() schema.Schema {
	flag := func(about string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false), MarkdownDescription: about + " Default: `false`."}
	}
	limit := func(about string) schema.Int64Attribute {
		return schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(0), MarkdownDescription: about + " Default: `0`, no limit of this tenant's own."}
	}
	return schema.Schema{
		MarkdownDescription: "How people sign in to the tenant, what its API keys must be, and what its audit log keeps. A tenant has one: use this resource once. What isn't set is off, and destroying it turns everything off.",
		Attributes: map[string]schema.Attribute{
			"id": stableText("The tenant's id."),
			"require_sso": flag("Whether only the tenant's own single sign-on lets people in. Needs a tested connection by which an owner comes in, and break-glass codes " +
				"(`corvo policy break-glass create`). Keys of service accounts, such as Terraform's, work on."),
			"require_second_factor":         flag("Whether people who sign in by email must have a second factor."),
			"session_idle_seconds":          limit("Ends sessions that weren't used for so long: 900 to 1209600 (14 days)."),
			"session_life_seconds":          limit("Ends sessions so long after the sign-in: 3600 to 2592000 (30 days)."),
			"key_life_max_seconds":          limit("New API keys must expire, at most so long after they are made: 3600 to 315360000 (10 years)."),
			"key_networks_required":         flag("Whether new API keys must name the networks they work from."),
			"forbid_personal_keys_for_jobs": flag("Whether people's own keys do nothing at the tenant URL."),
			"audit_payload_reads":           flag("Whether the audit log says which person read what jobs and schedules carry."),
			"audit_retention_seconds": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(0),
				MarkdownDescription: "How long entries of the audit log are kept: 7776000 (90 days) to 315360000 (10 years). Older ones are deleted for good. Default: `0`, which is 400 days.",
			},
			"etag": changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
		},
	}
}

func tenantSettingsFields() attributes {
	known := attributes{}
	for _, f := range policyPaths() {
		known[f], known["policy."+f] = f, f
	}
	return known
}

func policyPaths() []string {
	return []string{"require_sso", "require_second_factor", "session_idle_seconds", "session_life_seconds", "key_life_max_seconds", "key_networks_required", "forbid_personal_keys_for_jobs",
		"audit_payload_reads", "audit_retention_seconds"}
}

// create takes over the one that every tenant has.
func (r *tenantSettingsResource) create(ctx context.Context, o operation[tenantSettingsModel], m tenantSettingsModel) {
	r.put(ctx, o, m, "", policyPaths())
}

func (r *tenantSettingsResource) read(ctx context.Context, m *tenantSettingsModel, _ *diag.Diagnostics) error {
	res, err := r.cloud.Policy().GetSignInPolicy(ctx, connect.NewRequest(&cloudv1.GetSignInPolicyRequest{}))
	if err == nil {
		*m = settingsFrom(res.Msg.GetPolicy())
	}
	return err
}

func (r *tenantSettingsResource) update(ctx context.Context, o operation[tenantSettingsModel], plan, state tenantSettingsModel) {
	mask := maskOf(map[string]bool{
		"require_sso": plan.RequireSSO.Equal(state.RequireSSO), "require_second_factor": plan.RequireSecondFactor.Equal(state.RequireSecondFactor),
		"session_idle_seconds": plan.SessionIdleSeconds.Equal(state.SessionIdleSeconds), "session_life_seconds": plan.SessionLifeSeconds.Equal(state.SessionLifeSeconds),
		"key_life_max_seconds": plan.KeyLifeMaxSeconds.Equal(state.KeyLifeMaxSeconds), "key_networks_required": plan.KeyNetworksRequired.Equal(state.KeyNetworksRequired),
		"forbid_personal_keys_for_jobs": plan.ForbidPersonalKeysForJobs.Equal(state.ForbidPersonalKeysForJobs),
		"audit_payload_reads":           plan.AuditPayloadReads.Equal(state.AuditPayloadReads), "audit_retention_seconds": plan.AuditRetentionSeconds.Equal(state.AuditRetentionSeconds),
	})
	if len(mask.GetPaths()) == 0 {
		o.save(state)
		return
	}
	r.put(ctx, o, plan, state.ETag.ValueString(), mask.GetPaths())
}

func (r *tenantSettingsResource) put(ctx context.Context, o operation[tenantSettingsModel], m tenantSettingsModel, etag string, paths []string) {
	want := &cloudv1.SignInPolicy{
		RequireSso: m.RequireSSO.ValueBool(), RequireSecondFactor: m.RequireSecondFactor.ValueBool(), SessionIdleSeconds: m.SessionIdleSeconds.ValueInt64(),
		SessionLifeSeconds: m.SessionLifeSeconds.ValueInt64(), KeyLifeMaxSeconds: m.KeyLifeMaxSeconds.ValueInt64(),
		KeyNetworksRequired: m.KeyNetworksRequired.ValueBool(), ForbidPersonalKeysForJobs: m.ForbidPersonalKeysForJobs.ValueBool(),
		AuditPayloadReads: m.AuditPayloadReads.ValueBool(), AuditRetentionSeconds: m.AuditRetentionSeconds.ValueInt64(),
	}
	res, err := r.cloud.Policy().UpdateSignInPolicy(ctx, connect.NewRequest(&cloudv1.UpdateSignInPolicyRequest{
		Policy: want, Etag: etag, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
	}))
	if err == nil {
		o.save(settingsFrom(res.Msg.GetPolicy()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		var now tenantSettingsModel
		if getErr := r.read(ctx, &now, o.diags); getErr == nil {
			id, tag := now.ID, now.ETag
			now.ID, now.ETag = m.ID, m.ETag
			if now == m {
				now.ID, now.ETag = id, tag
				o.save(now)
				return
			}
		}
	}
	addFieldErrors(o.diags, "change the tenant's settings", err, tenantSettingsFields())
}

// remove turns everything off.
func (r *tenantSettingsResource) remove(ctx context.Context, _ tenantSettingsModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Policy().UpdateSignInPolicy(ctx, connect.NewRequest(&cloudv1.UpdateSignInPolicyRequest{
		Policy: &cloudv1.SignInPolicy{}, UpdateMask: &fieldmaskpb.FieldMask{Paths: policyPaths()},
	}))
	if err != nil {
		addError(diags, "turn the tenant's settings off", err)
	}
}

// adopt takes any id: a tenant has one.
func (r *tenantSettingsResource) adopt(ctx context.Context, _ string, diags *diag.Diagnostics) (m tenantSettingsModel, ok bool) {
	err := r.read(ctx, &m, diags)
	if err != nil {
		addError(diags, "import the tenant's settings", err)
	}
	return m, err == nil
}

func settingsFrom(p *cloudv1.SignInPolicy) tenantSettingsModel {
	return tenantSettingsModel{
		ID: types.StringValue(p.GetTenantId()), RequireSSO: types.BoolValue(p.GetRequireSso()), RequireSecondFactor: types.BoolValue(p.GetRequireSecondFactor()),
		SessionIdleSeconds: types.Int64Value(p.GetSessionIdleSeconds()), SessionLifeSeconds: types.Int64Value(p.GetSessionLifeSeconds()),
		KeyLifeMaxSeconds: types.Int64Value(p.GetKeyLifeMaxSeconds()), KeyNetworksRequired: types.BoolValue(p.GetKeyNetworksRequired()),
		ForbidPersonalKeysForJobs: types.BoolValue(p.GetForbidPersonalKeysForJobs()),
		AuditPayloadReads:         types.BoolValue(p.GetAuditPayloadReads()), AuditRetentionSeconds: types.Int64Value(p.GetAuditRetentionSeconds()), ETag: types.StringValue(p.GetEtag()),
	}
}
