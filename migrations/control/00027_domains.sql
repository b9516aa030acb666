-- Domains that a tenant claims, and those that it has proved to be its own.

-- +goose Up
CREATE TABLE domains (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id            TEXT   NOT NULL,
    name          TEXT   NOT NULL, -- Lower case, in ASCII.
    token         TEXT   NOT NULL, -- Stands in DNS, for everybody to read.
    connection_id TEXT   NOT NULL DEFAULT '',
    verified_at   BIGINT NOT NULL DEFAULT 0,
    missing_since BIGINT NOT NULL DEFAULT 0,
    checked_at    BIGINT NOT NULL DEFAULT 0,
    problem       TEXT   NOT NULL DEFAULT '',
    due_at        BIGINT NOT NULL DEFAULT 0, -- When a verified one is looked up again.
    attempts      BIGINT NOT NULL DEFAULT 0, -- Since DNS answered.
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);
-- A domain is verified for one tenant at a time.
CREATE UNIQUE INDEX domains_verified ON domains (name) WHERE verified_at > 0;
CREATE INDEX domains_due ON domains (due_at) WHERE verified_at > 0;
