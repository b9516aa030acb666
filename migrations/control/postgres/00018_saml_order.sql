-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE sso_connections ALTER COLUMN type TYPE TEXT COLLATE "C", ALTER COLUMN saml TYPE TEXT COLLATE "C", ALTER COLUMN saml_key TYPE TEXT COLLATE "C";
