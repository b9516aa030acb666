-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE namespaces ALTER COLUMN retention TYPE TEXT COLLATE "C";
