package change

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func directoryToken(v store.ScimToken, connection string) Target {
	return Target{"directory_token", v.ID, connection, v.TenantID}
}

// InsertScimToken makes a token with which a connection's directory calls.
func InsertScimToken(v store.ScimToken, connection string) Record {
	return record(directoryToken(v, connection), (*store.Tx).InsertScimToken, v)
}

// UpdateScimToken moves the end of one.
func UpdateScimToken(v store.ScimToken, connection string) Record {
	return record(directoryToken(v, connection), (*store.Tx).UpdateScimToken, v)
}

// RevokeScimToken ends one.
func RevokeScimToken(v store.ScimToken, connection string) Record {
	return Record{Target: directoryToken(v, connection), write: func(ctx context.Context, tx *store.Tx, now time.Time) error {
		return tx.RevokeScimToken(ctx, v.TenantID, v.ID, now)
	}}
}

func directoryUser(v store.DirectoryUser) Target {
	return Target{"directory_user", v.UserID, v.UserName, v.TenantID}
}

// InsertDirectoryUser makes nobody a member.
func InsertDirectoryUser(v store.DirectoryUser) Record {
	return record(directoryUser(v), (*store.Tx).InsertDirectoryUser, v)
}

// UpdateDirectoryUser changes nobody's membership.
func UpdateDirectoryUser(v *store.DirectoryUser) Record {
	return updated(directoryUser(*v), &v.UpdatedAt, (*store.Tx).UpdateDirectoryUser, v)
}

// DeleteDirectoryUser forgets what the directory said. The user is no member any more.
func DeleteDirectoryUser(v store.DirectoryUser) Record {
	return record(directoryUser(v), (*store.Tx).DeleteDirectoryUser, v)
}

// KeptDirectoryUser is what was asked of a directory's user and not done.
func KeptDirectoryUser(v store.DirectoryUser) Record { return AuditOnly(directoryUser(v)) }

// SyncMembers puts members into a directory's group and takes others out; they are out of it
// and in it. The group's version rises.
func SyncMembers(g *store.Group, in, out []string) Record {
	r := UpdateGroup(g)
	write := r.write
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if err := write(ctx, tx, now); err != nil {
			return err
		}
		for _, id := range in {
			if err := tx.InsertGroupMember(ctx, store.GroupMember{TenantID: g.TenantID, GroupID: g.ID, UserID: id, CreatedAt: now}); err != nil {
				return err
			}
		}
		for _, id := range out {
			if err := tx.DeleteGroupMember(ctx, g.TenantID, g.ID, id); err != nil {
				return err
			}
		}
		return nil
	}
	if len(in)+len(out) == 0 {
		return r
	}
	return r.rightsOfSome(append(append([]string{}, in...), out...))
}
