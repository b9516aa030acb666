package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type scimTokenResource struct{ managed[scimTokenModel] }

type scimTokenModel struct {
	ID              types.String         `tfsdk:"id"`
	ConnectionID    types.String         `tfsdk:"connection_id"`
	ExpiresAt       timetypes.RFC3339    `tfsdk:"expires_at"`
	SecretWO        types.String         `tfsdk:"secret_wo"`
	SecretWOVersion types.Int64          `tfsdk:"secret_wo_version"`
	RotationOverlap timetypes.GoDuration `tfsdk:"rotation_overlap"`
	EndpointURL     types.String         `tfsdk:"endpoint_url"`
	Prefix          types.String         `tfsdk:"prefix"`
	Retiring        types.List           `tfsdk:"retiring"`
	CreatedAt       types.String         `tfsdk:"created_at"`
	CreatedBy       types.String         `tfsdk:"created_by"`
}

func newSCIMToken() resource.Resource {
	r := new(scimTokenResource)
	r.managed = managed[scimTokenModel]{
		typeName: "corvo_scim_token", schema: scimTokenSchema, identity: identity{changes: true}, called: func(m scimTokenModel) string { return "SCIM token " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func scimTokenSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A token with which a company's directory (Okta, Microsoft Entra ID, …) keeps the users and groups of an SSO connection by SCIM 2.0. The token is generated on this " +
			"machine by the ephemeral resource `corvo_api_key_secret` with `kind = \"scim\"`; Corvo Cloud only receives its id and SHA-256 digest, and neither a plan nor the state contains it. " +
			"Enter `endpoint_url` and the token at the directory.\n\n" +
			"**Rotation.** Increase `secret_wo_version`: the token of that run takes over, and the old one keeps working for `rotation_overlap`; `retiring` lists it. A connection has two tokens " +
			"at most, so rotate again only after that. Destroying the resource revokes all of them at once; what the directory has made stays.\n\n" +
			"Whoever has the token decides who is in the directory's groups, so the provider's token must have every role that the connection and these groups give. It must not have networks either, or end before this one does.",
		Attributes: map[string]schema.Attribute{
			"id":            schema.StringAttribute{Computed: true, MarkdownDescription: "`key_…`, which is part of the token itself. Changes with a rotation."},
			"connection_id": fixedText(true, "Id of the SSO connection (`sso_…`). Changing it replaces the token.", connectionID()),
			"expires_at": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.RFC3339Type{},
				MarkdownDescription: "When the token expires (RFC 3339), at most 730 days from now. Default: 365 days after it is created or rotated. An expired token needs a rotation.",
			},
			"secret_wo": schema.StringAttribute{
				Required: true, WriteOnly: true, Sensitive: true, Validators: []validator.String{wellFormedKey{}},
				MarkdownDescription: "The whole token, from `ephemeral.corvo_api_key_secret.….key`. Write-only: used when the token is created and when `secret_wo_version` changes, and never stored.",
			},
			"secret_wo_version": schema.Int64Attribute{
				Required: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
				MarkdownDescription: "Any number; changing it rotates the token. After an import, the first number is only recorded.",
			},
			"rotation_overlap": overlapAttribute("token"),
			"endpoint_url":     stableText("The SCIM endpoint, to be entered at the directory."),
			"prefix":           changingText("Public prefix of the token, `corvo_scim_<id>`, to recognize it by."),
			"retiring":         retiringAttribute("Previous tokens that still work."),
			"created_at":       changingText("RFC 3339."),
			"created_by":       changingText("Id of the user or service account that created it."),
		},
	}
}

func connectionID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^sso_[0-9A-Z]{26}$`), "must be the id of an SSO connection (sso_…), for example corvo_sso_connection.….id")
}

func scimTokenFields() attributes {
	return attributes{"connection_id": "connection_id", "expires_at": "expires_at", "token_id": "secret_wo", "digest": "secret_wo"}
}

func (m scimTokenModel) rotates(state scimTokenModel) bool {
	return !state.SecretWOVersion.IsNull() && !m.SecretWOVersion.Equal(state.SecretWOVersion)
}

// ModifyPlan says what a rotation changes, and goes on with what is unfinished.
func (r *scimTokenResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state, config scimTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.ConnectionID.Equal(state.ConnectionID) {
		if plan.SecretWOVersion.Equal(state.SecretWOVersion) {
			resp.Diagnostics.AddAttributeWarning(path.Root("secret_wo_version"), "The token is replaced, but secret_wo_version stays the same", "The new token has a new secret. "+sameVersion)
		}
		return
	}
	if !plan.rotates(state) {
		plan.ID, plan.Prefix, plan.CreatedAt, plan.CreatedBy, plan.Retiring = state.ID, state.Prefix, state.CreatedAt, state.CreatedBy, state.Retiring
		if config.ExpiresAt.IsNull() {
			plan.ExpiresAt = state.ExpiresAt
		}
	}
	if unfinished(state.Retiring) {
		plan.Retiring = types.ListUnknown(retiringType())
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func (r *scimTokenResource) create(ctx context.Context, o operation[scimTokenModel], m scimTokenModel) {
	secret := secretFrom(ctx, o.config, apikey.SCIM, o.diags)
	if o.diags.HasError() {
		return
	}
	m.Retiring = noRetiring()
	err := r.fillEndpoint(ctx, &m)
	if err == nil {
		err = r.insert(ctx, &m, secret)
	}
	if err != nil {
		addFieldErrors(o.diags, "create a SCIM token for "+m.ConnectionID.ValueString(), err, scimTokenFields())
		return
	}
	o.save(m)
}

func (r *scimTokenResource) fillEndpoint(ctx context.Context, m *scimTokenModel) error {
	res, err := r.cloud.Directory().GetDirectorySync(ctx, connect.NewRequest(&cloudv1.GetDirectorySyncRequest{ConnectionId: m.ConnectionID.ValueString()}))
	if err == nil {
		m.EndpointURL = types.StringValue(res.Msg.GetSync().GetEndpointUrl())
	}
	return err
}

// insert hands over id and digest. The request id follows from the token, so a repeated call
// meets its own first one.
func (r *scimTokenResource) insert(ctx context.Context, m *scimTokenModel, secret apikey.Key) error {
	digest := secret.Digest()
	res, err := r.cloud.Directory().CreateScimToken(ctx, connect.NewRequest(&cloudv1.CreateScimTokenRequest{
		RequestId: deriveRequestID("create scim token", secret.ID(), fmt.Sprintf("%x", digest)), ConnectionId: m.ConnectionID.ValueString(),
		ExpiresAt: toTimestamp(m.ExpiresAt), TokenId: secret.ID(), Digest: digest[:],
	}))
	if err != nil {
		return withHelp(err, "LIMIT", "Wait until the previous token has expired (retiring), or revoke it with corvo directory revoke-token, and apply again.")
	}
	if _, err := r.get(ctx, m.ConnectionID.ValueString(), res.Msg.GetToken().GetId()); cloud.Is(err, cloud.NotFound) {
		return errRevoked("CreateScimToken", "token_id")
	}
	m.fill(res.Msg.GetToken())
	return nil
}

func (r *scimTokenResource) read(ctx context.Context, m *scimTokenModel, diags *diag.Diagnostics) error {
	v, err := r.get(ctx, m.ConnectionID.ValueString(), m.ID.ValueString())
	if cloud.Is(err, cloud.NotFound) {
		diags.AddWarning("SCIM token "+m.ID.ValueString()+" is gone",
			"It was revoked outside of Terraform, or its connection was deleted, so the next apply creates a new one with a new secret. "+sameVersion)
	}
	if err != nil {
		return err
	}
	if v.GetExpiresAt().AsTime().Before(time.Now()) {
		diags.AddWarning("SCIM token "+v.GetId()+" has expired", "The directory's calls are refused. Increase secret_wo_version to rotate the token, and enter the new one at the directory.")
	}
	m.fill(v)
	m.Retiring = stillRetiring(m.Retiring, time.Now())
	return r.fillEndpoint(ctx, m)
}

// get finds a token of a connection that has not been revoked.
func (r *scimTokenResource) get(ctx context.Context, connection, id string) (*cloudv1.ScimToken, error) {
	res, err := r.cloud.Directory().ListScimTokens(ctx, connect.NewRequest(&cloudv1.ListScimTokensRequest{ConnectionId: connection}))
	if err != nil {
		return nil, err
	}
	for _, v := range res.Msg.GetTokens() {
		if v.GetId() == id {
			return v, nil
		}
	}
	return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListScimTokens", Message: fmt.Sprintf("%s has no token %s", connection, apikey.Redact(id))}
}

// update moves the end, then rotates, then ends the predecessor; each step leaves a state
// from which the next apply goes on.
func (r *scimTokenResource) update(ctx context.Context, o operation[scimTokenModel], plan, state scimTokenModel) {
	plan.Retiring = state.Retiring
	switch {
	case plan.rotates(state):
		secret := secretFrom(ctx, o.config, apikey.SCIM, o.diags)
		if !o.diags.HasError() && secret.ID() == state.ID.ValueString() {
			o.diags.AddAttributeError(path.Root("secret_wo"), "Not a new token", "The secret has the id of the token that it is to replace. Leave key_id out in ephemeral.corvo_api_key_secret.")
		}
		if o.diags.HasError() {
			return
		}
		if err := r.insert(ctx, &plan, secret); err != nil {
			addFieldErrors(o.diags, "rotate SCIM token "+state.ID.ValueString(), err, scimTokenFields())
			return
		}
		plan.Retiring = addRetiring(state.Retiring, state.ID.ValueString())
	case !plan.ExpiresAt.Equal(state.ExpiresAt):
		v, err := r.moveEnd(ctx, state.ID.ValueString(), toTimestamp(plan.ExpiresAt))
		if err != nil {
			addFieldErrors(o.diags, "change SCIM token "+state.ID.ValueString(), withHelp(err, "TOKEN_ENDED", "Increase secret_wo_version to rotate it."), scimTokenFields())
			return
		}
		plan.fill(v)
	}
	o.save(plan)
	var err error
	end := func(ctx context.Context, id string, overlap time.Duration) (*timestamppb.Timestamp, error) {
		return r.end(ctx, plan.ConnectionID.ValueString(), id, overlap)
	}
	if plan.Retiring, err = retire(ctx, plan.Retiring, orDuration(plan.RotationOverlap, overlapUsual), end); err != nil {
		addError(o.diags, "revoke the previous token of SCIM token "+plan.ID.ValueString()+" (the next apply tries again)", err)
	}
	o.save(plan)
}

func (r *scimTokenResource) moveEnd(ctx context.Context, id string, to *timestamppb.Timestamp) (*cloudv1.ScimToken, error) {
	res, err := r.cloud.Directory().UpdateScimToken(ctx, connect.NewRequest(&cloudv1.UpdateScimTokenRequest{TokenId: id, ExpiresAt: to}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetToken(), nil
}

// end lets a token work for overlap longer; nil if it works no more.
func (r *scimTokenResource) end(ctx context.Context, connection, id string, overlap time.Duration) (*timestamppb.Timestamp, error) {
	if overlap < time.Second {
		return nil, r.revoke(ctx, id)
	}
	at := time.Now().Add(overlap).Truncate(time.Millisecond)
	v, err := r.get(ctx, connection, id)
	if err == nil && v.GetExpiresAt().AsTime().After(at) {
		v, err = r.moveEnd(ctx, id, timestamppb.New(at))
	}
	if cloud.Is(err, cloud.NotFound) || isConflict(err, "TOKEN_ENDED") {
		return nil, nil
	}
	return v.GetExpiresAt(), err
}

// remove ends the token and its predecessors.
func (r *scimTokenResource) remove(ctx context.Context, m scimTokenModel, diags *diag.Diagnostics) {
	err := r.revoke(ctx, m.ID.ValueString())
	for _, item := range retiringItems(m.Retiring) {
		err = errors.Join(err, r.revoke(ctx, item.KeyID.ValueString()))
	}
	if err != nil {
		addError(diags, "revoke SCIM token "+m.ID.ValueString(), err)
	}
}

func (r *scimTokenResource) revoke(ctx context.Context, id string) error {
	_, err := r.cloud.Directory().RevokeScimToken(ctx, connect.NewRequest(&cloudv1.RevokeScimTokenRequest{TokenId: id}))
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	return err
}

// adopt takes key_… and looks for it in every connection, or sso_…/key_….
func (r *scimTokenResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (m scimTokenModel, ok bool) {
	if _, err := apikey.Parse(id); err == nil {
		diags.AddError("Invalid import ID", "This is a whole token with its secret. Import it by its id, key_<12 characters>. The secret may now be in your shell history or logs: rotate the token.")
		return m, false
	}
	connection, token, found := strings.Cut(id, "/")
	var v *cloudv1.ScimToken
	var err error
	if found {
		v, err = r.get(ctx, connection, token)
	} else {
		v, err = r.search(ctx, id)
	}
	m = scimTokenModel{RotationOverlap: timetypes.NewGoDurationValueFromStringMust(overlapDefault), Retiring: noRetiring()}
	if err == nil {
		m.fill(v)
		err = r.fillEndpoint(ctx, &m)
	}
	if err != nil {
		addError(diags, fmt.Sprintf("import SCIM token %q (use its id, key_…)", apikey.Redact(id)), err)
	}
	return m, err == nil
}

func (r *scimTokenResource) search(ctx context.Context, id string) (*cloudv1.ScimToken, error) {
	for c, err := range listConnections(ctx, r.cloud) {
		if err != nil {
			return nil, err
		}
		v, err := r.get(ctx, c.GetId(), id)
		if !cloud.Is(err, cloud.NotFound) {
			return v, err
		}
	}
	return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListScimTokens", Message: "no connection has a token " + apikey.Redact(id)}
}

// fill takes what the service says.
func (m *scimTokenModel) fill(v *cloudv1.ScimToken) {
	m.ID, m.ConnectionID, m.Prefix = types.StringValue(v.GetId()), types.StringValue(v.GetConnectionId()), types.StringValue(v.GetPrefix())
	m.ExpiresAt, m.SecretWO = instant(v.GetExpiresAt(), m.ExpiresAt), types.StringNull()
	m.CreatedAt, m.CreatedBy = timestamp(v.GetCreatedAt()), types.StringValue(v.GetCreatedBy())
}

var _ resource.ResourceWithModifyPlan = (*scimTokenResource)(nil)
