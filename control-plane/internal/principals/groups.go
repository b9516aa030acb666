package principals

import (
	"context"
	"errors"
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
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// countedGroup is a group and how many members it has.
type countedGroup struct {
	store.Group
	members int
}

func countGroup(ctx context.Context, tx *store.Tx, g store.Group) (countedGroup, error) {
	n, err := tx.CountGroupMembers(ctx, g.TenantID, g.ID)
	return countedGroup{g, n}, err
}

func groupMessage(g countedGroup) *cloudv1.Group {
	return &cloudv1.Group{
		Id: g.ID, Name: g.Name, Description: g.Description, ExternalId: g.ExternalID, ConnectionId: g.ConnectionID,
		CreatedAt: stamp(g.CreatedAt), UpdatedAt: stamp(g.UpdatedAt), Etag: groupTag(g.Group), Members: int32(g.members),
	}
}

func groupTag(g store.Group) string { return etag.Of(g.Version, g.ID) }

// CreateGroup makes a group without members and roles.
func (s *Service) CreateGroup(ctx context.Context, r *cloudv1.CreateGroupRequest) (*cloudv1.CreateGroupResponse, error) {
	call, err := once.Of(ctx, "CreateGroup", r)
	if err != nil {
		return nil, err
	}
	if err := fault.InvalidFields(checkText(r.GetName(), r.GetDescription())); err != nil {
		return nil, err
	}
	c, now := access.From(ctx), s.Now()
	g := store.Group{TenantID: c.TenantID, ID: s.IDs.New(ids.Group, now), Name: r.GetName(), Description: r.GetDescription(), CreatedAt: now, UpdatedAt: now, Version: 1}
	res := new(cloudv1.CreateGroupResponse)
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		res.Group = groupMessage(countedGroup{Group: g})
		return NewGroup(ctx, s.Kit, tx, g)
	})
	return res, err
}

// NewGroup makes a group, of people or of a directory.
func NewGroup(ctx context.Context, k kit.Kit, tx *store.Tx, g store.Group) error {
	if err := room(ctx, g.TenantID, "groups", groupsMax, tx.CountGroups); err != nil {
		return err
	}
	return taken(change.Make(ctx, k, tx, "group.create", change.InsertGroup(g), nil), "group", g.Name)
}

// findGroup finds a group of the caller's tenant by id or name.
func findGroup(ctx context.Context, tx *store.Tx, idOrName string) (store.Group, error) {
	tenantID := access.From(ctx).TenantID
	g, err := tx.GetGroup(ctx, tenantID, idOrName)
	if errors.Is(err, store.ErrNotFound) {
		g, err = tx.GetGroupByName(ctx, tenantID, idOrName)
	}
	return g, none(err, "group")
}

// GetGroup finds one by id or name.
func (s *Service) GetGroup(ctx context.Context, r *cloudv1.GetGroupRequest) (*cloudv1.GetGroupResponse, error) {
	g, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (countedGroup, error) {
		g, err := findGroup(ctx, tx, r.GetGroup())
		if err != nil {
			return countedGroup{}, err
		}
		return countGroup(ctx, tx, g)
	})
	if err != nil {
		return nil, err
	}
	return &cloudv1.GetGroupResponse{Group: groupMessage(g)}, nil
}

// ListGroups lists by id.
func (s *Service) ListGroups(ctx context.Context, r *cloudv1.ListGroupsRequest) (*cloudv1.ListGroupsResponse, error) {
	shown, next, err := listing.Of[countedGroup, *cloudv1.Group]{
		Method: "ListGroups", Key: func(g countedGroup) string { return g.ID }, Show: groupMessage,
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []countedGroup, _ error) {
			list, err := tx.ListGroups(ctx, tenantID, p)
			for _, g := range list {
				c, countErr := countGroup(ctx, tx, g)
				if countErr != nil {
					return nil, countErr
				}
				out = append(out, c)
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListGroupsResponse{Groups: shown, NextPageToken: next}, err
}

// changeable finds a group that people keep and whose roles the caller covers.
func changeable(ctx context.Context, tx *store.Tx, id string) (store.Group, error) {
	g, err := tx.GetGroup(ctx, access.From(ctx).TenantID, id)
	if err != nil {
		return g, none(err, "group")
	}
	if g.ConnectionID != "" {
		return g, fault.New(fault.Conflict, "GROUP_FROM_DIRECTORY", "the group %s is kept by the directory of connection %s; change it there", g.Name, g.ConnectionID)
	}
	grants, err := rights.NewReader(tx, g.TenantID).Bound(ctx, g.ID)
	if err != nil {
		return g, err
	}
	return g, MayGive(access.From(ctx), grants, "the group "+g.Name)
}

// UpdateGroup renames or describes.
func (s *Service) UpdateGroup(ctx context.Context, r *cloudv1.UpdateGroupRequest) (*cloudv1.UpdateGroupResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	if err := fault.InvalidMask(paths, "name", "description"); err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateGroupResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		g, err := changeable(ctx, tx, r.GetGroupId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), groupTag(g), "this group"); err != nil {
			return err
		}
		fields := change.Fields{}
		for _, p := range paths {
			switch p {
			case "name":
				fields["name"] = store.Change{Before: g.Name, After: r.GetName()}
				g.Name = r.GetName()
			case "description":
				fields["description"] = store.Change{Before: g.Description, After: r.GetDescription()}
				g.Description = r.GetDescription()
			}
		}
		if err := fault.InvalidFields(checkText(g.Name, g.Description)); err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "group.update", change.UpdateGroup(&g), fields); err != nil {
			return taken(err, "group", g.Name)
		}
		c, err := countGroup(ctx, tx, g)
		res.Group = groupMessage(c)
		return err
	})
}

// DeleteGroup takes the group's roles from everybody in it.
func (s *Service) DeleteGroup(ctx context.Context, r *cloudv1.DeleteGroupRequest) (*cloudv1.DeleteGroupResponse, error) {
	err := s.Write(ctx, func(tx *store.Tx) error {
		g, err := changeable(ctx, tx, r.GetGroupId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "group.delete", change.DeleteGroup(g), nil)
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return &cloudv1.DeleteGroupResponse{}, nil
}

// ListGroupMembers lists by user id.
func (s *Service) ListGroupMembers(ctx context.Context, r *cloudv1.ListGroupMembersRequest) (*cloudv1.ListGroupMembersResponse, error) {
	shown, next, err := listing.Of[store.UserInGroup, *cloudv1.GroupMember]{
		Method: "ListGroupMembers", Filter: []any{r.GetGroupId()}, Key: func(m store.UserInGroup) string { return m.UserID },
		Show: func(m store.UserInGroup) *cloudv1.GroupMember {
			return &cloudv1.GroupMember{UserId: m.UserID, Email: m.User.Email, Name: m.User.Name, AddedAt: stamp(m.CreatedAt)}
		},
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]store.UserInGroup, error) {
			if _, err := tx.GetGroup(ctx, tenantID, r.GetGroupId()); err != nil {
				return nil, none(err, "group")
			}
			return tx.ListGroupMembers(ctx, tenantID, r.GetGroupId(), p)
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListGroupMembersResponse{Members: shown, NextPageToken: next}, err
}

// AddGroupMembers adds members of the tenant; those who are in it stay.
func (s *Service) AddGroupMembers(ctx context.Context, r *cloudv1.AddGroupMembersRequest) (*cloudv1.AddGroupMembersResponse, error) {
	res := new(cloudv1.AddGroupMembersResponse)
	err := s.Write(ctx, func(tx *store.Tx) (err error) {
		res.Notices, err = noticing(ctx, tx, func() (err error) {
			res.Group, err = s.changeMembers(ctx, tx, r.GetGroupId(), r.GetUserIds(), true)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return res, nil
}

// RemoveGroupMembers takes users out; those who are not in it stay out.
func (s *Service) RemoveGroupMembers(ctx context.Context, r *cloudv1.RemoveGroupMembersRequest) (*cloudv1.RemoveGroupMembersResponse, error) {
	res := new(cloudv1.RemoveGroupMembersResponse)
	err := s.Write(ctx, func(tx *store.Tx) (err error) {
		res.Group, err = s.changeMembers(ctx, tx, r.GetGroupId(), r.GetUserIds(), false)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return res, nil
}

func (s *Service) changeMembers(ctx context.Context, tx *store.Tx, groupID string, userIDs []string, add bool) (*cloudv1.Group, error) {
	if len(userIDs) == 0 || len(userIDs) > atOnceMax {
		return nil, fault.InvalidField("user_ids", "must have 1 to %d", atOnceMax)
	}
	g, err := changeable(ctx, tx, groupID)
	if err != nil {
		return nil, err
	}
	if err := ChangeMembers(ctx, s.Kit, tx, g, userIDs, add); err != nil {
		return nil, err
	}
	c, err := countGroup(ctx, tx, g)
	return groupMessage(c), err
}

// ChangeMembers adds members of the tenant to a group or takes them out, as far as they are
// not in it, or out, already.
func ChangeMembers(ctx context.Context, k kit.Kit, tx *store.Tx, g store.Group, userIDs []string, add bool) error {
	var news, emails []string
	for i, id := range userIDs {
		email, err := NewNamer(tx, g.TenantID).Principal(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && !ids.Is(ids.User, id) {
			return fault.InvalidField(fmt.Sprintf("user_ids[%d]", i), "must be the id of a member of this tenant (usr_…)")
		}
		if err != nil {
			return err
		}
		in, err := tx.InGroup(ctx, g.TenantID, g.ID, id)
		if err != nil {
			return err
		}
		if in != add && !slices.Contains(news, id) {
			news, emails = append(news, id), append(emails, email)
		}
	}
	if len(news) == 0 {
		return nil
	}
	if !add {
		return change.Make(ctx, k, tx, "group.remove_members", change.RemoveFromGroup(g, news...), change.Fields{"members": {Before: emails}})
	}
	n, err := tx.CountGroupMembers(ctx, g.TenantID, g.ID)
	if err != nil {
		return err
	}
	if n+len(news) > groupMembersMax {
		return fault.New(fault.Conflict, "LIMIT", "a group can't have more than %d members", groupMembersMax)
	}
	return change.Make(ctx, k, tx, "group.add_members", change.AddToGroup(g, news...), change.Fields{"members": {After: emails}})
}
