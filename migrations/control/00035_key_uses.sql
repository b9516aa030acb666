-- When each secret of a key was last used. The newest of them is api_keys.last_used_at.

-- +goose Up
CREATE TABLE key_uses (
    tenant_id    TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    digest       TEXT   NOT NULL, -- Hex: the secret's, as in api_keys.versions.
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, key_id, digest),
    FOREIGN KEY (tenant_id, key_id) REFERENCES api_keys (tenant_id, id) ON DELETE CASCADE
);
