-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE billing_pushes ALTER COLUMN currency TYPE TEXT COLLATE "C";
