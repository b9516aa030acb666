-- Who invited, beside the text for people: an address may change, and a key has a name that
-- anybody could have chosen.

-- +goose Up
ALTER TABLE invitations ADD COLUMN invited_by_id TEXT NOT NULL DEFAULT ''; -- Of a user, also if a key of theirs did.
UPDATE invitations SET invited_by_id = COALESCE((SELECT u.id FROM users u JOIN memberships m ON m.user_id = u.id
  WHERE m.tenant_id = invitations.tenant_id AND u.email = invitations.invited_by LIMIT 1), '');
