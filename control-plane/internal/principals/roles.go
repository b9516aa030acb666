package principals

import (
	"context"
	"fmt"
	"slices"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// ListPermissions lists everything that a role can allow.
func (*Service) ListPermissions(context.Context, *cloudv1.ListPermissionsRequest) (*cloudv1.ListPermissionsResponse, error) {
	res := &cloudv1.ListPermissionsResponse{}
	for _, i := range permission.All() {
		res.Permissions = append(res.Permissions, &cloudv1.PermissionInfo{Name: i.Name, Level: i.Level.String(), About: i.About})
	}
	return res, nil
}

// countedRole is a role and how many bindings give it.
type countedRole struct {
	rights.Role
	bindings int
}

func counted(ctx context.Context, tx *store.Tx, tenantID string, r rights.Role) (countedRole, error) {
	n, err := tx.CountBindings(ctx, tenantID, r.ID)
	return countedRole{r, n}, err
}

// ListRoles lists the fixed roles on the first page, and the tenant's own.
func (s *Service) ListRoles(ctx context.Context, r *cloudv1.ListRolesRequest) (*cloudv1.ListRolesResponse, error) {
	shown, next, err := listing.Of[countedRole, *cloudv1.Role]{
		Method: "ListRoles", Key: func(r countedRole) string { return keyOf(r.Role) }, Show: roleMessage,
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []countedRole, _ error) {
			roles, err := pageOfRoles(ctx, tx, tenantID, p)
			for _, r := range roles {
				c, countErr := counted(ctx, tx, tenantID, r)
				if countErr != nil {
					return nil, countErr
				}
				out = append(out, c)
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListRolesResponse{Roles: shown, NextPageToken: next}, err
}

// keyOf orders the fixed roles, as they are listed, before the tenant's own.
func keyOf(r rights.Role) string {
	if !r.Fixed {
		return r.ID
	}
	return fmt.Sprintf("%02d", slices.IndexFunc(rights.Fixed(), func(f rights.Role) bool { return f.ID == r.ID }))
}

func pageOfRoles(ctx context.Context, tx *store.Tx, tenantID string, p store.Page) (out []rights.Role, _ error) {
	for _, f := range rights.Fixed() {
		if keyOf(f) > p.After && len(out) < p.Limit {
			out = append(out, f)
		}
	}
	if len(out) == p.Limit {
		return out, nil
	}
	own, err := tx.ListRoles(ctx, tenantID, store.Page{After: p.After, Limit: p.Limit - len(out)})
	for _, r := range own {
		out = append(out, rights.OwnRole(r))
	}
	return out, err
}

func roleMessage(r countedRole) *cloudv1.Role {
	m := &cloudv1.Role{
		Id: r.ID, Name: r.Name, Description: r.About, Permissions: r.Permissions.Names(), Fixed: r.Fixed, Narrowest: r.Narrowest.String(), Bindings: int32(r.bindings),
	}
	if !r.Fixed {
		m.CreatedAt, m.UpdatedAt, m.Etag = stamp(r.Own.CreatedAt), stamp(r.Own.UpdatedAt), roleTag(r.Own)
	}
	return m
}

func roleTag(r store.Role) string { return etag.Of(r.Version, r.ID) }

// GetRole finds a role by name or id.
func (s *Service) GetRole(ctx context.Context, r *cloudv1.GetRoleRequest) (*cloudv1.GetRoleResponse, error) {
	c, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (countedRole, error) {
		tenantID := access.From(ctx).TenantID
		role, err := rights.FindRole(ctx, tx, tenantID, "role", r.GetRole())
		if _, refused := fault.As(err); refused {
			return countedRole{}, fault.Missing("role")
		}
		if err != nil {
			return countedRole{}, err
		}
		return counted(ctx, tx, tenantID, role)
	})
	if err != nil {
		return nil, err
	}
	return &cloudv1.GetRoleResponse{Role: roleMessage(c)}, nil
}

// CreateRole makes a role of the tenant's own.
func (s *Service) CreateRole(ctx context.Context, r *cloudv1.CreateRoleRequest) (*cloudv1.CreateRoleResponse, error) {
	call, err := once.Of(ctx, "CreateRole", r)
	if err != nil {
		return nil, err
	}
	c, now := access.From(ctx), s.Now()
	own := store.Role{
		TenantID: c.TenantID, ID: s.IDs.New(ids.Role, now), Name: r.GetName(), Description: r.GetDescription(), CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	if own.Permissions, err = checkRole(own, r.GetPermissions()); err != nil {
		return nil, err
	}
	if err := mayHold(c, own); err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateRoleResponse)
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		if err := plans.Feature(ctx, tx, c.TenantID, now, plans.FeatureCustomRoles); err != nil {
			return err
		}
		if err := room(ctx, c.TenantID, "roles of their own", rolesMax, tx.CountRoles); err != nil {
			return err
		}
		res.Role = roleMessage(countedRole{Role: rights.OwnRole(own)})
		err := change.Make(ctx, s.Kit, tx, "role.create", change.InsertRole(own), change.Fields{"permissions": {After: own.Permissions}})
		return taken(err, "role", own.Name)
	})
	return res, err
}

// checkRole says what is wrong with a role, and gives its permissions in the order of the
// list.
func checkRole(r store.Role, names []string) ([]string, error) {
	wrong := checkText(r.Name, r.Description)
	if _, fixed := permission.FixedRole(r.Name); fixed {
		wrong = append(wrong, fault.Field{Name: "name", Problem: "is the name of a role that every tenant has"})
	}
	set, unknown := permission.SetOf(names)
	for i, n := range names {
		if slices.Contains(unknown, n) {
			wrong = append(wrong, fault.Field{Name: fmt.Sprintf("permissions[%d]", i), Problem: fmt.Sprintf("%q is no permission; ListPermissions lists them", n)})
		}
	}
	if set.Empty() && len(unknown) == 0 {
		wrong = append(wrong, fault.Field{Name: "permissions", Problem: "choose at least one"})
	}
	return set.Names(), fault.InvalidFields(wrong)
}

// mayHold refuses a role that gives more than the caller has in the whole tenant.
func mayHold(c access.Caller, r store.Role) error {
	return MayGive(c, rights.InTenant([]rights.Role{rights.OwnRole(r)}), "the role "+r.Name)
}

// own finds a role that the tenant may change.
func own(ctx context.Context, tx *store.Tx, id string) (store.Role, error) {
	tenantID := access.From(ctx).TenantID
	if r, err := rights.GetRole(ctx, tx, tenantID, id); err == nil && r.Fixed {
		return store.Role{}, fault.New(fault.Conflict, "FIXED_ROLE", "every tenant has the role %s as it is; create a role of your own instead", r.Name)
	}
	r, err := tx.GetRole(ctx, tenantID, id)
	return r, none(err, "role")
}

// UpdateRole changes what everybody with the role may do.
func (s *Service) UpdateRole(ctx context.Context, r *cloudv1.UpdateRoleRequest) (*cloudv1.UpdateRoleResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	if err := fault.InvalidMask(paths, "name", "description", "permissions"); err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateRoleResponse)
	err := s.Write(ctx, func(tx *store.Tx) error {
		c := access.From(ctx)
		role, err := own(ctx, tx, r.GetRoleId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), roleTag(role), "this role"); err != nil {
			return err
		}
		if err := mayHold(c, role); err != nil {
			return err
		}
		fields, err := editRole(&role, r, paths)
		if err != nil {
			return err
		}
		if err := mayHold(c, role); err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "role.update", change.UpdateRole(&role), fields); err != nil {
			return taken(err, "role", role.Name)
		}
		shown, err := counted(ctx, tx, c.TenantID, rights.OwnRole(role))
		res.Role = roleMessage(shown)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return res, nil
}

func editRole(role *store.Role, r *cloudv1.UpdateRoleRequest, paths []string) (change.Fields, error) {
	fields, names := change.Fields{}, role.Permissions
	for _, p := range paths {
		switch p {
		case "name":
			fields["name"] = store.Change{Before: role.Name, After: r.GetName()}
			role.Name = r.GetName()
		case "description":
			fields["description"] = store.Change{Before: role.Description, After: r.GetDescription()}
			role.Description = r.GetDescription()
		case "permissions":
			fields["permissions"] = store.Change{Before: role.Permissions, After: r.GetPermissions()}
			names = r.GetPermissions()
		}
	}
	var err error
	role.Permissions, err = checkRole(*role, names)
	return fields, err
}

// DeleteRole refuses while somebody has the role.
func (s *Service) DeleteRole(ctx context.Context, r *cloudv1.DeleteRoleRequest) (*cloudv1.DeleteRoleResponse, error) {
	return &cloudv1.DeleteRoleResponse{}, s.Write(ctx, func(tx *store.Tx) error {
		c := access.From(ctx)
		role, err := own(ctx, tx, r.GetRoleId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		if err := mayHold(c, role); err != nil {
			return err
		}
		n, err := tx.CountBindings(ctx, c.TenantID, role.ID)
		if err != nil {
			return err
		}
		if n > 0 {
			return fault.New(fault.Conflict, "ROLE_IN_USE", "the role %s is given %d times; take it away first (ListRoleBindings with its id lists who has it)", role.Name, n)
		}
		return change.Make(ctx, s.Kit, tx, "role.delete", change.DeleteRole(role), nil)
	})
}
