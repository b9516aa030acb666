-- What only PostgreSQL can do. The same loops stand in every later file that makes a
-- table; a test looks for a table that was forgotten.

-- +goose Up

-- Texts are ordered by their bytes, as in SQLite, whatever the database was made with:
-- pages go on after a name.
-- +goose StatementBegin
DO $$
DECLARE c RECORD;
BEGIN
    FOR c IN SELECT table_name, string_agg(format('ALTER COLUMN %I TYPE TEXT COLLATE "C"', column_name), ', ') AS changes
        FROM information_schema.columns
        WHERE table_schema = current_schema() AND data_type = 'text' AND table_name <> 'goose_db_version'
        GROUP BY table_name LOOP
        EXECUTE format('ALTER TABLE %I ', c.table_name) || c.changes;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Row-level security: a transaction sees the rows of the tenant it named with
-- SET LOCAL corvo.tenant, or all of them if it named '*' (the service's own loops).
-- A transaction that named nothing sees nothing.
-- +goose StatementBegin
DO $$
DECLARE t TEXT;
BEGIN
    FOREACH t IN ARRAY ARRAY['tenants', 'namespaces', 'sso_connections', 'identities', 'memberships',
        'invitations', 'api_keys', 'sessions', 'audit', 'idempotency', 'outbox'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format(
            'CREATE POLICY tenant ON %I USING (current_setting(''corvo.tenant'', true) IN (''*'', tenant_id))', t);
    END LOOP;
END $$;
-- +goose StatementEnd
