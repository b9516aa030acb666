-- Tokens of other issuers that are exchanged for keys.

-- +goose Up
CREATE TABLE trusts (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id            TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    account_id    TEXT   NOT NULL, -- Whose keys it gives.
    provider      BIGINT NOT NULL,
    issuer        TEXT   NOT NULL,
    jwks          TEXT   NOT NULL, -- Empty: read from the issuer.
    audience      TEXT   NOT NULL,
    conditions    TEXT   NOT NULL, -- JSON.
    permissions   TEXT   NOT NULL, -- As of api_keys, and the following.
    namespace_ids TEXT   NOT NULL,
    queues        TEXT   NOT NULL,
    cidrs         TEXT   NOT NULL,
    key_life_ns   BIGINT NOT NULL,
    allow_reuse   BIGINT NOT NULL,
    created_by    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL DEFAULT 0,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name),
    FOREIGN KEY (tenant_id, account_id) REFERENCES service_accounts (tenant_id, id)
);
CREATE INDEX trusts_by_account ON trusts (tenant_id, account_id);

-- Tokens that were exchanged, until they end: each counts once.
CREATE TABLE trust_tokens (
    tenant_id  TEXT   NOT NULL,
    trust_id   TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, trust_id, digest),
    FOREIGN KEY (tenant_id, trust_id) REFERENCES trusts (tenant_id, id)
);
CREATE INDEX trust_tokens_by_end ON trust_tokens (expires_at);

-- Kind 4: temporary.
CREATE INDEX api_keys_temporary ON api_keys (expires_at) WHERE kind = 4;
