package sso

import (
	"context"
	"errors"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// managed finds the person who signs in among the users of the connection's directory, if it
// has one. The first sign-in ties the two together: externalId is the subject, or userName
// is exactly the email address or the subject. From then on, only the subject counts.
//
// Who isn't active doesn't get in, and neither does a newcomer whom the directory doesn't
// know. Whoever signed in before there was a directory still does.
func (s *Service) managed(ctx context.Context, tx *store.Tx, conn store.Connection, who person) (v store.DirectoryUser, known bool, _ error) {
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	switch {
	case err == nil:
		v, err = tx.GetDirectoryUser(ctx, conn.TenantID, id.UserID)
		if errors.Is(err, store.ErrNotFound) {
			return v, false, nil
		}
	case errors.Is(err, store.ErrNotFound):
		if v, err = s.unlinked(ctx, tx, conn, who); err == nil && v.UserID == "" {
			return v, false, nil
		}
	}
	if err != nil {
		return v, false, err
	}
	if !v.Active {
		return v, false, refused(nil, "your account was deactivated by your company's directory. Ask the people who manage it to activate you")
	}
	if id.UserID == "" {
		err = s.tie(ctx, tx, conn, who, v.UserID)
	}
	return v, true, err
}

// tie makes a user the one who signs in through the connection from now on.
func (s *Service) tie(ctx context.Context, tx *store.Tx, conn store.Connection, who person, userID string) error {
	return tx.InsertIdentity(ctx, store.Identity{
		TenantID: conn.TenantID, ConnectionID: conn.ID, Issuer: conn.Issuer, Subject: who.subject, UserID: userID, CreatedAt: s.Now(), VouchedEmail: who.vouched(),
	})
}

// unlinked finds the directory's user with whom nobody has signed in yet; none if the
// connection has no directory.
func (s *Service) unlinked(ctx context.Context, tx *store.Tx, conn store.Connection, who person) (v store.DirectoryUser, _ error) {
	tokens, err := tx.ListScimTokens(ctx, conn.TenantID, conn.ID)
	if err != nil {
		return v, err
	}
	users, _, err := tx.CountDirectoryUsers(ctx, conn.TenantID, conn.ID)
	if err != nil || len(tokens) == 0 && users == 0 {
		return v, err
	}
	found, err := tx.DirectoryUsersByExternalID(ctx, conn.TenantID, conn.ID, who.subject)
	if err != nil {
		return v, err
	}
	names := []string{who.subject}
	if email := who.vouched(); email != "" {
		names = append(names, email)
	}
	for _, name := range names {
		v, err := tx.DirectoryUserByName(ctx, conn.TenantID, conn.ID, strings.ToLower(name))
		if err == nil {
			found = append(found, v)
		} else if !errors.Is(err, store.ErrNotFound) {
			return v, err
		}
	}
	for _, v := range found {
		taken, err := tx.HasIdentity(ctx, conn.TenantID, conn.ID, v.UserID)
		if err != nil || !taken {
			return v, err
		}
	}
	return v, refused(nil, "your company's directory hasn't added you here yet. Ask the people who manage it to assign you to this application")
}
