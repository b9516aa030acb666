package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func (s *session) serviceAccountVerbs() []verb {
	var made cloudv1.CreateServiceAccountRequest
	var edit cloudv1.UpdateServiceAccountRequest
	var revoke bool
	var command *cobra.Command
	header := []string{"ID", "NAME", "ROLES", "KEYS", "STATE"}
	row := func(a *cloudv1.ServiceAccount) []string {
		state := "enabled"
		if a.GetDisabled() {
			state = "disabled"
		}
		return []string{a.GetId(), a.GetName(), listOf(a.GetRoles()), strconv.Itoa(int(a.GetKeys())), state}
	}
	show := func(a *cloudv1.ServiceAccount) error {
		return printThings(s, []*cloudv1.ServiceAccount{a}, header, row)
	}
	find := func(t *tenantCall, nameOrID string) (*cloudv1.ServiceAccount, error) {
		res, err := tell(t, t.accounts.GetServiceAccount, &cloudv1.GetServiceAccountRequest{Tenant: t.tenant, ServiceAccount: nameOrID})
		return res.GetServiceAccount(), err
	}
	return []verb{
		s.ofTenant(verb{noun: "service-accounts list", short: "List service accounts", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.ServiceAccount, string, error) {
				res, err := tell(t, t.accounts.ListServiceAccounts, &cloudv1.ListServiceAccountsRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetServiceAccounts(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{noun: "service-accounts get", args: "ACCOUNT", short: "Show a service account", example: "  {cmd} deploy"}, func(t *tenantCall, args []string) error {
			a, err := find(t, args[0])
			if err != nil {
				return err
			}
			return show(a)
		}),
		s.ofTenant(verb{
			noun: "service-accounts create", args: "NAME", short: "Create a service account", example: "  {cmd} deploy --role operator",
			flags: func(c *cobra.Command) {
				c.Flags().StringSliceVar(&made.Roles, "role", nil, "`ROLE` that it has in the whole tenant; repeatable")
				c.Flags().StringVar(&made.Description, "description", "", "`TEXT` for people")
			},
		}, func(t *tenantCall, args []string) error {
			made.Tenant, made.Name = t.tenant, args[0]
			res, err := tell(t, t.accounts.CreateServiceAccount, &made)
			if err != nil {
				return err
			}
			return show(res.GetServiceAccount())
		}),
		s.ofTenant(verb{
			noun: "service-accounts update", args: "ACCOUNT", short: "Rename, describe, disable or enable a service account", example: "  {cmd} deploy --disabled\n  {cmd} deploy --disabled=false",
			flags: func(c *cobra.Command) {
				command = c
				c.Flags().StringVar(&edit.Name, "name", "", "new `NAME`")
				c.Flags().StringVar(&edit.Description, "description", "", "`TEXT` for people")
				c.Flags().BoolVar(&edit.Disabled, "disabled", false, "stop its keys, until it is enabled again")
			},
		}, func(t *tenantCall, args []string) error {
			mask, err := changed(command, "name", "description", "disabled")
			if err != nil {
				return err
			}
			a, err := find(t, args[0])
			if err != nil {
				return err
			}
			edit.Tenant, edit.ServiceAccountId, edit.Etag, edit.UpdateMask = t.tenant, a.GetId(), a.GetEtag(), mask
			res, err := tell(t, t.accounts.UpdateServiceAccount, &edit)
			if err != nil {
				return err
			}
			return show(res.GetServiceAccount())
		}),
		s.ofTenant(verb{
			noun: "service-accounts delete", args: "ACCOUNT", short: "Delete a service account", example: "  {cmd} deploy --revoke-keys",
			flags: func(c *cobra.Command) { c.Flags().BoolVar(&revoke, "revoke-keys", false, "revoke its keys with it") },
		}, func(t *tenantCall, args []string) error {
			a, err := find(t, args[0])
			if err != nil {
				return err
			}
			_, err = tell(t, t.accounts.DeleteServiceAccount, &cloudv1.DeleteServiceAccountRequest{Tenant: t.tenant, ServiceAccountId: a.GetId(), RevokeKeys: revoke})
			if err != nil {
				return err
			}
			return t.done(a, a.GetId(), "deleted")
		}),
	}
}

// user finds a member by email address; an id stays what it is.
func (t *tenantCall) user(who string) (string, error) {
	if strings.HasPrefix(who, "usr_") {
		return who, nil
	}
	all, err := t.allMembers()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if strings.EqualFold(m.GetEmail(), who) {
			return m.GetUserId(), nil
		}
	}
	return "", &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: who + " isn't a member", Fix: "list the members with `corvo members list`"}
}

func (t *tenantCall) allMembers() ([]*cloudv1.Member, error) {
	return everyPage(func(token string) ([]*cloudv1.Member, string, error) {
		res, err := tell(t, t.members.ListMembers, &cloudv1.ListMembersRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
		return res.GetMembers(), res.GetNextPageToken(), err
	})
}

func (s *session) userGroupVerbs() []verb {
	var made cloudv1.CreateGroupRequest
	header := []string{"ID", "NAME", "MEMBERS", "KEPT BY"}
	row := func(g *cloudv1.Group) []string {
		return []string{g.GetId(), g.GetName(), strconv.Itoa(int(g.GetMembers())), g.GetConnectionId()}
	}
	find := func(t *tenantCall, nameOrID string) (*cloudv1.Group, error) {
		res, err := tell(t, t.groups.GetGroup, &cloudv1.GetGroupRequest{Tenant: t.tenant, Group: nameOrID})
		return res.GetGroup(), err
	}
	both := func(t *tenantCall, args []string) (group, user string, _ error) {
		g, err := find(t, args[0])
		if err == nil {
			user, err = t.user(args[1])
		}
		return g.GetId(), user, err
	}
	return []verb{
		s.ofTenant(verb{noun: "groups list", short: "List groups of members", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.Group, string, error) {
				res, err := tell(t, t.groups.ListGroups, &cloudv1.ListGroupsRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetGroups(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{noun: "groups get", args: "GROUP", short: "List who is in a group", example: "  {cmd} support"}, func(t *tenantCall, args []string) error {
			g, err := find(t, args[0])
			if err != nil {
				return err
			}
			all, err := everyPage(func(token string) ([]*cloudv1.GroupMember, string, error) {
				res, err := tell(t, t.groups.ListGroupMembers, &cloudv1.ListGroupMembersRequest{Tenant: t.tenant, GroupId: g.GetId(), PageSize: accessPage, PageToken: token})
				return res.GetMembers(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, []string{"ID", "EMAIL", "NAME", "SINCE"}, func(m *cloudv1.GroupMember) []string {
				return []string{m.GetUserId(), m.GetEmail(), m.GetName(), when(m.GetAddedAt())}
			})
		}),
		s.ofTenant(verb{
			noun: "groups create", args: "NAME", short: "Create a group", example: "  {cmd} support",
			flags: func(c *cobra.Command) { c.Flags().StringVar(&made.Description, "description", "", "`TEXT` for people") },
		}, func(t *tenantCall, args []string) error {
			made.Tenant, made.Name = t.tenant, args[0]
			res, err := tell(t, t.groups.CreateGroup, &made)
			if err != nil {
				return err
			}
			return printThings(s, []*cloudv1.Group{res.GetGroup()}, header, row)
		}),
		s.ofTenant(verb{noun: "groups delete", args: "GROUP", short: "Delete a group, and take its roles from everybody in it", example: "  {cmd} support"}, func(t *tenantCall, args []string) error {
			g, err := find(t, args[0])
			if err != nil {
				return err
			}
			if _, err := tell(t, t.groups.DeleteGroup, &cloudv1.DeleteGroupRequest{Tenant: t.tenant, GroupId: g.GetId()}); err != nil {
				return err
			}
			return t.done(g, g.GetId(), "deleted")
		}),
		s.ofTenant(verb{noun: "groups add", args: "GROUP MEMBER", short: "Add a member to a group", example: "  {cmd} support ada@example.com"}, func(t *tenantCall, args []string) error {
			group, user, err := both(t, args)
			if err != nil {
				return err
			}
			res, err := tell(t, t.groups.AddGroupMembers, &cloudv1.AddGroupMembersRequest{Tenant: t.tenant, GroupId: group, UserIds: []string{user}})
			if err != nil {
				return err
			}
			t.notice(res.GetNotices())
			return t.done(res.GetGroup(), args[1], "added")
		}),
		s.ofTenant(verb{noun: "groups remove", args: "GROUP MEMBER", short: "Remove a member from a group", example: "  {cmd} support ada@example.com"}, func(t *tenantCall, args []string) error {
			group, user, err := both(t, args)
			if err != nil {
				return err
			}
			res, err := tell(t, t.groups.RemoveGroupMembers, &cloudv1.RemoveGroupMembersRequest{Tenant: t.tenant, GroupId: group, UserIds: []string{user}})
			if err != nil {
				return err
			}
			return t.done(res.GetGroup(), args[1], "removed")
		}),
	}
}

// comesBy is how a member signs in.
func comesBy(m *cloudv1.Member) string {
	switch {
	case m.GetExternal():
		return "SSO, external"
	case m.GetSsoConnectionId() != "":
		return "SSO"
	}
	return "email"
}

func (s *session) memberVerbs() []verb {
	var roles, invited []string
	return []verb{
		s.ofTenant(verb{noun: "members list", short: "List the members of the tenant", long: `Lists the members of the tenant. External are those who sign in through single sign-on with an
address outside the tenant's verified domains.`, example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			all, err := t.allMembers()
			if err != nil {
				return err
			}
			return printThings(s, all, []string{"ID", "EMAIL", "ROLES", "COMES BY", "LAST SEEN"}, func(m *cloudv1.Member) []string {
				return []string{m.GetUserId(), m.GetEmail(), listOf(m.GetRoles()), comesBy(m), when(m.GetLastSeenAt())}
			})
		}),
		s.ofTenant(verb{
			noun: "members update", args: "MEMBER", short: "Replace the roles that a member has in the whole tenant", example: "  {cmd} ada@example.com --role developer",
			flags: func(c *cobra.Command) { c.Flags().StringSliceVar(&roles, "role", nil, "`ROLE`; repeatable") },
		}, func(t *tenantCall, args []string) error {
			if len(roles) == 0 {
				return usagef("--role is required; corvo members remove removes a member")
			}
			id, err := t.user(args[0])
			if err != nil {
				return err
			}
			res, err := tell(t, t.members.UpdateMember, &cloudv1.UpdateMemberRequest{Tenant: t.tenant, UserId: id, Roles: roles})
			if err != nil {
				return err
			}
			return t.done(res.GetMember(), args[0], listOf(res.GetMember().GetRoles()))
		}),
		s.ofTenant(verb{noun: "members remove", args: "MEMBER", short: "Remove a member, and revoke their own keys", example: "  {cmd} ada@example.com"}, func(t *tenantCall, args []string) error {
			id, err := t.user(args[0])
			if err != nil {
				return err
			}
			res, err := tell(t, t.members.RemoveMember, &cloudv1.RemoveMemberRequest{Tenant: t.tenant, UserId: id})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "removed")
		}),
		s.ofTenant(verb{noun: "invitations list", short: "List invitations that aren't accepted yet", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.Invitation, string, error) {
				res, err := tell(t, t.members.ListInvitations, &cloudv1.ListInvitationsRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetInvitations(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, []string{"ID", "EMAIL", "ROLES", "INVITED BY", "EXPIRES"}, func(i *cloudv1.Invitation) []string {
				return []string{i.GetId(), i.GetEmail(), listOf(i.GetRoles()), i.GetInvitedBy(), instant(i.GetExpiresAt())}
			})
		}),
		s.ofTenant(verb{
			noun: "invitations create", args: "EMAIL", short: "Invite somebody to the tenant", example: "  {cmd} ada@example.com --role developer",
			flags: func(c *cobra.Command) {
				c.Flags().StringSliceVar(&invited, "role", nil, "`ROLE` in the whole tenant; repeatable")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.members.CreateInvitation, &cloudv1.CreateInvitationRequest{Tenant: t.tenant, Email: args[0], Roles: invited})
			if err != nil {
				return err
			}
			return t.done(res.GetInvitation(), res.GetInvitation().GetId(), args[0])
		}),
		s.ofTenant(verb{noun: "invitations revoke", args: "ID", short: "Revoke an invitation", example: "  {cmd} inv_01K..."}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.members.RevokeInvitation, &cloudv1.RevokeInvitationRequest{Tenant: t.tenant, InvitationId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "revoked")
		}),
	}
}

func (s *session) keyVerbs() []verb {
	var list cloudv1.ListApiKeysRequest
	var made cloudv1.CreateApiKeyRequest
	var edit cloudv1.UpdateApiKeyRequest
	var kind, expires, editExpires string
	var overlap time.Duration
	var command *cobra.Command
	header := []string{"ID", "NAME", "OWNER", "NAMESPACES", "NARROWED TO", "EXPIRES", "LAST USED"}
	row := func(k *cloudv1.ApiKey) []string {
		narrowed := strings.Join(append(append(append([]string{}, k.GetPermissions()...), k.GetQueues()...), k.GetCidrs()...), " ")
		return []string{k.GetId(), k.GetName(), k.GetOwner(), listOf(k.GetNamespaceIds()), narrowed, instant(k.GetExpiresAt()), when(k.GetLastUsedAt())}
	}
	return []verb{
		s.ofTenant(verb{
			noun: "keys list", short: "List API keys", example: "  {cmd}\n  {cmd} --owner sa_01K...",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&list.OwnerId, "owner", "", "only of this service account or user `ID`")
				c.Flags().BoolVar(&list.ShowRevoked, "revoked", false, "revoked ones too")
			},
		}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.ApiKey, string, error) {
				list.Tenant, list.PageSize, list.PageToken = t.tenant, accessPage, token
				res, err := tell(t, t.keys.ListApiKeys, &list)
				return res.GetApiKeys(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{noun: "keys get", args: "ID", short: "Show an API key, and what it may do now", example: "  {cmd} key_9f3KxQ2mZt7B"}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.keys.GetApiKey, &cloudv1.GetApiKeyRequest{Tenant: t.tenant, KeyId: args[0]})
			if err != nil {
				return err
			}
			return s.emitMessage(res.GetApiKey(), func(w io.Writer) {
				cells := row(res.GetApiKey())
				for i := range cells {
					cells[i] = cmp.Or(cells[i], "-")
				}
				s.table(w, header, [][]string{cells})
				printKey(w, res.GetApiKey())
			})
		}),
		s.ofTenant(verb{
			noun: "keys create", args: "NAME", short: "Create an API key, and print it once",
			long: `Creates a key of a service account (--owner), of a service account that is made for it alone
(--role), or of yourself (--kind personal). The key is printed once and can't be shown again.`,
			example: "  {cmd} deploy --owner deploy --queue 'mail.*' --cidr 203.0.113.0/24\n  {cmd} worker --role worker --in production\n  {cmd} laptop --kind personal --expires 2027-01-01",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&kind, "kind", "jobs", "`KIND`: jobs, management or personal")
				completeWords(c, "kind", "jobs", "management", "personal")
				c.Flags().StringVar(&made.Owner, "owner", "", "service `ACCOUNT`, by name or id")
				c.Flags().StringSliceVar(&made.Roles, "role", nil, "`ROLE` of a service account for this key alone; repeatable")
				narrowing(c, &made.Namespaces, &made.Permissions, &made.Queues, &made.Cidrs)
				c.Flags().StringVar(&expires, "expires", "", "`TIME`: 2027-01-01 or 2027-01-01T12:00:00Z (default: never)")
			},
		}, func(t *tenantCall, args []string) error {
			known := map[string]cloudv1.KeyKind{
				"jobs": cloudv1.KeyKind_KEY_KIND_JOBS, "management": cloudv1.KeyKind_KEY_KIND_MANAGEMENT, "personal": cloudv1.KeyKind_KEY_KIND_PERSONAL,
			}
			var err error
			if made.Kind = known[kind]; made.GetKind() == 0 {
				return usagef("--kind %q isn't jobs, management or personal", kind)
			}
			if made.ExpiresAt, err = momentOf("expires", expires, time.Now()); err != nil {
				return err
			}
			made.Tenant, made.Name = t.tenant, args[0]
			res, err := tell(t, t.keys.CreateApiKey, &made)
			if err != nil {
				return err
			}
			return t.done(res, res.GetApiKey().GetId(), res.GetSecret())
		}),
		s.ofTenant(verb{
			noun: "keys update", args: "ID", short: "Rename a key, or change what it is narrowed to", example: "  {cmd} key_9f3KxQ2mZt7B --cidr 203.0.113.0/24\n  {cmd} key_9f3KxQ2mZt7B --queue ''",
			flags: func(c *cobra.Command) {
				command = c
				c.Flags().StringVar(&edit.Name, "name", "", "new `NAME`")
				narrowing(c, &edit.Namespaces, &edit.Permissions, &edit.Queues, &edit.Cidrs)
				c.Flags().StringVar(&editExpires, "expires", "", "`TIME`: 2027-01-01 or 2027-01-01T12:00:00Z; empty: never")
			},
		}, func(t *tenantCall, args []string) error {
			mask, err := changed(command, "name", "in", "permission", "queue", "cidr", "expires")
			if err != nil {
				return err
			}
			if edit.ExpiresAt, err = momentOf("expires", editExpires, time.Now()); err != nil {
				return err
			}
			edit.Tenant, edit.KeyId, edit.UpdateMask = t.tenant, args[0], mask
			res, err := tell(t, t.keys.UpdateApiKey, &edit)
			if err != nil {
				return err
			}
			return printThings(s, []*cloudv1.ApiKey{res.GetApiKey()}, header, row)
		}),
		s.ofTenant(verb{
			noun: "keys rotate", args: "ID", short: "Give a key a second secret, and print it once", example: "  {cmd} key_9f3KxQ2mZt7B --overlap 24h",
			flags: func(c *cobra.Command) {
				c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old secret keeps working, at most 168h")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.keys.RotateApiKey, &cloudv1.RotateApiKeyRequest{Tenant: t.tenant, KeyId: args[0], OverlapSeconds: int64(overlap.Seconds())})
			if err != nil {
				return err
			}
			return t.done(res, args[0], res.GetSecret())
		}),
		s.ofTenant(verb{noun: "keys revoke", args: "ID", short: "Revoke a key for good", example: "  {cmd} key_9f3KxQ2mZt7B"}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.keys.RevokeApiKey, &cloudv1.RevokeApiKeyRequest{Tenant: t.tenant, KeyId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "revoked")
		}),
	}
}

// printKey prints what a list of keys has no room for: when it ended, its secrets, and what
// it may do.
func printKey(w io.Writer, k *cloudv1.ApiKey) {
	if k.GetRevokedAt() != nil {
		fmt.Fprintf(w, "revoked %s\n", instant(k.GetRevokedAt()))
	}
	for _, v := range k.GetVersions() {
		fmt.Fprintf(w, "secret of %s, expires %s, last used %s\n", instant(v.GetCreatedAt()), cmp.Or(instant(v.GetExpiresAt()), "with the key"), cmp.Or(when(v.GetLastUsedAt()), "never"))
	}
	if k.GetStoppedForJobs() {
		fmt.Fprintln(w, "the sign-in policy lets this key do nothing at the tenant URL")
	}
	for _, g := range k.GetEffective() {
		where := "in " + cmp.Or(listOf(g.GetNamespaceIds()), "all namespaces")
		if len(g.GetQueues()) > 0 {
			where += ", queues " + listOf(g.GetQueues())
		}
		fmt.Fprintf(w, "may %s: %s\n", where, listOf(g.GetPermissions()))
	}
	if len(k.GetEffective()) == 0 {
		fmt.Fprintln(w, "may do nothing now")
	}
}

// narrowing are the flags that make a key do less than its owner.
func narrowing(c *cobra.Command, namespaces, permissions, queues, cidrs *[]string) {
	c.Flags().StringSliceVar(namespaces, "in", nil, "only in `NAMESPACE`, by name or id; repeatable")
	c.Flags().StringSliceVar(permissions, "permission", nil, "only this `PERMISSION` of the owner's; repeatable")
	c.Flags().StringSliceVar(queues, "queue", nil, "only queues of this `PATTERN`; repeatable")
	c.Flags().StringSliceVar(cidrs, "cidr", nil, "only from this `NETWORK`; repeatable")
}
