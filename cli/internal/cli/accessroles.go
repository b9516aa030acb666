package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func (s *session) roleVerbs() []verb {
	var made cloudv1.CreateRoleRequest
	var edit cloudv1.UpdateRoleRequest
	var command *cobra.Command
	header := []string{"ID", "NAME", "GIVEN", "PERMISSIONS"}
	row := func(r *cloudv1.Role) []string {
		return []string{r.GetId(), r.GetName(), strconv.Itoa(int(r.GetBindings())), listOf(r.GetPermissions())}
	}
	show := func(t *tenantCall, r *cloudv1.Role) error {
		return t.done(r, r.GetId(), r.GetName()+"  "+listOf(r.GetPermissions()))
	}
	return []verb{
		s.ofTenant(verb{noun: "roles list", short: "List roles: first those that every tenant has", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.Role, string, error) {
				res, err := tell(t, t.roles.ListRoles, &cloudv1.ListRolesRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetRoles(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{noun: "roles get", args: "ROLE", short: "Show a role and what it allows", example: "  {cmd} producer"}, func(t *tenantCall, args []string) error {
			r, err := t.role(args[0])
			if err != nil {
				return err
			}
			return show(t, r)
		}),
		s.ofTenant(verb{
			noun: "roles create", args: "NAME", short: "Create a role", example: "  {cmd} on-call --permission job.list,job.retry,queue.pause",
			flags: func(c *cobra.Command) {
				c.Flags().StringSliceVar(&made.Permissions, "permission", nil, "`PERMISSION` that it allows; repeatable")
				c.Flags().StringVar(&made.Description, "description", "", "`TEXT` for people")
			},
		}, func(t *tenantCall, args []string) error {
			made.Tenant, made.Name = t.tenant, args[0]
			res, err := tell(t, t.roles.CreateRole, &made)
			if err != nil {
				return err
			}
			return show(t, res.GetRole())
		}),
		s.ofTenant(verb{
			noun: "roles update", args: "ROLE", short: "Change a role, for everybody who has it", example: "  {cmd} on-call --permission job.list,job.retry",
			flags: func(c *cobra.Command) {
				command = c
				c.Flags().StringVar(&edit.Name, "name", "", "new `NAME`")
				c.Flags().StringVar(&edit.Description, "description", "", "`TEXT` for people")
				c.Flags().StringSliceVar(&edit.Permissions, "permission", nil, "`PERMISSION` that it allows, instead of all others; repeatable")
			},
		}, func(t *tenantCall, args []string) error {
			mask, err := changed(command, "name", "description", "permission")
			if err != nil {
				return err
			}
			r, err := t.role(args[0])
			if err != nil {
				return err
			}
			edit.Tenant, edit.RoleId, edit.Etag, edit.UpdateMask = t.tenant, r.GetId(), r.GetEtag(), mask
			res, err := tell(t, t.roles.UpdateRole, &edit)
			if err != nil {
				return err
			}
			return show(t, res.GetRole())
		}),
		s.ofTenant(verb{noun: "roles delete", args: "ROLE", short: "Delete a role that nobody has", example: "  {cmd} on-call"}, func(t *tenantCall, args []string) error {
			r, err := t.role(args[0])
			if err != nil {
				return err
			}
			if _, err := tell(t, t.roles.DeleteRole, &cloudv1.DeleteRoleRequest{Tenant: t.tenant, RoleId: r.GetId()}); err != nil {
				return err
			}
			return t.done(r, r.GetId(), "deleted")
		}),
	}
}

func (t *tenantCall) role(nameOrID string) (*cloudv1.Role, error) {
	res, err := tell(t, t.roles.GetRole, &cloudv1.GetRoleRequest{Tenant: t.tenant, Role: nameOrID})
	return res.GetRole(), err
}

func (s *session) bindingVerbs() []verb {
	var filter cloudv1.ListRoleBindingsRequest
	var scope cloudv1.Scope
	header := []string{"ID", "WHO", "ROLE", "WHERE", "FROM"}
	row := func(b *cloudv1.RoleBinding) []string {
		return []string{b.GetId(), b.GetPrincipal(), b.GetRole(), place(b.GetScope()), b.GetSource()}
	}
	return []verb{
		s.ofTenant(verb{
			noun: "bindings list", short: "List who has which role where", example: "  {cmd}\n  {cmd} --principal sa_01K...",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&filter.PrincipalId, "principal", "", "only of this user, service account or group `ID`")
				c.Flags().StringVar(&filter.RoleId, "role", "", "only of this role `ID`")
			},
		}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.RoleBinding, string, error) {
				filter.Tenant, filter.PageSize, filter.PageToken = t.tenant, accessPage, token
				res, err := tell(t, t.roles.ListRoleBindings, &filter)
				return res.GetRoleBindings(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{
			noun: "bindings create", args: "PRINCIPAL ROLE", short: "Give a role to a user, service account or group",
			example: "  {cmd} sa_01K... worker --in production --queues 'mail.*'",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&scope.Namespace, "in", "", "`NAMESPACE`, by name or id (default: the whole tenant)")
				c.Flags().StringVar(&scope.Queues, "queues", "", "`PATTERN`: a queue's name, or the beginning of names and *")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.roles.CreateRoleBinding, &cloudv1.CreateRoleBindingRequest{Tenant: t.tenant, PrincipalId: args[0], Role: args[1], Scope: &scope})
			if err != nil {
				return err
			}
			t.notice(res.GetNotices())
			return printThings(s, []*cloudv1.RoleBinding{res.GetRoleBinding()}, header, row)
		}),
		s.ofTenant(verb{noun: "bindings delete", args: "ID", short: "Take a role away", example: "  {cmd} bnd_01K..."}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.roles.DeleteRoleBinding, &cloudv1.DeleteRoleBindingRequest{Tenant: t.tenant, RoleBindingId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "deleted")
		}),
	}
}
