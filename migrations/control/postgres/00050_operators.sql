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

-- +goose StatementBegin
DO $$
DECLARE t TEXT;
BEGIN
    FOREACH t IN ARRAY ARRAY['tenant_figures'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I USING (current_setting(''corvo.tenant'', true) IN (''*'', tenant_id))', t);
    END LOOP;
END $$;
-- +goose StatementEnd
