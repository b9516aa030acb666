-- How people sign in to a tenant, what its keys must be, and the codes that get an owner in
-- when single sign-on is down.

-- +goose Up
CREATE TABLE sign_in_policies (
    tenant_id             TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    require_sso           BIGINT NOT NULL,
    require_second_factor BIGINT NOT NULL,
    session_idle_ns       BIGINT NOT NULL, -- 0: as for everybody.
    session_life_ns       BIGINT NOT NULL,
    key_life_ns           BIGINT NOT NULL, -- 0: keys need no end.
    key_networks          BIGINT NOT NULL,
    no_personal_keys      BIGINT NOT NULL, -- For jobs.
    created_at            BIGINT NOT NULL,
    updated_at            BIGINT NOT NULL,
    version               BIGINT NOT NULL
);

CREATE TABLE break_glass_codes (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    digest     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, digest)
);

-- Sessions that showed such a code.
CREATE TABLE break_glass_entries (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    session_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, session_id)
);
