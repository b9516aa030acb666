-- Where a tenant's audit log is sent.

-- +goose Up
CREATE TABLE audit_sinks (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id            TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    format        BIGINT NOT NULL,
    target        TEXT   NOT NULL, -- JSON, without secrets.
    secret        TEXT   NOT NULL, -- JSON, sealed.
    enabled       BIGINT NOT NULL,
    sent          BIGINT NOT NULL, -- Number of the last entry that arrived.
    sent_at       BIGINT NOT NULL DEFAULT 0,
    due_at        BIGINT NOT NULL, -- Later after each failure.
    attempts      BIGINT NOT NULL DEFAULT 0, -- Since one succeeded.
    failing_since BIGINT NOT NULL DEFAULT 0,
    last_error    TEXT   NOT NULL DEFAULT '',
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);
CREATE INDEX audit_sinks_due ON audit_sinks (due_at) WHERE enabled = 1;
