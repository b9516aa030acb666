package provider

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type roleBindingResource struct{ managed[roleBindingModel] }

type roleBindingModel struct {
	ID          types.String `tfsdk:"id"`
	PrincipalID types.String `tfsdk:"principal_id"`
	Principal   types.String `tfsdk:"principal"`
	Role        types.String `tfsdk:"role"`
	RoleID      types.String `tfsdk:"role_id"`
	Namespace   types.String `tfsdk:"namespace"`
	Queues      types.String `tfsdk:"queues"`
	CreatedAt   types.String `tfsdk:"created_at"`
	CreatedBy   types.String `tfsdk:"created_by"`
}

func newRoleBinding() resource.Resource {
	r := new(roleBindingResource)
	r.managed = managed[roleBindingModel]{
		typeName: "corvo_role_binding", schema: roleBindingSchema, called: func(m roleBindingModel) string { return "role binding " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func roleBindingSchema() schema.Schema {
	word := func(required bool, about string) schema.StringAttribute { // ModifyPlan knows what is another one.
		return schema.StringAttribute{Required: required, Optional: !required, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: about}
	}
	return schema.Schema{
		MarkdownDescription: "Gives a role to a user, a service account or a group: in the whole tenant, in a namespace, or for some queues. " +
			"Nobody can give more than they have there themselves. Every change replaces it.\n\n" +
			"Don't use it without `namespace` for a user who is a `corvo_member`: the `roles` of a member are all that they have in the whole tenant, so the next apply would take this one away. " +
			"Add the role there instead.",
		Attributes: map[string]schema.Attribute{
			"id":           stableText("`bnd_…`."),
			"principal_id": fixedText(true, "Who gets the role: `usr_…`, `sa_…` or `grp_…`.", principalID()),
			"principal":    stableText("Email address of the user, or name of the service account or group, when the role was given."),
			"role":         word(true, "Id (preferred: `corvo_role.….id`) or name of the role, for example `producer`."),
			"role_id":      stableText("Id of the role."),
			"namespace":    word(false, "Id (`ns_…`, preferred) or name of the namespace. Default: the whole tenant."),
			"queues":       fixedText(false, "A queue's name, or the beginning of names followed by `*`. Default: all queues.", queuePattern()),
			"created_at":   stableText("RFC 3339."),
			"created_by":   stableText("Id of who gave the role."),
		},
	}
}

func principalID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^(usr|sa|grp)_[0-9A-Z]{26}$`), "must be the id of a user (usr_…), service account (sa_…) or group (grp_…)")
}

// ModifyPlan tells another role or namespace from another way of writing the same one, as
// after an import: only the first needs another binding.
func (r *roleBindingResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state roleBindingModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for name, same := range map[string]func() (bool, error){
		"role":      func() (bool, error) { return sameThing(ctx, r.cloud, plan.Role, state.Role, roleID) },
		"namespace": func() (bool, error) { return sameThing(ctx, r.cloud, plan.Namespace, state.Namespace, namespaceID) },
	} {
		is, err := same()
		if err != nil {
			addError(&resp.Diagnostics, "look up the "+name+" of the role binding", err)
		} else if !is {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root(name))
		}
	}
}

// sameThing reports whether two words, ids or names, mean the same; id is empty for a word
// that means nothing.
func sameThing(ctx context.Context, c *cloud.Client, plan, state types.String, id func(context.Context, *cloud.Client, string) (string, error)) (bool, error) {
	if plan.Equal(state) || plan.IsUnknown() || plan.IsNull() || state.IsNull() {
		return plan.Equal(state), nil
	}
	is, err := id(ctx, c, plan.ValueString())
	if err != nil {
		return false, err
	}
	was, err := id(ctx, c, state.ValueString())
	return is == was && is != "", err
}

// roleID is the id of a role by id or name; empty if there is none.
func roleID(ctx context.Context, c *cloud.Client, word string) (string, error) {
	role, err := findRole(ctx, c, word)
	if cloud.Is(err, cloud.NotFound) {
		return "", nil
	}
	return role.GetId(), err
}

func (r *roleBindingResource) create(ctx context.Context, o operation[roleBindingModel], m roleBindingModel) {
	began := time.Now()
	res, err := r.cloud.Roles().CreateRoleBinding(ctx, connect.NewRequest(&cloudv1.CreateRoleBindingRequest{
		PrincipalId: m.PrincipalID.ValueString(), Role: m.Role.ValueString(),
		Scope: &cloudv1.Scope{Namespace: m.Namespace.ValueString(), Queues: m.Queues.ValueString()},
	}))
	if err != nil {
		addFieldErrors(o.diags, fmt.Sprintf("give the role %s to %s", m.Role.ValueString(), m.PrincipalID.ValueString()), err,
			attributes{"principal_id": "principal_id", "role": "role", "scope": "namespace"})
		return
	}
	b := res.Msg.GetRoleBinding()
	if began.Sub(b.GetCreatedAt().AsTime()) > adoptedAfter {
		o.diags.AddWarning("The role was already given",
			fmt.Sprintf("%s has the role %s there since %s (%s). Terraform manages it from now on.", b.GetPrincipal(), b.GetRole(), timestamp(b.GetCreatedAt()).ValueString(), b.GetId()))
	}
	o.save(m.from(b))
}

func (r *roleBindingResource) read(ctx context.Context, m *roleBindingModel, _ *diag.Diagnostics) error {
	b, err := r.get(ctx, m.ID.ValueString())
	if err == nil {
		*m = m.from(b)
	}
	return err
}

// update has nothing to do: what is not replaced is only spelled otherwise.
func (r *roleBindingResource) update(_ context.Context, o operation[roleBindingModel], plan, _ roleBindingModel) {
	o.save(plan)
}

func (r *roleBindingResource) remove(ctx context.Context, m roleBindingModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Roles().DeleteRoleBinding(ctx, connect.NewRequest(&cloudv1.DeleteRoleBindingRequest{RoleBindingId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "take away the role "+m.Role.ValueString()+" ("+m.ID.ValueString()+")", err)
	}
}

// adopt takes bnd_….
func (r *roleBindingResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (roleBindingModel, bool) {
	b, err := r.get(ctx, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import role binding %q (use its id, bnd_…)", id), err)
	}
	return roleBindingModel{}.from(b), err == nil
}

func (r *roleBindingResource) get(ctx context.Context, id string) (*cloudv1.RoleBinding, error) {
	res, err := r.cloud.Roles().GetRoleBinding(ctx, connect.NewRequest(&cloudv1.GetRoleBindingRequest{RoleBindingId: id}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetRoleBinding(), nil
}

// from keeps the user's words for role and namespace as long as they mean the same; after
// an import they are the ids.
func (m roleBindingModel) from(b *cloudv1.RoleBinding) roleBindingModel {
	return roleBindingModel{
		ID: types.StringValue(b.GetId()), PrincipalID: types.StringValue(b.GetPrincipalId()), Principal: orFirst(m.Principal, b.GetPrincipal()),
		Role: asWritten(m.Role, b.GetRoleId(), b.GetRole()), RoleID: types.StringValue(b.GetRoleId()),
		Namespace: asWritten(m.Namespace, b.GetScope().GetNamespace(), b.GetScope().GetNamespaceName()), Queues: orNull(b.GetScope().GetQueues()),
		CreatedAt: timestamp(b.GetCreatedAt()), CreatedBy: types.StringValue(b.GetCreatedBy()),
	}
}

// asWritten is the user's word if it is the id or the name, else the id.
func asWritten(word types.String, id, name string) types.String {
	if id == "" || word.ValueString() != name {
		return orNull(id)
	}
	return word
}

// orFirst keeps what is known.
func orFirst(known types.String, otherwise string) types.String {
	if known.ValueString() == "" {
		return types.StringValue(otherwise)
	}
	return known
}

func orNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

var _ resource.ResourceWithModifyPlan = (*roleBindingResource)(nil)
