-- Which browser began a sign-up: only there the page of the mailed link knows its visitor.

-- +goose Up
ALTER TABLE signups ADD COLUMN browser TEXT NOT NULL DEFAULT ''; -- Hex SHA-256 of its cookie.
