-- As in 00002: texts are ordered by their bytes, and a tenant sees its own rows.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE c RECORD;
BEGIN
    FOR c IN SELECT table_name, string_agg(format('ALTER COLUMN %I TYPE TEXT COLLATE "C"', column_name), ', ') AS changes
        FROM information_schema.columns
        WHERE table_schema = current_schema() AND data_type = 'text' AND table_name <> 'goose_db_version' AND collation_name IS DISTINCT FROM 'C'
        GROUP BY table_name LOOP
        EXECUTE format('ALTER TABLE %I ', c.table_name) || c.changes;
    END LOOP;
END $$;
-- +goose StatementEnd

ALTER TABLE subscriptions ENABLE ROW LEVEL SECURITY;
ALTER TABLE subscriptions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON subscriptions USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));

ALTER TABLE subscription_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE subscription_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON subscription_changes USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));

ALTER TABLE entitlement_overrides ENABLE ROW LEVEL SECURITY;
ALTER TABLE entitlement_overrides FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON entitlement_overrides USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));

ALTER TABLE tenant_holds ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_holds FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenant_holds USING (current_setting('corvo.tenant', true) IN ('*', tenant_id));
