-- Single sign-on by SAML 2.0, beside OpenID Connect.

-- +goose Up
ALTER TABLE sso_connections ADD COLUMN type TEXT NOT NULL DEFAULT 'oidc';
ALTER TABLE sso_connections ADD COLUMN saml TEXT NOT NULL DEFAULT '{}'; -- JSON of settings; nothing secret.
ALTER TABLE sso_connections ADD COLUMN saml_key TEXT NOT NULL DEFAULT ''; -- Sealed; the connection's own.
