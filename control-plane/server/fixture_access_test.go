package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// accessBuilders are those of roles, bindings, service accounts, groups and reviews.
func accessBuilders() map[string]builder {
	name := func(p *fixture) string { return strings.ToLower(p.id(ids.Role)) }
	return map[string]builder{
		"RoleService/ListPermissions": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListPermissionsRequest) }),
		"RoleService/ListRoles":       plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListRolesRequest{PageSize: 1} }),
		"RoleService/GetRole":         about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.GetRoleRequest{Role: p.role(t)} }),
		"RoleService/CreateRole": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateRoleRequest{Name: name(p), Permissions: []string{"job.list"}}
		}),
		"RoleService/UpdateRole": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateRoleRequest{RoleId: p.role(t), Description: "new", UpdateMask: mask("description")}
		}),
		"RoleService/DeleteRole":       about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.DeleteRoleRequest{RoleId: p.role(t)} }),
		"RoleService/ListRoleBindings": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListRoleBindingsRequest{PageSize: 1} }),
		"RoleService/GetRoleBinding": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetRoleBindingRequest{RoleBindingId: p.binding(t)}
		}),
		"RoleService/CreateRoleBinding": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateRoleBindingRequest{PrincipalId: p.account(t, viewer), Role: permission.RoleWorker}
		}),
		"RoleService/DeleteRoleBinding": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteRoleBindingRequest{RoleBindingId: p.binding(t)}
		}),
		"ServiceAccountService/CreateServiceAccount": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateServiceAccountRequest{Name: name(p)}
		}),
		"ServiceAccountService/GetServiceAccount": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetServiceAccountRequest{ServiceAccount: p.account(t, permission.RoleWorker)}
		}),
		"ServiceAccountService/ListServiceAccounts": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListServiceAccountsRequest{PageSize: 1} }),
		"ServiceAccountService/UpdateServiceAccount": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateServiceAccountRequest{ServiceAccountId: p.account(t, permission.RoleWorker), Disabled: true, UpdateMask: mask("disabled")}
		}),
		"ServiceAccountService/DeleteServiceAccount": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteServiceAccountRequest{ServiceAccountId: p.account(t, permission.RoleWorker)}
		}),
		"TrustService/CreateTrust": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateTrustRequest{
				Name: name(p), ServiceAccount: p.account(t, permission.RoleWorker), Provider: cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB,
				Conditions: []*cloudv1.TrustCondition{{Claim: "repository", Values: []string{"acme/web"}}},
			}
		}),
		"TrustService/GetTrust":   about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.GetTrustRequest{Trust: p.trust(t)} }),
		"TrustService/ListTrusts": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListTrustsRequest{PageSize: 1} }),
		"TrustService/UpdateTrust": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateTrustRequest{TrustId: p.trust(t), AllowReuse: true, UpdateMask: mask("allow_reuse")}
		}),
		"TrustService/DeleteTrust": about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.DeleteTrustRequest{TrustId: p.trust(t)} }),
		// A good token is exchanged in TestExchange_TheKeyWorksHereUntilItsTrustIsGone.
		"TrustService/ExchangeToken": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.ExchangeTokenRequest{Tenant: p.Tenant, Token: "e30.e30."}
		}),
		"GroupService/CreateGroup": plain(func(_ testing.TB, p *fixture) proto.Message { return &cloudv1.CreateGroupRequest{Name: name(p)} }),
		"GroupService/GetGroup":    about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.GetGroupRequest{Group: p.group(t)} }),
		"GroupService/ListGroups":  plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListGroupsRequest{PageSize: 1} }),
		"GroupService/UpdateGroup": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateGroupRequest{GroupId: p.group(t), Description: "new", UpdateMask: mask("description")}
		}),
		"GroupService/DeleteGroup": about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.DeleteGroupRequest{GroupId: p.group(t)} }),
		"GroupService/ListGroupMembers": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.ListGroupMembersRequest{GroupId: p.group(t)}
		}),
		"GroupService/AddGroupMembers": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.AddGroupMembersRequest{GroupId: p.group(t), UserIds: []string{p.user(t, viewer).ID}}
		}),
		"GroupService/RemoveGroupMembers": about(func(t testing.TB, p *fixture) proto.Message {
			u := p.user(t, viewer)
			return &cloudv1.RemoveGroupMembersRequest{GroupId: p.group(t, u.ID), UserIds: []string{u.ID}}
		}),
		"AccessService/Explain": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ExplainRequest{Permission: "member.read"} }),
		"AccessService/ListWhoCan": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ListWhoCanRequest{Permission: "member.read", PageSize: 1}
		}),
		"AccessService/ListAccessReview": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListAccessReviewRequest{PageSize: 1} }),
	}
}
