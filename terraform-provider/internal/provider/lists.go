package provider

import (
	"context"
	"iter"
	"slices"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// Everything of a kind that the tenant has, page after page. An error ends the walk.

// pageMax is how many a call lists.
const pageMax = 200

// walk asks for page after page.
func walk[T any](page func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var token string
		for {
			items, next, err := page(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range items {
				if !yield(v, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// all collects a walk.
func all[T any](items iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for v, err := range items {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// shown is a walk in another form.
func shown[T, S any](items iter.Seq2[T, error], show func(T) S) ([]S, error) {
	out := []S{}
	for v, err := range items {
		if err != nil {
			return nil, err
		}
		out = append(out, show(v))
	}
	return out, nil
}

func listNamespaces(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Namespace, error] {
	return walk(func(token string) ([]*cloudv1.Namespace, string, error) {
		res, err := c.Namespaces().ListNamespaces(ctx, connect.NewRequest(&cloudv1.ListNamespacesRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		living := slices.DeleteFunc(res.Msg.GetNamespaces(), func(ns *cloudv1.Namespace) bool { return ns.GetSync() == cloudv1.Sync_SYNC_DELETING })
		return living, res.Msg.GetNextPageToken(), nil
	})
}

// listKeys leaves out keys that were revoked, and temporary ones.
func listKeys(ctx context.Context, c *cloud.Client, owner string) iter.Seq2[*cloudv1.ApiKey, error] {
	return walk(func(token string) ([]*cloudv1.ApiKey, string, error) {
		res, err := c.Keys().ListApiKeys(ctx, connect.NewRequest(&cloudv1.ListApiKeysRequest{PageSize: pageMax, PageToken: token, OwnerId: owner}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetApiKeys(), res.Msg.GetNextPageToken(), nil
	})
}

func listServiceAccounts(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.ServiceAccount, error] {
	return walk(func(token string) ([]*cloudv1.ServiceAccount, string, error) {
		res, err := c.ServiceAccounts().ListServiceAccounts(ctx, connect.NewRequest(&cloudv1.ListServiceAccountsRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetServiceAccounts(), res.Msg.GetNextPageToken(), nil
	})
}

func listRoles(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Role, error] {
	return walk(func(token string) ([]*cloudv1.Role, string, error) {
		res, err := c.Roles().ListRoles(ctx, connect.NewRequest(&cloudv1.ListRolesRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetRoles(), res.Msg.GetNextPageToken(), nil
	})
}

func listBindings(ctx context.Context, c *cloud.Client, principal, role string) iter.Seq2[*cloudv1.RoleBinding, error] {
	return walk(func(token string) ([]*cloudv1.RoleBinding, string, error) {
		res, err := c.Roles().ListRoleBindings(ctx, connect.NewRequest(&cloudv1.ListRoleBindingsRequest{PageSize: pageMax, PageToken: token, PrincipalId: principal, RoleId: role}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetRoleBindings(), res.Msg.GetNextPageToken(), nil
	})
}

func listGroups(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Group, error] {
	return walk(func(token string) ([]*cloudv1.Group, string, error) {
		res, err := c.Groups().ListGroups(ctx, connect.NewRequest(&cloudv1.ListGroupsRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetGroups(), res.Msg.GetNextPageToken(), nil
	})
}

func listMembers(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Member, error] {
	return walk(func(token string) ([]*cloudv1.Member, string, error) {
		res, err := c.Members().ListMembers(ctx, connect.NewRequest(&cloudv1.ListMembersRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetMembers(), res.Msg.GetNextPageToken(), nil
	})
}

func listInvitations(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Invitation, error] {
	return walk(func(token string) ([]*cloudv1.Invitation, string, error) {
		res, err := c.Members().ListInvitations(ctx, connect.NewRequest(&cloudv1.ListInvitationsRequest{PageSize: pageMax, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetInvitations(), res.Msg.GetNextPageToken(), nil
	})
}

func listTrusts(ctx context.Context, c *cloud.Client, account string) iter.Seq2[*cloudv1.Trust, error] {
	return walk(func(token string) ([]*cloudv1.Trust, string, error) {
		res, err := c.Trusts().ListTrusts(ctx, connect.NewRequest(&cloudv1.ListTrustsRequest{PageSize: pageMax, PageToken: token, ServiceAccountId: account}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetTrusts(), res.Msg.GetNextPageToken(), nil
	})
}

func listConnections(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.SsoConnection, error] {
	return walk(func(string) ([]*cloudv1.SsoConnection, string, error) {
		res, err := c.Connections().ListSsoConnections(ctx, connect.NewRequest(&cloudv1.ListSsoConnectionsRequest{}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetConnections(), "", nil
	})
}

func listDomains(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.Domain, error] {
	return walk(func(string) ([]*cloudv1.Domain, string, error) {
		res, err := c.Domains().ListDomains(ctx, connect.NewRequest(&cloudv1.ListDomainsRequest{}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetDomains(), "", nil
	})
}

func listSinks(ctx context.Context, c *cloud.Client) iter.Seq2[*cloudv1.AuditSink, error] {
	return walk(func(string) ([]*cloudv1.AuditSink, string, error) {
		res, err := c.Audit().ListAuditSinks(ctx, connect.NewRequest(&cloudv1.ListAuditSinksRequest{}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetSinks(), "", nil
	})
}
