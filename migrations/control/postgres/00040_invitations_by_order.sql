-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE invitations ALTER COLUMN invited_by_id TYPE TEXT COLLATE "C";
