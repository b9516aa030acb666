-- Who may do what: roles, bindings of them to principals, groups, and service accounts
-- that keys belong to. The role words of members, invitations and keys become bindings.

-- +goose Up

CREATE TABLE roles (
    tenant_id   TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id          TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    description TEXT   NOT NULL,
    permissions TEXT   NOT NULL, -- Names, JSON.
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);

CREATE TABLE service_accounts (
    tenant_id   TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id          TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    description TEXT   NOT NULL,
    disabled    BIGINT NOT NULL DEFAULT 0,
    created_by  TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);

CREATE TABLE groups (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id            TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    description   TEXT   NOT NULL,
    external_id   TEXT   NOT NULL DEFAULT '', -- The directory's.
    connection_id TEXT   NOT NULL DEFAULT '', -- Whose directory keeps it; empty: people do.
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);

CREATE TABLE group_members (
    tenant_id  TEXT   NOT NULL,
    group_id   TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, group_id, user_id),
    FOREIGN KEY (tenant_id, group_id) REFERENCES groups (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES memberships (tenant_id, user_id)
);
CREATE INDEX group_members_by_user ON group_members (tenant_id, user_id, group_id);

-- role_id is a fixed role's (role_owner, …) or one of the table above. No namespace is the
-- whole tenant, no pattern all queues.
CREATE TABLE role_bindings (
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id           TEXT   NOT NULL,
    principal_id TEXT   NOT NULL, -- usr_, sa_ or grp_.
    role_id      TEXT   NOT NULL,
    namespace_id TEXT   NOT NULL DEFAULT '',
    queues       TEXT   NOT NULL DEFAULT '', -- A pattern.
    source       TEXT   NOT NULL DEFAULT '', -- The connection whose groups gave it; empty: people did.
    created_by   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, principal_id, role_id, namespace_id, queues, source)
);
CREATE INDEX role_bindings_by_role ON role_bindings (tenant_id, role_id);
CREATE INDEX role_bindings_by_namespace ON role_bindings (tenant_id, namespace_id) WHERE namespace_id <> '';

-- Members.
INSERT INTO role_bindings (tenant_id, id, principal_id, role_id, created_by, created_at, source)
SELECT tenant_id, 'bnd_' || substr(user_id, 5), user_id,
    CASE role WHEN 1 THEN 'role_owner' WHEN 2 THEN 'role_admin' WHEN 3 THEN 'role_billing' WHEN 4 THEN 'role_developer' WHEN 5 THEN 'role_auditor' ELSE 'role_viewer' END,
    '', created_at, connection_id
FROM memberships;
ALTER TABLE memberships DROP COLUMN role;

-- Invitations.
ALTER TABLE invitations ADD COLUMN roles TEXT NOT NULL DEFAULT '[]'; -- Ids, JSON.
UPDATE invitations SET roles =
    CASE role WHEN 1 THEN '["role_owner"]' WHEN 2 THEN '["role_admin"]' WHEN 3 THEN '["role_billing"]' WHEN 4 THEN '["role_developer"]' WHEN 5 THEN '["role_auditor"]' ELSE '["role_viewer"]' END;
ALTER TABLE invitations DROP COLUMN role;

-- Keys: each gets a service account with the rights that it had.
ALTER TABLE api_keys ADD COLUMN owner_id TEXT NOT NULL DEFAULT '';     -- sa_ or usr_.
ALTER TABLE api_keys ADD COLUMN permissions TEXT NOT NULL DEFAULT '[]'; -- Names, JSON; none: all of the owner's.
ALTER TABLE api_keys ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';      -- Patterns, JSON; none: all.
ALTER TABLE api_keys ADD COLUMN cidrs TEXT NOT NULL DEFAULT '[]';       -- JSON; none: from anywhere.
ALTER TABLE api_keys ADD COLUMN grants TEXT NOT NULL DEFAULT '';        -- Digest of what the cell was told that the key may do.
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT NOT NULL DEFAULT 0;
-- The letters that no ULID has become others.
UPDATE api_keys SET owner_id = 'sa_' || substr(tenant_id, 4, 14)
    || replace(replace(replace(replace(upper(substr(id, 5, 12)), 'I', '1'), 'L', '1'), 'O', '0'), 'U', 'V');
INSERT INTO service_accounts (tenant_id, id, name, description, created_by, created_at, updated_at, version)
SELECT tenant_id, owner_id, name || ' (' || substr(id, 5, 12) || ')', '', created_by, created_at, updated_at, 1 FROM api_keys;

INSERT INTO role_bindings (tenant_id, id, principal_id, role_id, created_by, created_at)
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '0', owner_id,
    CASE tenant_role WHEN 1 THEN 'role_owner' WHEN 2 THEN 'role_admin' WHEN 3 THEN 'role_billing' WHEN 4 THEN 'role_developer' WHEN 5 THEN 'role_auditor' ELSE 'role_viewer' END,
    created_by, created_at
FROM api_keys WHERE tenant_role <> 0;
INSERT INTO role_bindings (tenant_id, id, principal_id, role_id, created_by, created_at)
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '1', owner_id, 'role_admin', created_by, created_at FROM api_keys WHERE tenant_role = 0 AND roles LIKE '%1%'
UNION ALL
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '2', owner_id, 'role_operator', created_by, created_at FROM api_keys WHERE tenant_role = 0 AND roles LIKE '%2%'
UNION ALL
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '3', owner_id, 'role_producer', created_by, created_at FROM api_keys WHERE tenant_role = 0 AND roles LIKE '%3%'
UNION ALL
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '4', owner_id, 'role_worker', created_by, created_at FROM api_keys WHERE tenant_role = 0 AND roles LIKE '%4%'
UNION ALL
SELECT tenant_id, 'bnd_' || substr(owner_id, 4, 25) || '5', owner_id, 'role_viewer', created_by, created_at FROM api_keys WHERE tenant_role = 0 AND roles LIKE '%5%';
-- An admin of jobs must not become one of the tenant: such a key works for jobs alone,
-- whatever its account may do, because its kind is for the tenant URL.
ALTER TABLE api_keys DROP COLUMN roles;
ALTER TABLE api_keys DROP COLUMN tenant_role;
CREATE INDEX api_keys_by_owner ON api_keys (tenant_id, owner_id) WHERE revoked_at = 0;

-- Whoever may do less or more than before is told to the cell once: see reconcile.
UPDATE api_keys SET generation = generation + 1 WHERE revoked_at = 0;

-- What an identity provider's groups give. The JSON of group_mappings holds role ids from
-- here on, and still numbers where it was not written since.
ALTER TABLE sso_connections ADD COLUMN default_role_id TEXT NOT NULL DEFAULT '';
UPDATE sso_connections SET default_role_id =
    CASE default_role WHEN 1 THEN 'role_owner' WHEN 2 THEN 'role_admin' WHEN 3 THEN 'role_billing' WHEN 4 THEN 'role_developer' WHEN 5 THEN 'role_auditor' WHEN 6 THEN 'role_viewer' ELSE '' END;
ALTER TABLE sso_connections DROP COLUMN default_role;
