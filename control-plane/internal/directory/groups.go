package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	groupNameMax = 256 // Characters.
	// shownMax bounds the members that one list of groups shows together; a page ends
	// before it has more.
	shownMax = 20_000
	// namedMax is how many members an entry of the audit log names.
	namedMax = 50
)

// group finds one of this directory.
func (d *directory) group(ctx context.Context, tx *store.Tx, id string) (store.Group, error) {
	g, err := tx.GetGroup(ctx, d.tenant.ID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && g.ConnectionID != d.conn.ID {
		return g, scim.Missing(scim.Group)
	}
	return g, err
}

func groupResource(ctx context.Context, tx *store.Tx, g store.Group, withMembers bool) (scim.Resource, error) {
	o := scim.Object{"displayName": g.Name}
	if g.ExternalID != "" {
		o["externalId"] = g.ExternalID
	}
	r := scim.Resource{Kind: scim.Group, ID: g.ID, Version: g.Version, Created: g.CreatedAt, Modified: g.UpdatedAt, Attributes: o}
	if !withMembers {
		return r, nil
	}
	for m, err := range membersOf(ctx, tx, g) {
		if err != nil {
			return r, err
		}
		r.Members = append(r.Members, scim.Reference{ID: m.UserID, Display: m.UserName})
	}
	return r, nil
}

func membersOf(ctx context.Context, tx *store.Tx, g store.Group) iter.Seq2[store.DirectoryMember, error] {
	return store.All(func(p store.Page) ([]store.DirectoryMember, error) {
		return tx.ListDirectoryMembers(ctx, g.TenantID, g.ID, p)
	},
		func(m store.DirectoryMember) string { return m.UserID })
}

func groupsOf(ctx context.Context, tx *store.Tx, c store.Connection) iter.Seq2[store.Group, error] {
	return store.All(func(p store.Page) ([]store.Group, error) {
		return tx.ListGroupsOfConnection(ctx, c.TenantID, c.ID, 0, p)
	},
		func(g store.Group) string { return g.ID })
}

func (d *directory) listGroups(ctx context.Context, tx *store.Tx, q scim.Query) (l scim.List, err error) {
	var page []store.Group
	if q.Filter == nil {
		if l.Total, err = tx.CountGroupsOfConnection(ctx, d.tenant.ID, d.conn.ID); err != nil || q.Count == 0 {
			return l, err
		}
		page, err = tx.ListGroupsOfConnection(ctx, d.tenant.ID, d.conn.ID, q.Start, store.Page{Limit: q.Count})
	} else {
		page, l.Total, err = d.matching(ctx, tx, q)
	}
	if err != nil {
		return l, err
	}
	shown := 0
	for _, g := range page {
		if q.Members {
			n, err := tx.CountDirectoryMembers(ctx, g.TenantID, g.ID)
			if err != nil {
				return l, err
			}
			if shown += n; shown > shownMax && len(l.Resources) > 0 {
				break
			}
		}
		r, err := groupResource(ctx, tx, g, q.Members)
		if err != nil {
			return l, err
		}
		l.Resources = append(l.Resources, r)
	}
	return l, nil
}

// matching is a page of the groups that fulfil a filter, and how many do.
func (d *directory) matching(ctx context.Context, tx *store.Tx, q scim.Query) (page []store.Group, total int, _ error) {
	for g, err := range d.groupCandidates(ctx, tx, q.Filter) {
		if err != nil {
			return nil, 0, err
		}
		r, err := groupResource(ctx, tx, g, false)
		if err != nil {
			return nil, 0, err
		}
		ok, err := q.Filter.Matches(r, func(_, id string) (bool, error) { return tx.InDirectoryGroup(ctx, g.TenantID, g.ID, id) })
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			continue
		}
		if total++; total > q.Start && len(page) < q.Count {
			page = append(page, g)
		}
	}
	return page, total, nil
}

func (d *directory) groupCandidates(ctx context.Context, tx *store.Tx, f *scim.Filter) iter.Seq2[store.Group, error] {
	if id, ok := f.Needs("id"); ok {
		g, err := d.group(ctx, tx, id)
		return func(yield func(store.Group, error) bool) {
			if _, refused := scim.As(err); !refused {
				yield(g, err)
			}
		}
	}
	if id, ok := f.Needs("members"); ok {
		v, err := d.user(ctx, tx, id)
		if err == nil {
			return directoryGroups(ctx, tx, v)
		}
		return func(yield func(store.Group, error) bool) {
			if _, refused := scim.As(err); !refused {
				yield(store.Group{}, err)
			}
		}
	}
	return groupsOf(ctx, tx, d.conn)
}

func describeGroup(g *store.Group, o scim.Object) error {
	g.Name, _ = o["displayName"].(string)
	g.ExternalID, _ = o["externalId"].(string)
	if utf8.RuneCountInString(g.Name) > groupNameMax {
		return scim.Refuse(http.StatusBadRequest, scim.InvalidValue, "displayName can't have more than %d characters", groupNameMax)
	}
	return nil
}

func (d *directory) createGroup(ctx context.Context, tx *store.Tx, o scim.Object, members []string) (r scim.Resource, _ error) {
	now := d.Now()
	g := store.Group{TenantID: d.tenant.ID, ID: d.IDs.New(ids.Group, now), ConnectionID: d.conn.ID, CreatedAt: now, UpdatedAt: now, Version: 1}
	if err := describeGroup(&g, o); err != nil {
		return r, err
	}
	if err := principals.NewGroup(ctx, d.Kit, tx, g); err != nil {
		return r, err
	}
	if err := d.changeMembers(ctx, tx, &g, []scim.MemberOp{{Add: members}}); err != nil {
		return r, err
	}
	return groupResource(ctx, tx, g, true)
}

func (d *directory) updateGroup(ctx context.Context, tx *store.Tx, id string, make scim.Change) (r scim.Resource, _ error) {
	g, err := d.group(ctx, tx, id)
	if err != nil {
		return r, err
	}
	if r, err = groupResource(ctx, tx, g, false); err != nil {
		return r, err
	}
	o, ops, err := make(r)
	if err != nil {
		return r, err
	}
	if !scim.Same(o, r.Attributes) {
		before := g.Name
		if err := describeGroup(&g, o); err != nil {
			return r, err
		}
		if err := d.freeName(ctx, tx, g, before); err != nil {
			return r, err
		}
		err := change.Make(ctx, d.Kit, tx, "group.update", change.UpdateGroup(&g), change.Fields{"name": {Before: before, After: g.Name}})
		if err != nil {
			return r, err
		}
	}
	if err := d.changeMembers(ctx, tx, &g, ops); err != nil {
		return r, err
	}
	return groupResource(ctx, tx, g, false)
}

// freeName refuses a name that another group of the tenant has, before the database does.
func (d *directory) freeName(ctx context.Context, tx *store.Tx, g store.Group, before string) error {
	if g.Name == before {
		return nil
	}
	_, err := tx.GetGroupByName(ctx, g.TenantID, g.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return cmp.Or(err, error(fault.New(fault.Exists, "NAME_TAKEN", "there is a group called %s already; choose another name", g.Name)))
}

// Where a user can move: into a group, or out of it.
const intoGroup, outOfGroup = 1, -1

// moved is who comes into a group and who goes out of it.
type moved struct {
	order  []string // Everybody who moved, if only there and back.
	went   map[string]int
	names  map[string]string
	active map[string]bool
}

func newMoved() *moved {
	return &moved{went: map[string]int{}, names: map[string]string{}, active: map[string]bool{}}
}

// changeMembers applies operations to a group. Those of them that change nothing, change
// nothing.
func (d *directory) changeMembers(ctx context.Context, tx *store.Tx, g *store.Group, ops []scim.MemberOp) error {
	m := newMoved()
	for _, op := range ops {
		if op.Replace {
			for have, err := range membersOf(ctx, tx, *g) {
				if err != nil {
					return err
				}
				op.Remove = append(op.Remove, have.UserID)
			}
			wanted := make(map[string]bool, len(op.Add))
			for _, id := range op.Add {
				wanted[id] = true
			}
			op.Remove = slices.DeleteFunc(op.Remove, func(id string) bool { return wanted[id] })
		}
		if err := d.move(ctx, tx, g, op, m); err != nil {
			return err
		}
	}
	if n, err := tx.CountDirectoryMembers(ctx, g.TenantID, g.ID); err != nil || n > scim.MembersMax {
		return cmp.Or(err, error(scim.Refuse(http.StatusBadRequest, scim.TooMany, "a group can't have more than %d members", scim.MembersMax)))
	}
	return d.record(ctx, tx, g, m)
}

func (d *directory) move(ctx context.Context, tx *store.Tx, g *store.Group, op scim.MemberOp, m *moved) error {
	for _, id := range op.Remove {
		v, err := d.user(ctx, tx, id)
		if _, gone := scim.As(err); gone {
			continue // Is in no group then.
		}
		if err != nil {
			return err
		}
		was, err := tx.RemoveDirectoryMember(ctx, g.TenantID, g.ID, id)
		if err != nil {
			return err
		}
		if was {
			m.note(v, outOfGroup)
		}
	}
	for _, id := range op.Add {
		v, err := d.user(ctx, tx, id)
		if _, none := scim.As(err); none {
			return scim.Refuse(http.StatusBadRequest, scim.InvalidValue, "no user of this directory has the id %q; members are users, and groups can't be in groups", id)
		}
		if err != nil {
			return err
		}
		added, err := tx.AddDirectoryMember(ctx, g.TenantID, g.ID, id)
		if err != nil {
			return err
		}
		if added {
			m.note(v, intoGroup)
		}
	}
	return nil
}

// note says that a user moved; who moves back has not moved.
func (m *moved) note(v store.DirectoryUser, to int) {
	if _, known := m.went[v.UserID]; !known {
		m.order = append(m.order, v.UserID)
	}
	m.went[v.UserID] += to
	m.names[v.UserID], m.active[v.UserID] = v.UserName, v.Active
}

// who went there, in the order of their first move.
func (m *moved) who(to int) (all []string) {
	for _, id := range m.order {
		if m.went[id] == to {
			all = append(all, id)
		}
	}
	return all
}

// record puts the active ones into the group of the tenant and takes them out of it, and
// writes who moved.
func (d *directory) record(ctx context.Context, tx *store.Tx, g *store.Group, m *moved) error {
	if went := m.who(outOfGroup); len(went) > 0 {
		err := change.Make(ctx, d.Kit, tx, "group.remove_members", change.SyncMembers(g, nil, m.onlyActive(went)), change.Fields{"members": {Before: m.named(went)}})
		if err != nil {
			return err
		}
	}
	if came := m.who(intoGroup); len(came) > 0 {
		return change.Make(ctx, d.Kit, tx, "group.add_members", change.SyncMembers(g, m.onlyActive(came), nil), change.Fields{"members": {After: m.named(came)}})
	}
	return nil
}

func (m *moved) onlyActive(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !m.active[id] })
}

func (m *moved) named(ids []string) (out []string) {
	for _, id := range ids[:min(len(ids), namedMax)] {
		out = append(out, m.names[id])
	}
	if more := len(ids) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return out
}

func (d *directory) deleteGroup(ctx context.Context, tx *store.Tx, id string, before func(scim.Resource) error) error {
	g, err := d.group(ctx, tx, id)
	if err != nil {
		return err
	}
	r, err := groupResource(ctx, tx, g, false)
	if err != nil {
		return err
	}
	if err := before(r); err != nil {
		return err
	}
	return change.Make(ctx, d.Kit, tx, "group.delete", change.DeleteGroup(g), nil)
}
