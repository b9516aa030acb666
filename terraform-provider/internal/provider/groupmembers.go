package provider

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// membersAtOnce is how many a call adds or removes.
const membersAtOnce = 500

func userID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^usr_[0-9A-Z]{26}$`), "must be the id of a member of the tenant (usr_…), for example corvo_member.….user_id")
}

func groupID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^grp_[0-9A-Z]{26}$`), "must be the id of a group (grp_…), for example corvo_group.….id")
}

// usersIn lists who is in a group.
func usersIn(ctx context.Context, c *cloud.Client, group string) ([]string, error) {
	return shown(walk(func(token string) ([]*cloudv1.GroupMember, string, error) {
		res, err := c.Groups().ListGroupMembers(ctx, connect.NewRequest(&cloudv1.ListGroupMembersRequest{GroupId: group, PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetMembers(), res.Msg.GetNextPageToken(), nil
	}), (*cloudv1.GroupMember).GetUserId)
}

func addToGroup(ctx context.Context, c *cloud.Client, group string, users []string) error {
	for some := range slices.Chunk(users, membersAtOnce) {
		if _, err := c.Groups().AddGroupMembers(ctx, connect.NewRequest(&cloudv1.AddGroupMembersRequest{GroupId: group, UserIds: some})); err != nil {
			return err
		}
	}
	return nil
}

func removeFromGroup(ctx context.Context, c *cloud.Client, group string, users []string) error {
	for some := range slices.Chunk(users, membersAtOnce) {
		if _, err := c.Groups().RemoveGroupMembers(ctx, connect.NewRequest(&cloudv1.RemoveGroupMembersRequest{GroupId: group, UserIds: some})); err != nil {
			return err
		}
	}
	return nil
}

// leaveGroup removes those who are in it: somebody who is no member of the tenant any more
// is in no group.
func leaveGroup(ctx context.Context, c *cloud.Client, group string, which func(user string) bool) error {
	users, err := usersIn(ctx, c, group)
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeFromGroup(ctx, c, group, slices.DeleteFunc(users, func(u string) bool { return !which(u) }))
}

type groupMemberResource struct{ managed[groupMemberModel] }

type groupMemberModel struct {
	ID      types.String `tfsdk:"id"`
	GroupID types.String `tfsdk:"group_id"`
	UserID  types.String `tfsdk:"user_id"`
}

func newGroupMember() resource.Resource {
	r := new(groupMemberResource)
	r.managed = managed[groupMemberModel]{
		typeName: "corvo_group_member", schema: groupMemberSchema, called: func(m groupMemberModel) string { return "group member " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func groupMemberSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Puts one member of the tenant into a group, and leaves everybody else in it alone. To decide who is in a group altogether, use " +
			"`corvo_group_members`; both for one group would undo each other.",
		Attributes: map[string]schema.Attribute{
			"id":       stableText("`grp_…/usr_…`."),
			"group_id": fixedText(true, "Id of the group (`grp_…`). Changing it replaces the resource.", groupID()),
			"user_id":  fixedText(true, "Id of the member (`usr_…`). Changing it replaces the resource.", userID()),
		},
	}
}

func (r *groupMemberResource) create(ctx context.Context, o operation[groupMemberModel], m groupMemberModel) {
	if err := addToGroup(ctx, r.cloud, m.GroupID.ValueString(), []string{m.UserID.ValueString()}); err != nil {
		addFieldErrors(o.diags, "add to group "+m.GroupID.ValueString(), err, attributes{"group_id": "group_id", "user_ids": "user_id"})
		return
	}
	m.ID = types.StringValue(m.GroupID.ValueString() + "/" + m.UserID.ValueString())
	o.save(m)
}

func (r *groupMemberResource) read(ctx context.Context, m *groupMemberModel, _ *diag.Diagnostics) error {
	users, err := usersIn(ctx, r.cloud, m.GroupID.ValueString())
	if err == nil && !slices.Contains(users, m.UserID.ValueString()) {
		err = &cloud.Error{Kind: cloud.NotFound, Call: "ListGroupMembers", Message: "the user isn't in the group"}
	}
	return err
}

// update has nothing to do: every change replaces.
func (r *groupMemberResource) update(_ context.Context, o operation[groupMemberModel], plan, _ groupMemberModel) {
	o.save(plan)
}

func (r *groupMemberResource) remove(ctx context.Context, m groupMemberModel, diags *diag.Diagnostics) {
	err := leaveGroup(ctx, r.cloud, m.GroupID.ValueString(), func(user string) bool { return user == m.UserID.ValueString() })
	if err != nil {
		addError(diags, "remove from group "+m.GroupID.ValueString(), err)
	}
}

// adopt takes grp_…/usr_….
func (r *groupMemberResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (groupMemberModel, bool) {
	group, user, _ := strings.Cut(id, "/")
	m := groupMemberModel{ID: types.StringValue(id), GroupID: types.StringValue(group), UserID: types.StringValue(user)}
	err := r.read(ctx, &m, diags)
	if err != nil {
		addError(diags, fmt.Sprintf("import group member %q (use grp_…/usr_…)", id), err)
	}
	return m, err == nil
}

type groupMembersResource struct{ managed[groupMembersModel] }

type groupMembersModel struct {
	ID      types.String `tfsdk:"id"`
	GroupID types.String `tfsdk:"group_id"`
	UserIDs types.Set    `tfsdk:"user_ids"`
}

func newGroupMembers() resource.Resource {
	r := new(groupMembersResource)
	r.managed = managed[groupMembersModel]{
		typeName: "corvo_group_members", schema: groupMembersSchema, called: func(m groupMembersModel) string { return "members of group " + m.GroupID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func groupMembersSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Decides who is in a group altogether: whoever isn't listed is removed. To add single members and leave the others alone, use `corvo_group_member`; " +
			"both for one group would undo each other. Destroying it empties the group.",
		Attributes: map[string]schema.Attribute{
			"id":       stableText("Id of the group (`grp_…`)."),
			"group_id": fixedText(true, "Id of the group (`grp_…`). Changing it replaces the resource.", groupID()),
			"user_ids": schema.SetAttribute{
				Required: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.ValueStringsAre(userID())},
				MarkdownDescription: "Ids of all members of the group (`usr_…`).",
			},
		},
	}
}

// become makes the group have these members.
func (r *groupMembersResource) become(ctx context.Context, o operation[groupMembersModel], m groupMembersModel) {
	group, want := m.GroupID.ValueString(), toStrings(m.UserIDs)
	is, err := usersIn(ctx, r.cloud, group)
	if err == nil {
		err = addToGroup(ctx, r.cloud, group, without(want, is))
	}
	if err == nil {
		err = removeFromGroup(ctx, r.cloud, group, without(is, want))
	}
	if err != nil {
		addFieldErrors(o.diags, "change the members of group "+group, err, attributes{"group_id": "group_id", "user_ids": "user_ids"})
		return
	}
	m.ID = m.GroupID
	o.save(m)
}

func without(list, those []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(those, s) })
}

func (r *groupMembersResource) create(ctx context.Context, o operation[groupMembersModel], m groupMembersModel) {
	r.become(ctx, o, m)
}

func (r *groupMembersResource) update(ctx context.Context, o operation[groupMembersModel], plan, _ groupMembersModel) {
	r.become(ctx, o, plan)
}

func (r *groupMembersResource) read(ctx context.Context, m *groupMembersModel, _ *diag.Diagnostics) error {
	users, err := usersIn(ctx, r.cloud, m.GroupID.ValueString())
	if err != nil {
		return err
	}
	if m.UserIDs = toSet(users, m.UserIDs); m.UserIDs.IsNull() { // The attribute is required.
		m.UserIDs = types.SetValueMust(types.StringType, []attr.Value{})
	}
	return nil
}

func (r *groupMembersResource) remove(ctx context.Context, m groupMembersModel, diags *diag.Diagnostics) {
	if err := leaveGroup(ctx, r.cloud, m.GroupID.ValueString(), func(string) bool { return true }); err != nil {
		addError(diags, "empty group "+m.GroupID.ValueString(), err)
	}
}

// adopt takes grp_….
func (r *groupMembersResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (groupMembersModel, bool) {
	m := groupMembersModel{ID: types.StringValue(id), GroupID: types.StringValue(id), UserIDs: types.SetNull(types.StringType)}
	err := r.read(ctx, &m, diags)
	if err != nil {
		addError(diags, fmt.Sprintf("import the members of group %q (use its id, grp_…)", id), err)
	}
	return m, err == nil
}
