-- As in 00002: texts are ordered by their bytes, and a tenant sees its own rows.

-- +goose Up
ALTER TABLE stripe_endings ALTER COLUMN tenant_id TYPE TEXT COLLATE "C", ALTER COLUMN subscription_id TYPE TEXT COLLATE "C";
ALTER TABLE stripe_endings ENABLE ROW LEVEL SECURITY;
ALTER TABLE stripe_endings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON stripe_endings USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));
