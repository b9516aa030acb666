package provider

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

const (
	overlapDefault = "24h"
	overlapUsual   = 24 * time.Hour // overlapDefault.
	overlapMax     = 7 * 24 * time.Hour
)

type apiKeyResource struct{ managed[apiKeyModel] }

type apiKeyModel struct {
	KeyID           types.String         `tfsdk:"key_id"`
	TenantID        types.String         `tfsdk:"tenant_id"`
	Name            types.String         `tfsdk:"name"`
	Kind            types.String         `tfsdk:"kind"`
	Namespaces      types.Set            `tfsdk:"namespaces"`
	OwnerID         types.String         `tfsdk:"owner_id"`
	Roles           types.Set            `tfsdk:"roles"`
	Permissions     types.Set            `tfsdk:"permissions"`
	Queues          types.Set            `tfsdk:"queues"`
	CIDRs           types.Set            `tfsdk:"cidrs"`
	ExpiresAt       timetypes.RFC3339    `tfsdk:"expires_at"`
	SecretWO        types.String         `tfsdk:"secret_wo"`
	SecretWOVersion types.Int64          `tfsdk:"secret_wo_version"`
	RotationOverlap timetypes.GoDuration `tfsdk:"rotation_overlap"`
	Prefix          types.String         `tfsdk:"prefix"`
	Versions        types.List           `tfsdk:"versions"`
	Retiring        types.List           `tfsdk:"retiring"`
	Status          types.String         `tfsdk:"status"`
	Generation      types.Int64          `tfsdk:"generation"`
	ETag            types.String         `tfsdk:"etag"`
	CreatedAt       types.String         `tfsdk:"created_at"`
	CreatedBy       types.String         `tfsdk:"created_by"`
}

func newAPIKey() resource.Resource {
	r := new(apiKeyResource)
	r.managed = managed[apiKeyModel]{
		typeName: "corvo_api_key", schema: apiKeySchema, identity: identity{attribute: "key_id", changes: true}, called: func(m apiKeyModel) string { return "API key " + m.KeyID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func apiKeySchema() schema.Schema {
	stable := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return schema.Schema{
		Version: 1, // 0 had tenant_role.
		MarkdownDescription: "An API key whose secret is generated on this machine by the ephemeral resource `corvo_api_key_secret`. Corvo Cloud only receives the key's " +
			"id and SHA-256 digest; the key itself is never stored in a plan or the state, and can't be read back.\n\n" +
			"**What the key may do.** A key belongs to a service account and may do what that may. Choose one with `owner_id`, and give it roles with `corvo_role_binding`; or set " +
			"`roles`, and a service account is created for this key alone and deleted with it. `permissions`, `namespaces`, `queues` and `cidrs` narrow the key further.\n\n" +
			"**Rotation.** Increase `secret_wo_version`: the key gets the secret of that run, and the old secret keeps working for `rotation_overlap`, so that " +
			"you can switch everything that uses it. As long as the version stays the same, the secret is ignored, so plans stay empty although the " +
			"ephemeral resource generates another key in every run. If the new secret has another key id, as it usually does, the rotation creates a new key: " +
			"`key_id` changes, and `retiring` lists the old key until it has expired. Destroying the resource revokes all of them at once.",
		Attributes: map[string]schema.Attribute{
			"key_id": schema.StringAttribute{Computed: true, MarkdownDescription: "`key_…`, which is part of the key itself."},
			"tenant_id": schema.StringAttribute{
				Computed: true, PlanModifiers: stable, MarkdownDescription: "Id of the tenant (`tn_…`).",
			},
			"name": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{displayName()},
				MarkdownDescription: "Name shown to people; doesn't have to be unique.",
			},
			"kind": schema.StringAttribute{
				Required:      true,
				Validators:    []validator.String{keyKind()},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "`dp` for jobs at the tenant URL, `mg` for management (the control API, and the tenant URL). Changing it replaces the key. " +
					"A personal key (`pat`) belongs to a person, who creates it in the console or with `corvo keys create`.",
			},
			"owner_id": schema.StringAttribute{
				Optional:      true,
				Computed:      true,
				Validators:    []validator.String{serviceAccountID()},
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "Id of the service account (`sa_…`) that the key belongs to. Set either this or `roles`. " +
					"Changing it replaces the key.",
			},
			"roles": schema.SetAttribute{
				Optional:    true,
				ElementType: types.StringType,
				Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplaceIf(replacesKey,
					"Changing it replaces the key.", "Changing it replaces the key.")},
				MarkdownDescription: "Names or ids of the roles of a service account that is created for this key alone: in `namespaces` if the key has some, else in the whole " +
					"tenant. Set either this or `owner_id`. Can't exceed what the provider's token can do. Changing it replaces the key, as does adding to the " +
					"`namespaces` of a key with roles. The service doesn't tell roles and later changes of that service account apart, so this isn't read back: after an " +
					"import it is null, and the first value is only recorded. The service account of an imported key isn't deleted with the key.",
			},
			"namespaces": schema.SetAttribute{
				Optional:    true,
				ElementType: types.StringType,
				Validators:  []validator.Set{setvalidator.SizeAtMost(64), setvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
				MarkdownDescription: "Ids (`ns_…`, preferred: `corvo_namespace.….id`) or names of the namespaces the key can use. " +
					"Default: every namespace in which its owner has a role.",
			},
			"permissions": schema.SetAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.ValueStringsAre(permissionName())},
				MarkdownDescription: "The only permissions of the owner that the key has, for example `job.enqueue`; `corvo_permissions` lists them. Default: all of the owner's.",
			},
			"queues": schema.SetAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.SizeAtMost(64), setvalidator.ValueStringsAre(queuePattern())},
				MarkdownDescription: "The only queues the key can use: names, or beginnings of names followed by `*`. Default: all queues.",
			},
			"cidrs": schema.SetAttribute{
				Optional:    true,
				ElementType: types.StringType,
				Validators:  []validator.Set{setvalidator.SizeAtMost(32), setvalidator.ValueStringsAre(networkForm{})},
				MarkdownDescription: "The only networks from which the key works, for example `203.0.113.0/24` or `2001:db8::/32`; a single address is a network of one. " +
					"Default: from anywhere.",
			},
			"expires_at": schema.StringAttribute{
				Optional:            true,
				CustomType:          timetypes.RFC3339Type{},
				MarkdownDescription: "When the key expires (RFC 3339). Default: never.",
			},
			"secret_wo": schema.StringAttribute{
				Required:            true,
				WriteOnly:           true,
				Sensitive:           true,
				Validators:          []validator.String{wellFormedKey{}},
				MarkdownDescription: "The whole key, from `ephemeral.corvo_api_key_secret.….key`. Write-only: used when the key is created and when `secret_wo_version` changes, and never stored.",
			},
			"secret_wo_version": schema.Int64Attribute{
				Required:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
				MarkdownDescription: "Any number; changing it rotates the key. After an import, the first number is only recorded.",
			},
			"rotation_overlap": overlapAttribute("secret"),
			"prefix":           schema.StringAttribute{Computed: true, MarkdownDescription: "Public prefix of the key, `corvo_<kind>_<id>`, to recognize it by."},
			"versions": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The secrets that currently work, oldest first, at most two.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"created_at": schema.StringAttribute{Computed: true, MarkdownDescription: "RFC 3339."},
					"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: "RFC 3339; null if it expires with the key."},
				}},
			},
			"retiring": retiringAttribute("Previous keys with other ids that still work."),
			"status": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`ready` once every proxy uses the latest change, `pending` until then. An apply waits while it is `pending`.",
			},
			"generation": schema.Int64Attribute{Computed: true, MarkdownDescription: "Increases with every change that the data plane has to apply."},
			"etag":       schema.StringAttribute{Computed: true, MarkdownDescription: "Changes with every update; an apply refuses to overwrite an update it hasn't seen."},
			"created_at": schema.StringAttribute{Computed: true, MarkdownDescription: "RFC 3339."},
			"created_by": schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the user or key that created it."},
		},
	}
}

func displayName() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^\S(.*\S)?$`), "can't be empty, or start or end with a space")
}

func keyID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^key_[0-9A-Za-z]{12}$`), "must be the id of an API key: key_ and 12 letters or digits")
}

func keyFields() attributes {
	return attributes{
		"name": "name", "kind": "kind", "owner": "owner_id", "roles": "roles", "namespaces": "namespaces", "permissions": "permissions", "queues": "queues",
		"cidrs": "cidrs", "expires_at": "expires_at",
		"key_id": "secret_wo", "digest": "secret_wo", "overlap_seconds": "rotation_overlap",
	}
}

// wellFormedKey checks the checksum, and never repeats the text.
type wellFormedKey struct{}

// Description implements validator.Describer.
func (wellFormedKey) Description(context.Context) string { return "a whole API key" }

// MarkdownDescription implements validator.Describer.
func (v wellFormedKey) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (wellFormedKey) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := apikey.Parse(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not an API key",
			err.Error()+". Use ephemeral.corvo_api_key_secret.<name>.key.")
	}
}

// ValidateConfig checks what one attribute means for another.
func (r *apiKeyResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m apiKeyModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case m.OwnerID.IsUnknown() || m.Roles.IsUnknown():
	case m.OwnerID.IsNull() && m.Roles.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("owner_id"), "The key belongs to nobody",
			"Set owner_id to a service account, or roles for one that is created for this key alone, for example roles = [\"producer\"].")
	case !m.OwnerID.IsNull() && !m.Roles.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("roles"), "The key has both an owner and roles",
			"A key may do what its owner may. Give the service account roles with corvo_role_binding, or leave owner_id out.")
	}
	if m.Kind.IsUnknown() || m.Kind.IsNull() {
		return
	}
	if k, err := apikey.Parse(m.SecretWO.ValueString()); err == nil && string(k.Kind()) != m.Kind.ValueString() {
		resp.Diagnostics.AddAttributeError(path.Root("secret_wo"), "Doesn't apply to kind "+m.Kind.ValueString(), fmt.Sprintf("The secret is for a key of kind %s. Set the same kind in ephemeral.corvo_api_key_secret.", k.Kind()))
	}
}

// ModifyPlan says what a rotation changes, and goes on with what is unfinished.
func (r *apiKeyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	widened, err := r.widens(ctx, plan, state)
	if err != nil {
		addError(&resp.Diagnostics, "look up the namespaces of API key "+state.KeyID.ValueString(), err)
		return
	}
	if widened {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("namespaces"))
	}
	warnSameVersion(plan, state, widened, &resp.Diagnostics)
	if !rotates(plan, state) {
		plan.KeyID, plan.Prefix, plan.CreatedAt, plan.CreatedBy = state.KeyID, state.Prefix, state.CreatedAt, state.CreatedBy
		plan.Retiring = state.Retiring
	}
	if unfinished(state.Retiring) {
		plan.Retiring = types.ListUnknown(retiringType())
	}
	if unfinished(state.Retiring) || state.Status.ValueString() == statusPending {
		plan.Status, plan.Generation, plan.ETag = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown()
		plan.Versions = types.ListUnknown(versionType())
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

// sameVersion is what a new secret under an old number means for those that keep it.
const sameVersion = "The places that store the secret only take the new one when their own version changes: in the same apply, increase secret_wo_version here and the version of " +
	"each write-only argument that gets the secret."

// warnSameVersion: a key that is replaced has a new secret, whatever its number says.
func warnSameVersion(plan, state apiKeyModel, widened bool, diags *diag.Diagnostics) {
	replaced := !plan.Kind.Equal(state.Kind) || !plan.OwnerID.IsUnknown() && !plan.OwnerID.Equal(state.OwnerID) ||
		widened || !state.SecretWOVersion.IsNull() && !plan.Roles.Equal(state.Roles)
	if replaced && plan.SecretWOVersion.Equal(state.SecretWOVersion) {
		diags.AddAttributeWarning(path.Root("secret_wo_version"), "The key is replaced, but secret_wo_version stays the same", "The new key has a new secret. "+sameVersion)
	}
}

// rotates: an imported key has no number yet, and its first one is only noted.
func rotates(plan, state apiKeyModel) bool {
	return !state.SecretWOVersion.IsNull() && !plan.SecretWOVersion.Equal(state.SecretWOVersion)
}

func (r *apiKeyResource) create(ctx context.Context, o operation[apiKeyModel], m apiKeyModel) {
	secret := secretFrom(ctx, o.config, apikey.Kind(m.Kind.ValueString()), o.diags)
	if o.diags.HasError() {
		return
	}
	key, err := r.insert(ctx, m, secret, m.OwnerID.ValueString(), toStrings(m.Roles))
	if err != nil {
		addFieldErrors(o.diags, "create API key "+m.Name.ValueString(), err, keyFields())
		return
	}
	m.Retiring = noRetiring()
	m.fill(key, m.Namespaces)
	o.save(m)
	m.fill(r.await(ctx, key, o.diags), m.Namespaces)
	o.save(m)
}

// secretFrom takes the key out of the configuration: the only place where it stands.
func secretFrom(ctx context.Context, config tfsdk.Config, kind apikey.Kind, diags *diag.Diagnostics) apikey.Key {
	var text types.String
	diags.Append(config.GetAttribute(ctx, path.Root("secret_wo"), &text)...)
	if diags.HasError() {
		return apikey.Key{}
	}
	k, err := apikey.Parse(text.ValueString())
	if err == nil && k.Kind() != kind {
		err = fmt.Errorf("the secret is for a key of kind %s, and not %s: set kind = %q in ephemeral.corvo_api_key_secret", k.Kind(), kind, kind)
	}
	if err != nil {
		diags.AddAttributeError(path.Root("secret_wo"), "Invalid secret", err.Error())
	}
	return k
}

// insert hands over id and digest. The request id follows from the key, so a repeated call
// meets its own first one; a later run forms another key and has nothing to meet.
func (r *apiKeyResource) insert(ctx context.Context, m apiKeyModel, secret apikey.Key, owner string, roles []string) (*cloudv1.ApiKey, error) {
	digest := secret.Digest()
	res, err := r.cloud.Keys().CreateApiKey(ctx, connect.NewRequest(&cloudv1.CreateApiKeyRequest{
		RequestId: deriveRequestID("create key", secret.ID(), fmt.Sprintf("%x", digest)),
		Name:      m.Name.ValueString(), Kind: toKind(m.Kind), Owner: owner, Roles: roles,
		Namespaces: toStrings(m.Namespaces), Permissions: toStrings(m.Permissions), Queues: toStrings(m.Queues), Cidrs: toStrings(m.CIDRs),
		ExpiresAt: toTimestamp(m.ExpiresAt), KeyId: secret.ID(), Digest: digest[:],
	}))
	if err != nil {
		return nil, err
	}
	key := res.Msg.GetApiKey()
	if _, err := r.get(ctx, key.GetId()); cloud.Is(err, cloud.NotFound) {
		return nil, errRevoked("CreateApiKey", "key_id")
	}
	return key, nil
}

// errRevoked: the service keeps an answer for a day, and gives it again if the secret comes
// from somewhere that keeps it, although the key was revoked since.
func errRevoked(call, field string) error {
	return &cloud.Error{Kind: cloud.Invalid, Call: call, Fields: []cloud.Field{{Name: field, Problem: "was revoked, and never works again; use a new secret"}}}
}

func (r *apiKeyResource) read(ctx context.Context, m *apiKeyModel, diags *diag.Diagnostics) error {
	key, err := r.get(ctx, m.KeyID.ValueString())
	if cloud.Is(err, cloud.NotFound) {
		diags.AddWarning("API key "+m.Name.ValueString()+" is gone",
			fmt.Sprintf("%s was revoked outside of Terraform, so the next apply creates a new key with a new secret. %s", m.KeyID.ValueString(), sameVersion))
	}
	if err != nil {
		return err
	}
	namespaces, err := namespacesAsWritten(ctx, r.cloud, m.Namespaces, key.GetNamespaceIds())
	if err != nil {
		return err
	}
	m.fill(key, namespaces)
	m.Retiring = stillRetiring(m.Retiring, time.Now())
	return nil
}

// update changes the key, then rotates it, then waits; each step leaves a state from which
// the next apply goes on.
func (r *apiKeyResource) update(ctx context.Context, o operation[apiKeyModel], plan, state apiKeyModel) {
	var secret apikey.Key
	if rotates(plan, state) {
		secret = secretFrom(ctx, o.config, apikey.Kind(plan.Kind.ValueString()), o.diags)
	}
	if o.diags.HasError() {
		return
	}
	key, err := r.change(ctx, plan, state)
	if err != nil {
		addFieldErrors(o.diags, "change API key "+state.KeyID.ValueString(), err, keyFields())
		return
	}
	version := plan.SecretWOVersion
	plan.Retiring, plan.SecretWOVersion = state.Retiring, state.SecretWOVersion
	plan.fill(key, plan.Namespaces)
	o.save(plan)
	if !secret.IsZero() {
		if key, err = r.rotate(ctx, &plan, key, secret); err != nil {
			addFieldErrors(o.diags, "rotate API key "+state.KeyID.ValueString(), err, keyFields())
			return
		}
	}
	plan.SecretWOVersion = version
	plan.fill(key, plan.Namespaces)
	o.save(plan)
	if plan.Retiring, err = retire(ctx, plan.Retiring, plan.overlap(), r.end); err != nil {
		addError(o.diags, "revoke the previous key of API key "+plan.KeyID.ValueString()+" (the next apply tries again)", err)
	}
	o.save(plan)
	plan.fill(r.await(ctx, key, o.diags), plan.Namespaces)
	o.save(plan)
}

func (r *apiKeyResource) change(ctx context.Context, plan, state apiKeyModel) (*cloudv1.ApiKey, error) {
	id := state.KeyID.ValueString()
	req := &cloudv1.UpdateApiKeyRequest{
		KeyId: id, Etag: state.ETag.ValueString(), UpdateMask: &fieldmaskpb.FieldMask{}, Name: plan.Name.ValueString(),
		Namespaces: toStrings(plan.Namespaces), Permissions: toStrings(plan.Permissions), Queues: toStrings(plan.Queues), Cidrs: toStrings(plan.CIDRs),
		ExpiresAt: toTimestamp(plan.ExpiresAt),
	}
	for _, f := range []struct {
		name string
		same bool
	}{
		{"name", plan.Name.Equal(state.Name)},
		{"namespaces", slices.Equal(toStrings(plan.Namespaces), toStrings(state.Namespaces))},
		{"permissions", slices.Equal(toStrings(plan.Permissions), toStrings(state.Permissions))},
		{"queues", slices.Equal(toStrings(plan.Queues), toStrings(state.Queues))},
		{"cidrs", slices.Equal(toStrings(plan.CIDRs), toStrings(state.CIDRs))},
		{"expires_at", plan.ExpiresAt.Equal(state.ExpiresAt)},
	} {
		if !f.same {
			req.UpdateMask.Paths = append(req.UpdateMask.Paths, f.name)
		}
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return r.get(ctx, id)
	}
	res, err := r.cloud.Keys().UpdateApiKey(ctx, connect.NewRequest(req))
	if err == nil {
		return res.Msg.GetApiKey(), nil
	}
	if isEtagConflict(err) {
		// Perhaps the change is our own, and only its answer was lost.
		if key, getErr := r.get(ctx, id); getErr == nil && r.isAsPlanned(ctx, key, plan) {
			return key, nil
		}
	}
	return nil, err
}

func (r *apiKeyResource) isAsPlanned(ctx context.Context, key *cloudv1.ApiKey, plan apiKeyModel) bool {
	namespaces, err := namespacesAsWritten(ctx, r.cloud, plan.Namespaces, key.GetNamespaceIds())
	now := plan
	now.fill(key, namespaces)
	return err == nil && now.Name.Equal(plan.Name) && now.Namespaces.Equal(plan.Namespaces) && now.Permissions.Equal(plan.Permissions) &&
		now.Queues.Equal(plan.Queues) && now.CIDRs.Equal(plan.CIDRs) && now.ExpiresAt.Equal(plan.ExpiresAt)
}

// rotate gives the key a second secret, or, if the secret's id is another one, makes a
// key that takes the old one's place.
func (r *apiKeyResource) rotate(ctx context.Context, plan *apiKeyModel, key *cloudv1.ApiKey, secret apikey.Key) (*cloudv1.ApiKey, error) {
	if secret.ID() != key.GetId() {
		successor, err := r.insert(ctx, *plan, secret, key.GetOwnerId(), nil) // The same owner, whoever made it.
		if err != nil {
			return nil, err
		}
		plan.Retiring = addRetiring(plan.Retiring, key.GetId())
		return successor, nil
	}
	digest := secret.Digest()
	res, err := r.cloud.Keys().RotateApiKey(ctx, connect.NewRequest(&cloudv1.RotateApiKeyRequest{
		KeyId: key.GetId(), RequestId: deriveRequestID("rotate key", key.GetId(), fmt.Sprintf("%x", digest)),
		OverlapSeconds: int64(plan.overlap().Seconds()), Digest: digest[:],
	}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetApiKey(), nil
}

// end lets a key work for overlap longer; nil if it works no more.
func (r *apiKeyResource) end(ctx context.Context, id string, overlap time.Duration) (*timestamppb.Timestamp, error) {
	if overlap < time.Second {
		return nil, r.revoke(ctx, id)
	}
	for {
		key, err := r.get(ctx, id)
		if cloud.Is(err, cloud.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		at := time.Now().Add(overlap).Truncate(time.Millisecond)
		if e := key.GetExpiresAt(); e != nil && e.AsTime().Before(at) {
			return e, nil
		}
		res, err := r.cloud.Keys().UpdateApiKey(ctx, connect.NewRequest(&cloudv1.UpdateApiKeyRequest{
			KeyId: id, Etag: key.GetEtag(), ExpiresAt: timestamppb.New(at), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"expires_at"}},
		}))
		if isEtagConflict(err) && ctx.Err() == nil {
			continue // Our own lost answer, or somebody's change of its name: look again.
		}
		if err != nil {
			return nil, err
		}
		return res.Msg.GetApiKey().GetExpiresAt(), nil
	}
}

// remove ends the key and its predecessors.
func (r *apiKeyResource) remove(ctx context.Context, m apiKeyModel, diags *diag.Diagnostics) {
	ids := []string{m.KeyID.ValueString()}
	for _, item := range retiringItems(m.Retiring) {
		ids = append(ids, item.KeyID.ValueString())
	}
	for _, id := range ids {
		if err := r.revoke(ctx, id); err != nil {
			addError(diags, "revoke API key "+id, err)
		}
	}
}

func (r *apiKeyResource) revoke(ctx context.Context, id string) error {
	_, err := r.cloud.Keys().RevokeApiKey(ctx, connect.NewRequest(&cloudv1.RevokeApiKeyRequest{KeyId: id, AllowMissing: true}))
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	return err
}

// adopt takes key_….
func (r *apiKeyResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (m apiKeyModel, ok bool) {
	if _, err := apikey.Parse(id); err == nil {
		diags.AddError("Invalid import ID", "This is a whole key with its secret. Import it by its id, key_<12 characters>. The secret may now be in your shell history or logs: rotate the key.")
		return m, false
	}
	key, err := r.get(ctx, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import API key %q (use its id, key_…)", apikey.Redact(id)), err)
		return m, false
	}
	if key.GetKind() == cloudv1.KeyKind_KEY_KIND_PERSONAL {
		diags.AddError("Can't manage a personal key", fmt.Sprintf("%s belongs to %s, and only they can change it. Terraform manages keys of service accounts.", key.GetId(), key.GetOwner()))
		return m, false
	}
	return importedKey(key), true
}

// get finds a key that has not been revoked.
func (r *apiKeyResource) get(ctx context.Context, id string) (*cloudv1.ApiKey, error) {
	res, err := r.cloud.Keys().GetApiKey(ctx, connect.NewRequest(&cloudv1.GetApiKeyRequest{KeyId: id}))
	if err != nil {
		return nil, err
	}
	if res.Msg.GetApiKey().GetRevokedAt() != nil {
		return nil, &cloud.Error{Kind: cloud.NotFound, Call: "GetApiKey", Message: "the key was revoked"}
	}
	return res.Msg.GetApiKey(), nil
}

// await returns the key as it is once it is ready, or as it was last seen with a warning.
// What somebody else changed during the wait is left for the next plan to show.
func (r *apiKeyResource) await(ctx context.Context, key *cloudv1.ApiKey, diags *diag.Diagnostics) *cloudv1.ApiKey {
	last, err := awaitReady(ctx, r.cloud, key, func(ctx context.Context) (*cloudv1.ApiKey, error) { return r.get(ctx, key.GetId()) })
	if err != nil {
		warnPending(diags, "API key "+key.GetId(), err)
	}
	if last.GetEtag() != key.GetEtag() {
		key.Sync = last.GetSync()
		return key
	}
	return last
}

// namespacesAsWritten keeps the user's names as long as they mean the same ids.
func namespacesAsWritten(ctx context.Context, c *cloud.Client, prior types.Set, ids []string) (types.Set, error) {
	meant := map[string]bool{}
	for _, text := range toStrings(prior) {
		if isNamespaceID(text) {
			meant[text] = true
			continue
		}
		ns, err := findNamespace(ctx, c, text)
		switch {
		case cloud.Is(err, cloud.NotFound):
			return toSet(ids, prior), nil
		case err != nil:
			return prior, err
		}
		meant[ns.GetId()] = true
	}
	if len(meant) != len(ids) || len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return !meant[id] }) {
		return toSet(ids, prior), nil
	}
	return prior, nil
}

func (m apiKeyModel) overlap() time.Duration { return orDuration(m.RotationOverlap, overlapUsual) }

// fill takes what the service says. Namespaces are the user's words for them.
func (m *apiKeyModel) fill(key *cloudv1.ApiKey, namespaces types.Set) {
	m.KeyID = types.StringValue(key.GetId())
	m.TenantID = types.StringValue(key.GetTenantId())
	m.Name = types.StringValue(key.GetName())
	m.Kind = fromKind(key.GetKind())
	m.OwnerID = types.StringValue(key.GetOwnerId())
	m.Namespaces = namespaces
	m.Permissions = toSet(key.GetPermissions(), m.Permissions)
	m.Queues = toSet(key.GetQueues(), m.Queues)
	m.CIDRs = networksAsWritten(key.GetCidrs(), m.CIDRs)
	m.ExpiresAt = instant(key.GetExpiresAt(), m.ExpiresAt)
	m.SecretWO = types.StringNull()
	m.Prefix = types.StringValue(key.GetPrefix())
	m.Versions = toVersions(key.GetVersions())
	m.Status = status(key.GetSync())
	m.Generation = types.Int64Value(int64(key.GetGeneration())) // Counts from 1.
	m.ETag = types.StringValue(key.GetEtag())
	m.CreatedAt = timestamp(key.GetCreatedAt())
	m.CreatedBy = types.StringValue(key.GetCreatedBy())
}

var (
	_ resource.ResourceWithModifyPlan     = (*apiKeyResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*apiKeyResource)(nil)
	_ resource.ResourceWithValidateConfig = (*apiKeyResource)(nil)
)
