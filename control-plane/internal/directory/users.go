package directory

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	usersMax = 50_000
	nameMax  = 100 // Characters of a name that is shown.
)

// directory is the users and groups of a connection, as its directory sees them.
type directory struct {
	*Service
	tenant store.Tenant
	conn   store.Connection
	token  store.ScimToken
}

// write changes something, in terms of the protocol.
func (d *directory) write(ctx context.Context, f func(*store.Tx) error) error {
	return inProtocol(d.Write(ctx, f))
}

func inProtocol(err error) error {
	if e := refusalOf(err); err != nil && e != nil {
		return e
	}
	return err
}

func read[T any](ctx context.Context, d *directory, f func(*store.Tx) (T, error)) (T, error) {
	v, err := kit.Read(ctx, d.Kit, f)
	return v, inProtocol(err)
}

// user finds one of this directory.
func (d *directory) user(ctx context.Context, tx *store.Tx, id string) (store.DirectoryUser, error) {
	v, err := tx.GetDirectoryUser(ctx, d.tenant.ID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && v.ConnectionID != d.conn.ID {
		return v, scim.Missing(scim.User)
	}
	return v, err
}

// Get implements scim.Backend.
func (d *directory) Get(ctx context.Context, k scim.Kind, id string, related bool) (scim.Resource, error) {
	return read(ctx, d, func(tx *store.Tx) (scim.Resource, error) {
		if k == scim.Group {
			g, err := d.group(ctx, tx, id)
			if err != nil {
				return scim.Resource{}, err
			}
			return groupResource(ctx, tx, g, related)
		}
		v, err := d.user(ctx, tx, id)
		if err != nil {
			return scim.Resource{}, err
		}
		return userResource(ctx, tx, v, related)
	})
}

func userResource(ctx context.Context, tx *store.Tx, v store.DirectoryUser, withGroups bool) (scim.Resource, error) {
	o := maps.Clone(v.Attributes)
	if o == nil {
		o = scim.Object{}
	}
	o["active"] = v.Active
	r := scim.Resource{Kind: scim.User, ID: v.UserID, Version: v.Version, Created: v.CreatedAt, Modified: v.UpdatedAt, Attributes: o}
	if !withGroups {
		return r, nil
	}
	for g, err := range directoryGroups(ctx, tx, v) {
		if err != nil {
			return r, err
		}
		r.Groups = append(r.Groups, scim.Reference{ID: g.ID, Display: g.Name})
	}
	return r, nil
}

func directoryGroups(ctx context.Context, tx *store.Tx, v store.DirectoryUser) iter.Seq2[store.Group, error] {
	return store.All(func(p store.Page) ([]store.Group, error) { return tx.DirectoryGroupsOf(ctx, v.TenantID, v.UserID, p) }, func(g store.Group) string { return g.ID })
}

// List implements scim.Backend.
func (d *directory) List(ctx context.Context, k scim.Kind, q scim.Query) (scim.List, error) {
	if k == scim.User && q.Filter != nil && !hasIndex(q.Filter) {
		end, refusal := d.door.scans.begin(d.tenant.ID)
		if refusal != nil {
			return scim.List{}, refusal
		}
		defer end()
	}
	return read(ctx, d, func(tx *store.Tx) (scim.List, error) {
		if k == scim.Group {
			return d.listGroups(ctx, tx, q)
		}
		return d.listUsers(ctx, tx, q)
	})
}

func (d *directory) listUsers(ctx context.Context, tx *store.Tx, q scim.Query) (l scim.List, err error) {
	if q.Filter == nil {
		if l.Total, _, err = tx.CountDirectoryUsers(ctx, d.tenant.ID, d.conn.ID); err != nil || q.Count == 0 {
			return l, err
		}
		page, err := tx.ListDirectoryUsers(ctx, d.tenant.ID, d.conn.ID, q.Start, store.Page{Limit: q.Count})
		for _, v := range page {
			r, err := userResource(ctx, tx, v, q.Members)
			if err != nil {
				return l, err
			}
			l.Resources = append(l.Resources, r)
		}
		return l, err
	}
	for v, err := range d.candidates(ctx, tx, q.Filter) {
		if err != nil {
			return l, err
		}
		r, err := userResource(ctx, tx, v, false)
		if err != nil {
			return l, err
		}
		if ok, err := q.Filter.Matches(r, nil); err != nil || !ok {
			continue
		}
		if l.Total++; l.Total <= q.Start || len(l.Resources) >= q.Count {
			continue
		}
		if r, err = userResource(ctx, tx, v, q.Members); err != nil {
			return l, err
		}
		l.Resources = append(l.Resources, r)
	}
	return l, nil
}

// hasIndex reports whether a filter's candidates are found by one look-up.
func hasIndex(f *scim.Filter) bool {
	for _, name := range []string{"id", "userName", "externalId"} {
		if v, ok := f.Needs(name); ok && (v != "" || name != "externalId") {
			return true
		}
	}
	return false
}

// candidates are the users that a filter can match: one look-up where it allows one.
func (d *directory) candidates(ctx context.Context, tx *store.Tx, f *scim.Filter) iter.Seq2[store.DirectoryUser, error] {
	one := func(v store.DirectoryUser, err error) iter.Seq2[store.DirectoryUser, error] {
		return func(yield func(store.DirectoryUser, error) bool) {
			if _, refused := scim.As(err); !refused && !errors.Is(err, store.ErrNotFound) {
				yield(v, err)
			}
		}
	}
	if id, ok := f.Needs("id"); ok {
		return one(d.user(ctx, tx, id))
	}
	if name, ok := f.Needs("userName"); ok {
		return one(tx.DirectoryUserByName(ctx, d.tenant.ID, d.conn.ID, strings.ToLower(name)))
	}
	if id, ok := f.Needs("externalId"); ok && id != "" {
		all, err := tx.DirectoryUsersByExternalID(ctx, d.tenant.ID, d.conn.ID, id)
		return func(yield func(store.DirectoryUser, error) bool) {
			if err != nil {
				yield(store.DirectoryUser{}, err)
			}
			for _, v := range all {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
	return store.All(func(p store.Page) ([]store.DirectoryUser, error) {
		return tx.ListDirectoryUsers(ctx, d.tenant.ID, d.conn.ID, 0, p)
	},
		func(v store.DirectoryUser) string { return v.UserID })
}

// fill sets what a resource says.
func fill(v *store.DirectoryUser, o scim.Object) {
	v.Attributes = maps.Clone(o)
	delete(v.Attributes, "active")
	v.UserName, _ = o["userName"].(string)
	v.ExternalID, _ = o["externalId"].(string)
	v.NameKey = strings.ToLower(v.UserName)
}

// wanted reports whether a resource is to be active; it is unless it says otherwise.
func wanted(o scim.Object) bool { return o["active"] != false }

// person is what people see of a user: the primary address, or else the one for work, the
// first, or the name to sign in with; and a name.
func person(o scim.Object) (email, name string) {
	list, _ := o["emails"].([]any)
	for _, is := range []func(scim.Object) bool{
		func(e scim.Object) bool { return e["primary"] == true }, func(e scim.Object) bool { return e["type"] == "work" }, func(scim.Object) bool { return true },
	} {
		for _, e := range list {
			if e, ok := e.(scim.Object); ok && email == "" && is(e) {
				email = address(e["value"])
			}
		}
	}
	full, _ := o["name"].(scim.Object)
	text := func(v any) string { s, _ := v.(string); return strings.Join(strings.Fields(s), " ") }
	name = cmp.Or(text(o["displayName"]), text(full["formatted"]), strings.TrimSpace(text(full["givenName"])+" "+text(full["familyName"])))
	if r := []rune(name); len(r) > nameMax {
		name = string(r[:nameMax])
	}
	return cmp.Or(email, address(o["userName"])), name
}

func address(v any) string {
	text, _ := v.(string)
	a, err := mail.Address(text)
	if err != nil {
		return ""
	}
	return a
}

// Create implements scim.Backend.
func (d *directory) Create(ctx context.Context, k scim.Kind, o scim.Object, ids []string) (r scim.Resource, _ error) {
	err := d.write(ctx, func(tx *store.Tx) (err error) {
		if k == scim.Group {
			r, err = d.createGroup(ctx, tx, o, ids)
		} else {
			r, err = d.createUser(ctx, tx, o)
		}
		return err
	})
	return r, err
}

func nameTaken(v store.DirectoryUser) error {
	return scim.Refuse(http.StatusConflict, scim.Uniqueness, "the directory already has a user with the userName %q; its id is %s", v.UserName, v.UserID)
}

func (d *directory) createUser(ctx context.Context, tx *store.Tx, o scim.Object) (r scim.Resource, _ error) {
	now := d.Now()
	v := store.DirectoryUser{TenantID: d.tenant.ID, ConnectionID: d.conn.ID, CreatedAt: now, UpdatedAt: now, Version: 1}
	fill(&v, o)
	other, err := tx.DirectoryUserByName(ctx, v.TenantID, v.ConnectionID, v.NameKey)
	if err == nil {
		return r, nameTaken(other)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	if n, _, err := tx.CountDirectoryUsers(ctx, v.TenantID, v.ConnectionID); err != nil || n >= usersMax {
		return r, cmp.Or(err, error(fault.New(fault.Conflict, "LIMIT", "a directory can't have more than %d users", usersMax)))
	}
	u, err := d.userOf(ctx, tx, v, o)
	if err != nil {
		return r, err
	}
	v.UserID = u.ID
	if err := change.Make(ctx, d.Kit, tx, "directory_user.create", change.InsertDirectoryUser(v), change.Fields{"external_id": {After: v.ExternalID}}); err != nil {
		return r, err
	}
	if wanted(o) {
		if err := d.activate(ctx, tx, &v, u); err != nil {
			return r, err
		}
	}
	return userResource(ctx, tx, v, false)
}

// userOf finds the person who signed in through this connection before its directory spoke
// of them, or makes one.
func (d *directory) userOf(ctx context.Context, tx *store.Tx, v store.DirectoryUser, o scim.Object) (u store.User, _ error) {
	email, name := person(o)
	if err := d.checkRemoved(ctx, tx, "", email); err != nil {
		return u, err
	}
	u, found, err := d.cameBefore(ctx, tx, v)
	if err != nil || found {
		return u, err
	}
	u = store.User{ID: d.IDs.New(ids.User, d.Now()), Email: email, Name: name, HomeTenant: d.tenant.ID, CreatedAt: d.Now()}
	return u, tx.InsertUser(ctx, u)
}

// cameBefore goes by the same rule as a first sign-in: externalId is the subject, or
// userName the subject or the address that the provider vouches for.
func (d *directory) cameBefore(ctx context.Context, tx *store.Tx, v store.DirectoryUser) (u store.User, found bool, _ error) {
	for _, subject := range []string{v.ExternalID, v.UserName} {
		id, err := tx.GetIdentity(ctx, v.TenantID, v.ConnectionID, d.conn.Issuer, subject)
		if err == nil {
			_, err = tx.GetDirectoryUser(ctx, v.TenantID, id.UserID)
			if errors.Is(err, store.ErrNotFound) {
				u, err = tx.GetUser(ctx, id.UserID)
				return u, err == nil, err
			}
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return u, false, err
		}
	}
	email := address(v.UserName)
	if email == "" {
		return u, false, nil
	}
	all, err := tx.CameBy(ctx, v.TenantID, v.ConnectionID, email)
	if err != nil || len(all) != 1 {
		return u, false, err
	}
	return all[0], true, nil
}

// checkRemoved refuses to bring back whom people removed, until they are invited.
func (d *directory) checkRemoved(ctx context.Context, tx *store.Tx, userID, email string) error {
	gone, err := tx.IsRemovedByPeople(ctx, d.tenant.ID, userID, email)
	if err != nil || !gone {
		return err
	}
	open, err := tx.ListInvitations(ctx, d.tenant.ID, store.Page{Limit: members.InvitationsMax})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(open, func(i store.Invitation) bool { return email != "" && i.Email == email && d.Now().Before(i.ExpiresAt) }) {
		return nil
	}
	return fault.New(fault.Conflict, "REMOVED", "this person was removed from the tenant %s by somebody there; an owner or admin must invite them before the directory can bring them back", d.tenant.Name)
}

// activate makes a user a member, with the connection's default role and their groups.
func (d *directory) activate(ctx context.Context, tx *store.Tx, v *store.DirectoryUser, u store.User) error {
	if err := d.checkRemoved(ctx, tx, u.ID, u.Email); err != nil {
		return err
	}
	if err := tx.DeleteRemovals(ctx, v.TenantID, u.ID, u.Email); err != nil {
		return err
	}
	_, err := tx.GetMembership(ctx, v.TenantID, u.ID)
	if errors.Is(err, store.ErrNotFound) {
		err = d.join(ctx, tx, *v, u)
	}
	if err != nil {
		return err
	}
	v.Active = true
	if err := change.Make(ctx, d.Kit, tx, "directory_user.activate", change.UpdateDirectoryUser(v), nil); err != nil {
		return err
	}
	for g, err := range directoryGroups(ctx, tx, *v) {
		if err != nil {
			return err
		}
		if in, err := tx.InGroup(ctx, g.TenantID, g.ID, u.ID); err != nil || in {
			return cmp.Or(err, errors.New("a user who is not active is in a group"))
		}
		if err := change.Make(ctx, d.Kit, tx, "group.add_members", change.SyncMembers(&g, []string{u.ID}, nil), change.Fields{"members": {After: []string{v.UserName}}}); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) join(ctx context.Context, tx *store.Tx, v store.DirectoryUser, u store.User) error {
	if err := plans.Another(ctx, tx, v.TenantID, d.Now(), plans.Members, 0); err != nil {
		return err
	}
	m := store.Membership{TenantID: v.TenantID, UserID: u.ID, ConnectionID: d.conn.ID, CreatedAt: d.Now(), Version: 1}
	var roles []rights.Role
	if d.conn.DefaultRole != "" {
		role, err := rights.NewReader(tx, v.TenantID).Role(ctx, d.conn.DefaultRole)
		if err != nil {
			return err
		}
		roles = append(roles, role)
	}
	given := principals.Bindings(d.Kit, access.From(ctx), v.TenantID, u.ID, d.conn.ID, roles, d.Now())
	return change.Make(ctx, d.Kit, tx, "member.create", change.InsertMember(m, u, given...), change.Fields{"roles": {After: rights.Names(roles)}})
}

// deactivate ends the membership with all that rests on it, and gives the user as they are
// then. The last owner stays, which the log says.
func (d *directory) deactivate(ctx context.Context, tx *store.Tx, v store.DirectoryUser) (store.DirectoryUser, error) {
	m, err := tx.GetMembership(ctx, v.TenantID, v.UserID)
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	u, err := tx.GetUser(ctx, v.UserID)
	if err != nil {
		return v, err
	}
	_, err = members.Remove(ctx, d.Kit, tx, m, u, nil)
	if f, ok := fault.As(err); ok && f.Reason == "LAST_OWNER" {
		return v, d.keepOwner(ctx, tx, v)
	}
	if err != nil {
		return v, err
	}
	return tx.GetDirectoryUser(ctx, v.TenantID, v.UserID)
}

func (d *directory) keepOwner(ctx context.Context, tx *store.Tx, v store.DirectoryUser) error {
	const why = "the last owner of a tenant can't be deactivated or removed"
	if err := change.Make(ctx, d.Kit, tx, "directory_user.keep", change.KeptDirectoryUser(v), change.Fields{"reason": {After: why}}); err != nil {
		return err
	}
	return store.CommitDespite(scim.Refuse(http.StatusConflict, "", "%s: %s is the only owner of %s; make someone else an owner there first", why, v.UserName, d.tenant.Name))
}

// Update implements scim.Backend.
func (d *directory) Update(ctx context.Context, k scim.Kind, id string, make scim.Change) (r scim.Resource, _ error) {
	err := d.write(ctx, func(tx *store.Tx) (err error) {
		if k == scim.Group {
			r, err = d.updateGroup(ctx, tx, id, make)
		} else {
			r, err = d.updateUser(ctx, tx, id, make)
		}
		return err
	})
	return r, err
}

func (d *directory) updateUser(ctx context.Context, tx *store.Tx, id string, make scim.Change) (r scim.Resource, _ error) {
	v, err := d.user(ctx, tx, id)
	if err != nil {
		return r, err
	}
	if r, err = userResource(ctx, tx, v, false); err != nil {
		return r, err
	}
	o, _, err := make(r)
	if err != nil || scim.Same(o, r.Attributes) {
		return r, err
	}
	was := v.Active
	if was && !wanted(o) {
		if v, err = d.deactivate(ctx, tx, v); err != nil {
			return r, err
		}
		v.Active = false
	}
	u, err := d.describe(ctx, tx, &v, r.Attributes, o)
	if err != nil {
		return r, err
	}
	if !was && wanted(o) {
		if err := d.activate(ctx, tx, &v, u); err != nil {
			return r, err
		}
	}
	return userResource(ctx, tx, v, false)
}

// describe writes what the directory says of a user now, but for active.
func (d *directory) describe(ctx context.Context, tx *store.Tx, v *store.DirectoryUser, before, after scim.Object) (u store.User, _ error) {
	wasName, wasKey := v.UserName, v.NameKey
	fill(v, after)
	if v.NameKey != wasKey {
		other, err := tx.DirectoryUserByName(ctx, v.TenantID, v.ConnectionID, v.NameKey)
		if err == nil {
			return u, nameTaken(other)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return u, err
		}
	}
	u, err := tx.GetUser(ctx, v.UserID)
	if err != nil {
		return u, err
	}
	if email, name := person(after); email != u.Email || name != u.Name {
		u.Email, u.Name = cmp.Or(email, u.Email), cmp.Or(name, u.Name)
		if err := tx.UpdateUser(ctx, u); err != nil {
			return u, err
		}
	}
	fields := change.Fields{"attributes": {After: differing(before, after)}}
	if v.UserName != wasName {
		fields["user_name"] = store.Change{Before: wasName, After: v.UserName}
	}
	if before["active"] != after["active"] && after["active"] != nil {
		fields["active"] = store.Change{Before: before["active"], After: after["active"]}
	}
	return u, change.Make(ctx, d.Kit, tx, "directory_user.update", change.UpdateDirectoryUser(v), fields)
}

// differing names the attributes that differ: their values are the person's.
func differing(a, b scim.Object) (out []string) {
	for _, o := range []scim.Object{a, b} {
		for name := range o {
			if !slices.Contains(out, name) && !scim.Same(scim.Object{"": a[name]}, scim.Object{"": b[name]}) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Delete implements scim.Backend.
func (d *directory) Delete(ctx context.Context, k scim.Kind, id string, before func(scim.Resource) error) error {
	return d.write(ctx, func(tx *store.Tx) error {
		if k == scim.Group {
			return d.deleteGroup(ctx, tx, id, before)
		}
		v, err := d.user(ctx, tx, id)
		if err != nil {
			return err
		}
		r, err := userResource(ctx, tx, v, false)
		if err != nil {
			return err
		}
		if err := before(r); err != nil {
			return err
		}
		return d.deleteUser(ctx, tx, v)
	})
}

// deleteUser leaves a removal, so that a sign-in doesn't bring the person back; this
// directory may.
func (d *directory) deleteUser(ctx context.Context, tx *store.Tx, v store.DirectoryUser) error {
	u, err := tx.GetUser(ctx, v.UserID)
	if err != nil {
		return err
	}
	if v, err = d.deactivate(ctx, tx, v); err != nil {
		return err
	}
	byPeople, err := tx.IsRemovedByPeople(ctx, v.TenantID, u.ID, "")
	if err != nil {
		return err
	}
	if !byPeople {
		removal := store.Removal{TenantID: v.TenantID, UserID: u.ID, Email: u.Email, RemovedBy: access.From(ctx).Name, RemovedAt: d.Now(), ConnectionID: d.conn.ID}
		if err := tx.PutRemoval(ctx, removal); err != nil {
			return err
		}
	}
	return change.Make(ctx, d.Kit, tx, "directory_user.delete", change.DeleteDirectoryUser(v), nil)
}
