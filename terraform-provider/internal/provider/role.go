package provider

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type roleResource struct{ managed[roleModel] }

type roleModel struct {
	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Permissions types.Set    `tfsdk:"permissions"`
	ETag        types.String `tfsdk:"etag"`
	CreatedAt   types.String `tfsdk:"created_at"`
}

func newRole() resource.Resource {
	r := new(roleResource)
	r.managed = managed[roleModel]{
		typeName: "corvo_role", schema: roleSchema, called: func(m roleModel) string { return "role " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func roleSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A role of the tenant's own: a named set of permissions, which `corvo_role_binding` gives. Every tenant also has roles that can't be changed, " +
			"such as `admin` and `producer`; the data source `corvo_roles` lists them.\n\n" +
			"Nobody can create a role with more than they may do in the whole tenant. Destroying a role is refused while somebody has it.",
		Attributes: map[string]schema.Attribute{
			"id": stableText("`role_…`, never changes."),
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Unique in the tenant.",
			},
			"description": describedAttribute(),
			"permissions": schema.SetAttribute{
				Required: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(permissionName())},
				MarkdownDescription: "What the role allows, for example `job.enqueue`; the data source `corvo_permissions` lists all. A change holds within a second for " +
					"everybody who has the role.",
			},
			"etag":       changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at": stableText("RFC 3339."),
		},
	}
}

func roleFields() attributes {
	return attributes{"name": "name", "description": "description", "permissions": "permissions"}
}

func (r *roleResource) create(ctx context.Context, o operation[roleModel], m roleModel) {
	res, err := r.cloud.Roles().CreateRole(ctx, connect.NewRequest(&cloudv1.CreateRoleRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), Description: m.Description.ValueString(), Permissions: toStrings(m.Permissions),
	}))
	if err != nil {
		addFieldErrors(o.diags, "create role "+m.Name.ValueString(), importable(err, m.Name.ValueString()), roleFields())
		return
	}
	o.save(m.from(res.Msg.GetRole()))
}

func (r *roleResource) read(ctx context.Context, m *roleModel, _ *diag.Diagnostics) error {
	role, err := findRole(ctx, r.cloud, m.ID.ValueString())
	if err == nil {
		*m = m.from(role)
	}
	return err
}

func (r *roleResource) update(ctx context.Context, o operation[roleModel], plan, state roleModel) {
	res, err := r.cloud.Roles().UpdateRole(ctx, connect.NewRequest(&cloudv1.UpdateRoleRequest{
		RoleId: state.ID.ValueString(), Etag: state.ETag.ValueString(),
		Name: plan.Name.ValueString(), Description: plan.Description.ValueString(), Permissions: toStrings(plan.Permissions),
		UpdateMask: maskOf(map[string]bool{
			"name": plan.Name.Equal(state.Name), "description": plan.Description.Equal(state.Description),
			"permissions": slices.Equal(toStrings(plan.Permissions), toStrings(state.Permissions)),
		}),
	}))
	if err == nil {
		o.save(plan.from(res.Msg.GetRole()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		role, getErr := findRole(ctx, r.cloud, state.ID.ValueString())
		if now := plan.from(role); getErr == nil && now.Name.Equal(plan.Name) && now.Description.Equal(plan.Description) && now.Permissions.Equal(plan.Permissions) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change role "+state.Name.ValueString(), err, roleFields())
}

func (r *roleResource) remove(ctx context.Context, m roleModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Roles().DeleteRole(ctx, connect.NewRequest(&cloudv1.DeleteRoleRequest{RoleId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy role "+m.Name.ValueString(), err)
	}
}

// adopt takes role_… or a name.
func (r *roleResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (roleModel, bool) {
	role, err := findRole(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import role %q (use its id, role_…, or its name)", id), err)
		return roleModel{}, false
	}
	if role.GetFixed() {
		diags.AddError("Can't manage a role that every tenant has",
			fmt.Sprintf("Nobody can change the role %s. To read it, use the data source corvo_role; to give it, use its name in corvo_role_binding.", role.GetName()))
		return roleModel{}, false
	}
	return roleModel{Permissions: types.SetNull(types.StringType)}.from(role), true
}

// findRole takes role_… or a name.
func findRole(ctx context.Context, c *cloud.Client, idOrName string) (*cloudv1.Role, error) {
	res, err := c.Roles().GetRole(ctx, connect.NewRequest(&cloudv1.GetRoleRequest{Role: idOrName}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetRole(), nil
}

func (m roleModel) from(r *cloudv1.Role) roleModel {
	return roleModel{
		ID: types.StringValue(r.GetId()), Name: types.StringValue(r.GetName()), Description: types.StringValue(r.GetDescription()),
		Permissions: toSet(r.GetPermissions(), m.Permissions), ETag: types.StringValue(r.GetEtag()), CreatedAt: timestamp(r.GetCreatedAt()),
	}
}
