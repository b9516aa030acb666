-- Whether people sign in by the redirect URI that the connections of all tenants shared, as a
-- connection from before does until a test sign-in has shown that its provider knows the
-- tenant's own. A control plane of before that still runs makes such connections, too.

-- +goose Up
ALTER TABLE sso_connections ADD COLUMN shared_redirect BIGINT NOT NULL DEFAULT 1;
