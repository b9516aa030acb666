-- Texts are ordered by their bytes; see 00002.

-- +goose Up
ALTER TABLE signups ALTER COLUMN browser TYPE TEXT COLLATE "C";
