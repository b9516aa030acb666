package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// Words of a member's attribute status.
const (
	memberInvited = "invited"
	memberJoined  = "member"
)

type memberResource struct{ managed[memberModel] }

type memberModel struct {
	ID        types.String `tfsdk:"id"`
	Email     types.String `tfsdk:"email"`
	Roles     types.Set    `tfsdk:"roles"`
	Status    types.String `tfsdk:"status"`
	UserID    types.String `tfsdk:"user_id"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	CreatedAt types.String `tfsdk:"created_at"`
	ETag      types.String `tfsdk:"etag"`
}

func newMember() resource.Resource {
	r := new(memberResource)
	r.managed = managed[memberModel]{
		typeName: "corvo_member", schema: memberSchema, identity: identity{attribute: "email", lower: true}, called: func(m memberModel) string { return "member " + m.Email.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func memberSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A person in the tenant. Creating it emails an invitation, which is valid for seven days; once it is accepted, the resource is the member. An invitation " +
			"that expired is sent again by the next apply. Changing the roles of somebody who hasn't accepted yet sends another invitation, which replaces the first. " +
			"Destroying it removes the member, or revokes the invitation.",
		Attributes: map[string]schema.Attribute{
			"id": changingText("`inv_…` while invited, then `usr_…`."),
			"email": schema.StringAttribute{
				Required:   true,
				Validators: []validator.String{stringvalidator.LengthAtLeast(3)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplaceIf(otherAddress,
					"Another address is another person.", "Another address is another person.")},
				MarkdownDescription: "Email address; upper and lower case are the same. Changing it replaces the member.",
			},
			"roles": schema.SetAttribute{
				Required: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
				MarkdownDescription: "Names or ids of all roles that the member has in the whole tenant, for example `developer`. An apply takes away every other one, " +
					"also a role from a `corvo_role_binding` without `namespace`. For roles in a namespace use `corvo_role_binding`; roles of groups aren't in here.",
			},
			"status":     changingText("`invited` or `member`."),
			"user_id":    changingText("`usr_…`; null until the invitation is accepted."),
			"expires_at": changingText("When the invitation expires (RFC 3339); null for a member."),
			"created_at": changingText("When the invitation was sent, or the member joined (RFC 3339)."),
			"etag":       changingText("Changes with every update of a member; empty while invited."),
		},
	}
}

func otherAddress(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	resp.RequiresReplace = !strings.EqualFold(req.PlanValue.ValueString(), req.StateValue.ValueString())
}

// ModifyPlan keeps what a change of roles leaves as it is, so that nothing that refers to a
// member is replaced. An invitation is another one after it.
func (r *memberResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state memberModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || state.Status.ValueString() != memberJoined || !strings.EqualFold(plan.Email.ValueString(), state.Email.ValueString()) {
		return
	}
	plan.ID, plan.UserID, plan.Status, plan.ExpiresAt, plan.CreatedAt = state.ID, state.UserID, state.Status, state.ExpiresAt, state.CreatedAt
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
}

func memberFields() attributes { return attributes{"email": "email", "roles": "roles"} }

func (r *memberResource) create(ctx context.Context, o operation[memberModel], m memberModel) {
	if err := r.invite(ctx, &m); err != nil {
		addFieldErrors(o.diags, "invite "+m.Email.ValueString(), importable(err, m.Email.ValueString()), memberFields())
		return
	}
	o.save(m)
}

func (r *memberResource) invite(ctx context.Context, m *memberModel) error {
	res, err := r.cloud.Members().CreateInvitation(ctx, connect.NewRequest(&cloudv1.CreateInvitationRequest{
		Email: m.Email.ValueString(), Roles: toStrings(m.Roles),
	}))
	if err == nil {
		*m = m.invited(res.Msg.GetInvitation(), m.Roles)
	}
	return err
}

func (r *memberResource) read(ctx context.Context, m *memberModel, diags *diag.Diagnostics) error {
	member, invitation, err := r.find(ctx, m.Email.ValueString())
	if err != nil {
		return err
	}
	if invitation.GetExpiresAt() != nil && time.Now().After(invitation.GetExpiresAt().AsTime()) {
		diags.AddWarning("The invitation of "+m.Email.ValueString()+" expired",
			"It wasn't accepted within seven days. The next apply sends another one.")
		return &cloud.Error{Kind: cloud.NotFound, Call: "ListInvitations", Message: "the invitation expired"}
	}
	roles, err := r.rolesAsWritten(ctx, m.Roles, slices.Concat(member.GetRoles(), invitation.GetRoles()))
	if err != nil {
		return err
	}
	if member != nil {
		*m = m.joined(member, roles)
	} else {
		*m = m.invited(invitation, roles)
	}
	return nil
}

// update changes the roles of a member, or invites again.
func (r *memberResource) update(ctx context.Context, o operation[memberModel], plan, state memberModel) {
	if plan.Roles.Equal(state.Roles) { // The address is written in another way.
		state.Email = plan.Email
		o.save(state)
		return
	}
	member, _, err := r.find(ctx, state.Email.ValueString())
	if err == nil && member.GetUserId() != state.UserID.ValueString() && state.Status.ValueString() == memberJoined {
		err = &cloud.Error{Kind: cloud.Conflict, Call: "UpdateMember", Message: "the member was removed after this plan was made", Help: "Run plan again, then apply."}
	} else if err == nil && member == nil {
		err = r.invite(ctx, &plan)
	} else if err == nil {
		var res *connect.Response[cloudv1.UpdateMemberResponse]
		res, err = r.cloud.Members().UpdateMember(ctx, connect.NewRequest(&cloudv1.UpdateMemberRequest{
			UserId: member.GetUserId(), Roles: toStrings(plan.Roles), Etag: state.ETag.ValueString(),
		}))
		if err == nil {
			plan = plan.joined(res.Msg.GetMember(), plan.Roles)
		}
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		now := plan
		if readErr := r.read(ctx, &now, o.diags); readErr == nil && now.Roles.Equal(plan.Roles) {
			o.save(now)
			return
		}
	}
	if err != nil {
		addFieldErrors(o.diags, "change the roles of "+state.Email.ValueString(), err, memberFields())
		return
	}
	o.save(plan)
}

func (r *memberResource) remove(ctx context.Context, m memberModel, diags *diag.Diagnostics) {
	member, invitation, err := r.find(ctx, m.Email.ValueString())
	switch {
	case err != nil:
	case member != nil:
		_, err = r.cloud.Members().RemoveMember(ctx, connect.NewRequest(&cloudv1.RemoveMemberRequest{UserId: member.GetUserId()}))
	default:
		_, err = r.cloud.Members().RevokeInvitation(ctx, connect.NewRequest(&cloudv1.RevokeInvitationRequest{InvitationId: invitation.GetId()}))
	}
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "remove "+m.Email.ValueString(), err)
	}
}

// adopt takes an address, usr_… or inv_….
func (r *memberResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (memberModel, bool) {
	m := memberModel{Email: types.StringValue(id), Roles: types.SetNull(types.StringType)}
	err := r.read(ctx, &m, diags)
	if err != nil {
		addError(diags, fmt.Sprintf("import member %q (use the email address, usr_… or inv_…)", id), err)
	}
	return m, err == nil
}

// find gives the member of an address or id, else the invitation.
func (r *memberResource) find(ctx context.Context, who string) (*cloudv1.Member, *cloudv1.Invitation, error) {
	m, err := findMember(ctx, r.cloud, who)
	if !cloud.Is(err, cloud.NotFound) {
		return m, nil, err
	}
	for i, err := range listInvitations(ctx, r.cloud) {
		if err != nil {
			return nil, nil, err
		}
		if strings.EqualFold(i.GetEmail(), who) || i.GetId() == who {
			return nil, i, nil
		}
	}
	return nil, nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListMembers", Message: "there is neither a member nor an invitation " + who}
}

// findMember takes an address, or usr_….
func findMember(ctx context.Context, c *cloud.Client, who string) (*cloudv1.Member, error) {
	for m, err := range listMembers(ctx, c) {
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(m.GetEmail(), who) || m.GetUserId() == who {
			return m, nil
		}
	}
	return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListMembers", Message: "no member has the email address or id " + who}
}

// rolesAsWritten keeps the user's ids as long as they mean the same names.
func (r *memberResource) rolesAsWritten(ctx context.Context, prior types.Set, names []string) (types.Set, error) {
	var meant []string
	for _, text := range toStrings(prior) {
		if !strings.HasPrefix(text, "role_") {
			meant = append(meant, text)
			continue
		}
		role, err := findRole(ctx, r.cloud, text)
		switch {
		case cloud.Is(err, cloud.NotFound):
			return toSet(names, prior), nil
		case err != nil:
			return prior, err
		}
		meant = append(meant, role.GetName())
	}
	if len(without(names, meant)) == 0 && len(without(meant, names)) == 0 && len(meant) > 0 {
		return prior, nil
	}
	return toSet(names, prior), nil
}

func (m memberModel) joined(is *cloudv1.Member, roles types.Set) memberModel {
	return memberModel{
		ID: types.StringValue(is.GetUserId()), Email: m.address(is.GetEmail()), Roles: roles, Status: types.StringValue(memberJoined),
		UserID: types.StringValue(is.GetUserId()), ExpiresAt: types.StringNull(), CreatedAt: timestamp(is.GetCreatedAt()), ETag: types.StringValue(is.GetEtag()),
	}
}

func (m memberModel) invited(is *cloudv1.Invitation, roles types.Set) memberModel {
	return memberModel{
		ID: types.StringValue(is.GetId()), Email: m.address(is.GetEmail()), Roles: roles, Status: types.StringValue(memberInvited),
		UserID: types.StringNull(), ExpiresAt: timestamp(is.GetExpiresAt()), CreatedAt: timestamp(is.GetCreatedAt()), ETag: types.StringValue(""),
	}
}

// address keeps the user's way of writing it.
func (m memberModel) address(is string) types.String {
	if strings.EqualFold(m.Email.ValueString(), is) {
		return m.Email
	}
	return types.StringValue(is)
}

var _ resource.ResourceWithModifyPlan = (*memberResource)(nil)
