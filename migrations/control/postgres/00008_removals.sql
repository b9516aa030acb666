-- As in 00002: texts are ordered by their bytes, and a tenant sees its own rows.

-- +goose Up
ALTER TABLE removals
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C", ALTER COLUMN user_id TYPE TEXT COLLATE "C",
    ALTER COLUMN email TYPE TEXT COLLATE "C", ALTER COLUMN removed_by TYPE TEXT COLLATE "C";
ALTER TABLE sso_connections ALTER COLUMN staged TYPE TEXT COLLATE "C";
ALTER TABLE removals ENABLE ROW LEVEL SECURITY;
ALTER TABLE removals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON removals USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));
