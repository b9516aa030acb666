-- Directory sync (SCIM): the users and groups of a connection's directory, and the tokens
-- that it calls with.

-- +goose Up

CREATE TABLE scim_tokens (
    tenant_id     TEXT   NOT NULL,
    id            TEXT   NOT NULL, -- key_…, as in the token's text.
    connection_id TEXT   NOT NULL,
    digest        TEXT   NOT NULL, -- Hex SHA-256 of the token.
    created_by    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    revoked_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, connection_id) REFERENCES sso_connections (tenant_id, id)
);
CREATE UNIQUE INDEX scim_tokens_by_id ON scim_tokens (id);

-- What the directory says of a user. Who is active is a member.
CREATE TABLE scim_users (
    tenant_id     TEXT   NOT NULL,
    connection_id TEXT   NOT NULL,
    user_id       TEXT   NOT NULL REFERENCES users (id),
    external_id   TEXT   NOT NULL, -- The directory's.
    user_name     TEXT   NOT NULL,
    name_key      TEXT   NOT NULL, -- user_name in lower case.
    active        BIGINT NOT NULL,
    attributes    TEXT   NOT NULL, -- JSON: all that the directory sent and the schema knows.
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id),
    UNIQUE (tenant_id, connection_id, name_key),
    FOREIGN KEY (tenant_id, connection_id) REFERENCES sso_connections (tenant_id, id)
);
CREATE INDEX scim_users_by_external ON scim_users (tenant_id, connection_id, external_id);
CREATE INDEX scim_users_in_order ON scim_users (tenant_id, connection_id, user_id);

-- Who is in a group at the directory, also while they are not active. Those who are active
-- are in group_members too.
CREATE TABLE scim_members (
    tenant_id TEXT NOT NULL,
    group_id  TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, group_id, user_id),
    FOREIGN KEY (tenant_id, group_id) REFERENCES groups (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES scim_users (tenant_id, user_id)
);
CREATE INDEX scim_members_by_user ON scim_members (tenant_id, user_id);
CREATE INDEX groups_by_connection ON groups (tenant_id, connection_id, id) WHERE connection_id <> '';

-- How directory sync goes.
CREATE TABLE scim_state (
    tenant_id     TEXT   NOT NULL,
    connection_id TEXT   NOT NULL,
    last_call_at  BIGINT NOT NULL,
    last_error_at BIGINT NOT NULL,
    last_error    TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, connection_id),
    FOREIGN KEY (tenant_id, connection_id) REFERENCES sso_connections (tenant_id, id)
);

-- Whom a directory removed, it may bring back.
ALTER TABLE removals ADD COLUMN connection_id TEXT NOT NULL DEFAULT '';
