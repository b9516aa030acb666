package provider

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type groupResource struct{ managed[groupModel] }

type groupModel struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Description  types.String `tfsdk:"description"`
	ExternalID   types.String `tfsdk:"external_id"`
	ConnectionID types.String `tfsdk:"connection_id"`
	ETag         types.String `tfsdk:"etag"`
	CreatedAt    types.String `tfsdk:"created_at"`
}

func newGroup() resource.Resource {
	r := new(groupResource)
	r.managed = managed[groupModel]{
		typeName: "corvo_group", schema: groupSchema, called: func(m groupModel) string { return "group " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func groupSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A group of members. Who is in it has the group's roles (`corvo_role_binding`); `corvo_group_member` and `corvo_group_members` say who is. " +
			"A group that a directory keeps can only be changed there. Destroying a group takes its roles from everybody in it.",
		Attributes: map[string]schema.Attribute{
			"id": stableText("`grp_…`, never changes."),
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Unique among the tenant's groups.",
			},
			"description":   describedAttribute(),
			"external_id":   stableText("The directory's id of it; empty if people keep it."),
			"connection_id": stableText("The SSO connection whose directory keeps it; empty if people keep it."),
			"etag":          changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at":    stableText("RFC 3339."),
		},
	}
}

func groupFields() attributes { return attributes{"name": "name", "description": "description"} }

func (r *groupResource) create(ctx context.Context, o operation[groupModel], m groupModel) {
	res, err := r.cloud.Groups().CreateGroup(ctx, connect.NewRequest(&cloudv1.CreateGroupRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), Description: m.Description.ValueString(),
	}))
	if err != nil {
		addFieldErrors(o.diags, "create group "+m.Name.ValueString(), importable(err, m.Name.ValueString()), groupFields())
		return
	}
	o.save(groupState(res.Msg.GetGroup()))
}

func (r *groupResource) read(ctx context.Context, m *groupModel, _ *diag.Diagnostics) error {
	g, err := findGroup(ctx, r.cloud, m.ID.ValueString())
	if err == nil {
		*m = groupState(g)
	}
	return err
}

func (r *groupResource) update(ctx context.Context, o operation[groupModel], plan, state groupModel) {
	res, err := r.cloud.Groups().UpdateGroup(ctx, connect.NewRequest(&cloudv1.UpdateGroupRequest{
		GroupId: state.ID.ValueString(), Etag: state.ETag.ValueString(), Name: plan.Name.ValueString(), Description: plan.Description.ValueString(),
		UpdateMask: maskOf(map[string]bool{"name": plan.Name.Equal(state.Name), "description": plan.Description.Equal(state.Description)}),
	}))
	if err == nil {
		o.save(groupState(res.Msg.GetGroup()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		g, getErr := findGroup(ctx, r.cloud, state.ID.ValueString())
		if now := groupState(g); getErr == nil && now.Name.Equal(plan.Name) && now.Description.Equal(plan.Description) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change group "+state.Name.ValueString(), err, groupFields())
}

func (r *groupResource) remove(ctx context.Context, m groupModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Groups().DeleteGroup(ctx, connect.NewRequest(&cloudv1.DeleteGroupRequest{GroupId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy group "+m.Name.ValueString(), err)
	}
}

// adopt takes grp_… or a name.
func (r *groupResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (groupModel, bool) {
	g, err := findGroup(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import group %q (use its id, grp_…, or its name)", id), err)
	}
	return groupState(g), err == nil
}

func findGroup(ctx context.Context, c *cloud.Client, idOrName string) (*cloudv1.Group, error) {
	res, err := c.Groups().GetGroup(ctx, connect.NewRequest(&cloudv1.GetGroupRequest{Group: idOrName}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetGroup(), nil
}

func groupState(g *cloudv1.Group) groupModel {
	return groupModel{
		ID: types.StringValue(g.GetId()), Name: types.StringValue(g.GetName()), Description: types.StringValue(g.GetDescription()),
		ExternalID: types.StringValue(g.GetExternalId()), ConnectionID: types.StringValue(g.GetConnectionId()),
		ETag: types.StringValue(g.GetEtag()), CreatedAt: timestamp(g.GetCreatedAt()),
	}
}
