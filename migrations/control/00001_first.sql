-- The control plane's tables.
--
-- Every table of a tenant leads with tenant_id, and foreign keys carry it too, so that
-- a row of one tenant cannot refer to another's whatever a handler does. Times are Unix
-- nanoseconds (0: never or not yet), lists and maps JSON text, digests hex.

-- +goose Up

CREATE TABLE tenants (
    tenant_id    TEXT   NOT NULL PRIMARY KEY,
    name         TEXT   NOT NULL,
    display_name TEXT   NOT NULL,
    plan         TEXT   NOT NULL,
    cell         TEXT   NOT NULL, -- Placement.
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    deleted_at   BIGINT NOT NULL DEFAULT 0,
    version      BIGINT NOT NULL,
    generation   BIGINT NOT NULL, -- Of the desired state; raised by what the cell must learn.
    observed     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tenants_by_name ON tenants (name) WHERE deleted_at = 0;
CREATE INDEX tenants_unobserved ON tenants (tenant_id) WHERE observed < generation;

CREATE TABLE namespaces (
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id                TEXT   NOT NULL,
    name              TEXT   NOT NULL,
    labels            TEXT   NOT NULL,
    delete_protection BIGINT NOT NULL,
    region            TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    deleted_at        BIGINT NOT NULL DEFAULT 0,
    version           BIGINT NOT NULL,
    generation        BIGINT NOT NULL,
    observed          BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX namespaces_by_name ON namespaces (tenant_id, name) WHERE deleted_at = 0;
CREATE INDEX namespaces_unobserved ON namespaces (id) WHERE observed < generation;

-- Users stand above tenants: one person may be a member of several. A user who came
-- through a tenant's own identity provider belongs to that tenant alone (home_tenant),
-- because the provider may say any address.
-- waiver: no tenant_id; memberships say who belongs where.
CREATE TABLE users (
    id          TEXT   NOT NULL PRIMARY KEY,
    email       TEXT   NOT NULL, -- Lower case.
    name        TEXT   NOT NULL,
    home_tenant TEXT   NOT NULL DEFAULT '',
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX users_by_email ON users (email) WHERE home_tenant = '';

CREATE TABLE sso_connections (
    tenant_id      TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id             TEXT   NOT NULL,
    name           TEXT   NOT NULL,
    issuer         TEXT   NOT NULL,
    client_id      TEXT   NOT NULL,
    client_secret  TEXT   NOT NULL, -- Sealed with the control plane's key.
    scopes         TEXT   NOT NULL,
    groups_claim   TEXT   NOT NULL,
    default_role   BIGINT NOT NULL,
    group_mappings TEXT   NOT NULL,
    enabled        BIGINT NOT NULL,
    last_test      TEXT   NOT NULL, -- JSON, empty before the first.
    tested_version BIGINT NOT NULL DEFAULT 0, -- Of the settings that passed.
    settings       BIGINT NOT NULL, -- Raised by every change that a test must repeat.
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    version        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE identities (
    tenant_id     TEXT   NOT NULL,
    connection_id TEXT   NOT NULL,
    issuer        TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    user_id       TEXT   NOT NULL REFERENCES users (id),
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, connection_id, issuer, subject),
    FOREIGN KEY (tenant_id, connection_id) REFERENCES sso_connections (tenant_id, id)
);

CREATE TABLE memberships (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    user_id       TEXT   NOT NULL REFERENCES users (id),
    role          BIGINT NOT NULL,
    connection_id TEXT   NOT NULL DEFAULT '', -- Whose groups decide the role.
    created_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TABLE invitations (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id         TEXT   NOT NULL,
    email      TEXT   NOT NULL,
    role       BIGINT NOT NULL,
    digest     TEXT   NOT NULL UNIQUE, -- Of the link's token.
    invited_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, email)
);

CREATE TABLE api_keys (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id            TEXT   NOT NULL UNIQUE, -- key_<id12>: the key itself names no tenant.
    name          TEXT   NOT NULL,
    kind          BIGINT NOT NULL,
    namespace_ids TEXT   NOT NULL,
    roles         TEXT   NOT NULL,
    tenant_role   BIGINT NOT NULL,
    versions      TEXT   NOT NULL, -- JSON: digest, created_at, expires_at; two at most.
    expires_at    BIGINT NOT NULL,
    revoked_at    BIGINT NOT NULL DEFAULT 0,
    created_by    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    generation    BIGINT NOT NULL,
    observed      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX api_keys_by_creator ON api_keys (tenant_id, created_by) WHERE revoked_at = 0;
CREATE INDEX api_keys_unobserved ON api_keys (id) WHERE observed < generation;

-- Sessions of people. tenant_id is empty for somebody who signed in by mail and may
-- enter every tenant they are a member of; else the session is good for that one only.
CREATE TABLE sessions (
    tenant_id  TEXT   NOT NULL,
    digest     TEXT   NOT NULL PRIMARY KEY, -- Of the cookie.
    id         TEXT   NOT NULL UNIQUE,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    peer       TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Sign-ups not confirmed yet.
-- waiver: no tenant_id; there is no tenant yet.
CREATE TABLE signups (
    id           TEXT   NOT NULL PRIMARY KEY,
    email        TEXT   NOT NULL,
    tenant_name  TEXT   NOT NULL,
    digest       TEXT   NOT NULL UNIQUE,
    code_digest  TEXT   NOT NULL,
    attempts     BIGINT NOT NULL DEFAULT 0, -- Wrong codes.
    peer         TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0,
    tenant_id    TEXT   NOT NULL DEFAULT ''
);
CREATE INDEX signups_by_email ON signups (email, tenant_name);
CREATE INDEX signups_by_expiry ON signups (expires_at);

-- One-time tokens: sign-in links, and the state of an OpenID Connect sign-in under way.
-- waiver: no tenant_id; whoever holds the token is not known yet. data names it.
CREATE TABLE one_time_tokens (
    digest     TEXT   NOT NULL PRIMARY KEY,
    purpose    TEXT   NOT NULL,
    subject    TEXT   NOT NULL, -- User id, connection id.
    data       TEXT   NOT NULL, -- JSON; secrets in it are sealed.
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX one_time_tokens_by_expiry ON one_time_tokens (expires_at);

CREATE TABLE audit (
    tenant_id   TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    actor_type  TEXT   NOT NULL,
    actor_id    TEXT   NOT NULL,
    actor       TEXT   NOT NULL,
    action      TEXT   NOT NULL,
    target_type TEXT   NOT NULL,
    target_id   TEXT   NOT NULL,
    target      TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    peer        TEXT   NOT NULL,
    user_agent  TEXT   NOT NULL,
    changes     TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

-- First answers to idempotent calls, kept for a day.
CREATE TABLE idempotency (
    tenant_id  TEXT   NOT NULL,
    principal  TEXT   NOT NULL,
    method     TEXT   NOT NULL,
    request_id TEXT   NOT NULL,
    body       TEXT   NOT NULL, -- SHA-256 of the request.
    answer     TEXT   NOT NULL, -- Without secrets.
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- What has to happen outside, written with what caused it. A row leaves when it is done.
CREATE TABLE outbox (
    tenant_id    TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    kind         TEXT   NOT NULL, -- cell.tenant, cell.namespace, cell.key, cell.user, mail
    subject      TEXT   NOT NULL, -- Id of the row it is about.
    payload      TEXT   NOT NULL, -- Of a mail; sealed, since it holds a link.
    created_at   BIGINT NOT NULL,
    due_at       BIGINT NOT NULL, -- Later after each failure.
    wanted_at    BIGINT NOT NULL, -- When it was due first.
    attempts     BIGINT NOT NULL DEFAULT 0,
    last_error   TEXT   NOT NULL DEFAULT '',
    claimed_by   TEXT   NOT NULL DEFAULT '',
    claimed_till BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX outbox_by_id ON outbox (id);
CREATE INDEX outbox_by_subject ON outbox (tenant_id, kind, subject);

-- Rights that one process holds for a while, with a token that only grows.
-- waiver: no tenant_id; it belongs to the service.
CREATE TABLE leases (
    name       TEXT   NOT NULL PRIMARY KEY,
    holder     TEXT   NOT NULL,
    token      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Keys and numbers of the service itself.
-- waiver: no tenant_id; it belongs to the service.
CREATE TABLE settings (
    name       TEXT   NOT NULL PRIMARY KEY,
    value      TEXT   NOT NULL, -- Secrets sealed.
    created_at BIGINT NOT NULL
);

-- Floods: how often something was done in a window.
-- waiver: no tenant_id; the counted are addresses of mail and network.
CREATE TABLE rates (
    bucket     TEXT   NOT NULL,
    window_at  BIGINT NOT NULL,
    count      BIGINT NOT NULL,
    PRIMARY KEY (bucket, window_at)
);
CREATE INDEX rates_by_window ON rates (window_at);
