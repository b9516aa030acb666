-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE identities ALTER COLUMN vouched_email TYPE TEXT COLLATE "C";
