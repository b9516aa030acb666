-- The tenant's policy, said so that the planner can live with it. It took the IN of before to
-- leave one row of 200, also for the service's own transactions, which see all; so it read
-- whole tables where an index would do. Of a CASE it assumes half. The setting is read once in a
-- query, not once for each row.
--
-- A table made later has the same text; a test of the store compares them.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    t TEXT;
BEGIN
    FOR t IN SELECT tablename FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'tenant' LOOP
        EXECUTE format('ALTER POLICY tenant ON %I USING (CASE (SELECT current_setting(''corvo.tenant'', true)) WHEN ''*'' THEN true ELSE tenant_id = (SELECT current_setting(''corvo.tenant'', true)) END)', t);
    END LOOP;
END $$;
-- +goose StatementEnd
