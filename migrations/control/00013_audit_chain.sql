-- The audit log proves itself: entries of a tenant are numbered and each carries the hash of
-- the one before; signed heads say how far the chain had come at a time.

-- +goose Up

-- 0 and empty until an entry is in the chain: those of before are chained at the next start.
ALTER TABLE audit ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN prev_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX audit_by_seq ON audit (tenant_id, seq) WHERE seq > 0;
CREATE INDEX audit_unchained ON audit (tenant_id, id) WHERE seq = 0;

-- What people look for; ids are in the order of time.
CREATE INDEX audit_by_actor ON audit (tenant_id, actor_id, id);
CREATE INDEX audit_by_action ON audit (tenant_id, action, id);
CREATE INDEX audit_by_target ON audit (tenant_id, target_id, id);
CREATE INDEX audit_by_namespace ON audit (tenant_id, namespace_id, id);
CREATE INDEX audit_by_namespace_name ON audit (tenant_id, namespace, id);

-- The end of each tenant's chain; writing an entry locks it.
CREATE TABLE audit_chains (
    tenant_id   TEXT   NOT NULL PRIMARY KEY,
    seq         BIGINT NOT NULL,
    hash        TEXT   NOT NULL,
    first_seq   BIGINT NOT NULL DEFAULT 1, -- Of the oldest entry that is kept.
    first_after TEXT   NOT NULL DEFAULT '', -- Hash of the entry before it.
    oldest_at   BIGINT NOT NULL, -- Time of the oldest entry; 0: there is none.
    head_seq    BIGINT NOT NULL DEFAULT 0, -- Of the last signed head.
    head_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX audit_chains_unsigned ON audit_chains (head_at) WHERE head_seq < seq;
CREATE INDEX audit_chains_by_age ON audit_chains (oldest_at) WHERE oldest_at > 0;

CREATE TABLE audit_heads (
    tenant_id   TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    first_seq   BIGINT NOT NULL,
    hash        TEXT   NOT NULL,
    first_after TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    key_id      TEXT   NOT NULL,
    signature   TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, seq, first_seq)
);

-- Keys that sign heads, one for each calendar year. They stay, since old heads do.
-- waiver: no tenant_id; it belongs to the service.
CREATE TABLE audit_keys (
    year       BIGINT NOT NULL PRIMARY KEY,
    id         TEXT   NOT NULL UNIQUE,
    public_key TEXT   NOT NULL,
    sealed     TEXT   NOT NULL, -- The private key, sealed.
    created_at BIGINT NOT NULL
);
