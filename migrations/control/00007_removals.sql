-- Who was removed from a tenant, and changes of single sign-on that are not in force yet.

-- +goose Up
CREATE TABLE removals (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    user_id    TEXT   NOT NULL REFERENCES users (id),
    email      TEXT   NOT NULL,
    removed_by TEXT   NOT NULL,
    removed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);
CREATE INDEX removals_by_email ON removals (tenant_id, email);

ALTER TABLE sso_connections ADD COLUMN staged TEXT NOT NULL DEFAULT ''; -- JSON; the secret in it is sealed.
