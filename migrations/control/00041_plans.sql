-- What tenants' plans give, what they cost, and where each tenant stands.

-- +goose Up
-- waiver: plans are the service's; a tenant's own is in tenants and subscriptions.
CREATE TABLE plans (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL -- The newest; a tenant keeps the one it chose.
);

-- waiver: as plans.
CREATE TABLE plan_versions (
    plan        TEXT   NOT NULL REFERENCES plans (name),
    version     BIGINT NOT NULL,
    title       TEXT   NOT NULL,
    rank        BIGINT NOT NULL, -- A change to a higher one counts at once.
    currency    TEXT   NOT NULL,
    base_amount BIGINT NOT NULL, -- A month, in the currency's smallest unit.
    over_limit  TEXT   NOT NULL, -- What happens beyond jobs_per_month_max.
    self_serve  BIGINT NOT NULL, -- Tenants can choose it.
    listed      BIGINT NOT NULL, -- Tenants see it.
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (plan, version)
);

-- waiver: as plans.
CREATE TABLE plan_entitlements (
    plan    TEXT   NOT NULL,
    version BIGINT NOT NULL,
    name    TEXT   NOT NULL, -- A name without a row has no limit.
    value   BIGINT NOT NULL,
    PRIMARY KEY (plan, version, name),
    FOREIGN KEY (plan, version) REFERENCES plan_versions (plan, version)
);

-- waiver: as plans.
CREATE TABLE plan_prices (
    plan     TEXT   NOT NULL,
    version  BIGINT NOT NULL,
    meter    TEXT   NOT NULL,
    included BIGINT NOT NULL,
    per      BIGINT NOT NULL,
    amount   BIGINT NOT NULL, -- Of every per beyond what is included.
    PRIMARY KEY (plan, version, meter),
    FOREIGN KEY (plan, version) REFERENCES plan_versions (plan, version)
);

-- The plan's name is in tenants.
CREATE TABLE subscriptions (
    tenant_id    TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    plan_version BIGINT NOT NULL,
    next_plan    TEXT   NOT NULL DEFAULT '', -- A change that waits for next_at.
    next_version BIGINT NOT NULL DEFAULT 0,
    next_at      BIGINT NOT NULL DEFAULT 0,
    state        TEXT   NOT NULL DEFAULT 'active',
    state_since  BIGINT NOT NULL,
    state_until  BIGINT NOT NULL DEFAULT 0,
    updated_at   BIGINT NOT NULL,
    version      BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX subscriptions_due ON subscriptions (next_at) WHERE next_at > 0;

-- Which plan was in force from when on: bills are made from it.
CREATE TABLE subscription_changes (
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    at           BIGINT NOT NULL,
    plan         TEXT   NOT NULL,
    plan_version BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, at)
);

CREATE TABLE entitlement_overrides (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    name       TEXT   NOT NULL,
    value      BIGINT NOT NULL,
    unlimited  BIGINT NOT NULL,
    reason     TEXT   NOT NULL,
    ends_at    BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE INDEX entitlement_overrides_ending ON entitlement_overrides (ends_at) WHERE ends_at > 0;

-- What is held back of a tenant's jobs, by each limit that says so.
CREATE TABLE tenant_holds (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    limit_name TEXT   NOT NULL,
    dispatch   BIGINT NOT NULL,
    enqueue    BIGINT NOT NULL,
    value      BIGINT NOT NULL DEFAULT 0,
    until      BIGINT NOT NULL DEFAULT 0, -- 0: not by itself.
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, limit_name)
);

-- Amounts are cents. A GB is 2^30 bytes, and a month of it 730 hours.
INSERT INTO plans (name, version) VALUES ('free', 1), ('team', 1), ('business', 1), ('dedicated', 1), ('unlimited', 1);
INSERT INTO plan_versions (plan, version, title, rank, currency, base_amount, over_limit, self_serve, listed, created_at) VALUES
    ('free', 1, 'Free', 10, 'usd', 0, 'hold_dispatch', 1, 1, 0),
    ('team', 1, 'Team', 20, 'usd', 4900, 'hold_dispatch', 1, 1, 0),
    ('business', 1, 'Business', 30, 'usd', 49900, 'hold_dispatch', 1, 1, 0),
    ('dedicated', 1, 'Dedicated', 40, 'usd', 0, 'hold_dispatch', 0, 1, 0),
    ('unlimited', 1, 'Unlimited', 50, 'usd', 0, 'hold_dispatch', 0, 0, 0);

INSERT INTO plan_entitlements (plan, version, name, value) VALUES
    ('free', 1, 'enqueue_per_second', 1000),
    ('free', 1, 'payload_bytes_max', 262144),
    ('free', 1, 'streams_max', 200),
    ('free', 1, 'weight', 1),
    ('free', 1, 'jobs_per_month_max', 1000000),
    ('free', 1, 'open_jobs_max', 500000),
    ('free', 1, 'stored_bytes_max', 1073741824),
    ('free', 1, 'namespaces_max', 60),
    ('free', 1, 'namespaces_per_day', 100),
    ('free', 1, 'keys_max', 200),
    ('free', 1, 'keys_per_day', 300),
    ('free', 1, 'members_max', 500),
    ('free', 1, 'retention.completed_seconds_max', 2592000),
    ('free', 1, 'retention.dead_seconds_max', 7776000),
    ('free', 1, 'retention.cancelled_seconds_max', 7776000),
    ('free', 1, 'retention.finished_max_max', 1000000),
    ('free', 1, 'retention.events_seconds_max', 2592000),
    ('free', 1, 'retention.events_bytes_max_max', 268435456),
    ('free', 1, 'retention.usage_seconds_max', 34560000),
    ('free', 1, 'feature.sso', 1),
    ('free', 1, 'feature.scim', 1),
    ('free', 1, 'feature.audit_sinks', 1),
    ('free', 1, 'feature.custom_roles', 1),
    ('team', 1, 'enqueue_per_second', 5000),
    ('team', 1, 'enqueue_burst', 20000),
    ('team', 1, 'payload_bytes_max', 1048576),
    ('team', 1, 'streams_max', 1000),
    ('team', 1, 'weight', 5),
    ('team', 1, 'open_jobs_max', 5000000),
    ('team', 1, 'stored_bytes_max', 21474836480),
    ('team', 1, 'namespaces_max', 200),
    ('team', 1, 'namespaces_per_day', 300),
    ('team', 1, 'keys_max', 1000),
    ('team', 1, 'keys_per_day', 1500),
    ('team', 1, 'members_max', 2000),
    ('team', 1, 'retention.completed_seconds_max', 7776000),
    ('team', 1, 'retention.dead_seconds_max', 15552000),
    ('team', 1, 'retention.cancelled_seconds_max', 15552000),
    ('team', 1, 'retention.finished_max_max', 10000000),
    ('team', 1, 'retention.events_seconds_max', 7776000),
    ('team', 1, 'retention.events_bytes_max_max', 1073741824),
    ('team', 1, 'retention.usage_seconds_max', 69120000),
    ('team', 1, 'feature.sso', 1),
    ('team', 1, 'feature.scim', 1),
    ('team', 1, 'feature.audit_sinks', 1),
    ('team', 1, 'feature.custom_roles', 1),
    ('business', 1, 'enqueue_per_second', 20000),
    ('business', 1, 'enqueue_burst', 100000),
    ('business', 1, 'payload_bytes_max', 1048576),
    ('business', 1, 'streams_max', 5000),
    ('business', 1, 'weight', 20),
    ('business', 1, 'open_jobs_max', 50000000),
    ('business', 1, 'stored_bytes_max', 214748364800),
    ('business', 1, 'namespaces_max', 1000),
    ('business', 1, 'namespaces_per_day', 1500),
    ('business', 1, 'keys_max', 5000),
    ('business', 1, 'keys_per_day', 7500),
    ('business', 1, 'members_max', 20000),
    ('business', 1, 'retention.completed_seconds_max', 31536000),
    ('business', 1, 'retention.dead_seconds_max', 31536000),
    ('business', 1, 'retention.cancelled_seconds_max', 31536000),
    ('business', 1, 'retention.finished_max_max', 100000000),
    ('business', 1, 'retention.events_seconds_max', 31536000),
    ('business', 1, 'retention.events_bytes_max_max', 10737418240),
    ('business', 1, 'retention.usage_seconds_max', 103680000),
    ('business', 1, 'feature.sso', 1),
    ('business', 1, 'feature.scim', 1),
    ('business', 1, 'feature.audit_sinks', 1),
    ('business', 1, 'feature.custom_roles', 1),
    ('dedicated', 1, 'weight', 100),
    ('dedicated', 1, 'namespaces_max', 2000),
    ('dedicated', 1, 'keys_max', 5000),
    ('dedicated', 1, 'feature.sso', 1),
    ('dedicated', 1, 'feature.scim', 1),
    ('dedicated', 1, 'feature.audit_sinks', 1),
    ('dedicated', 1, 'feature.custom_roles', 1),
    ('unlimited', 1, 'weight', 100),
    ('unlimited', 1, 'namespaces_max', 2000),
    ('unlimited', 1, 'keys_max', 5000),
    ('unlimited', 1, 'feature.sso', 1),
    ('unlimited', 1, 'feature.scim', 1),
    ('unlimited', 1, 'feature.audit_sinks', 1),
    ('unlimited', 1, 'feature.custom_roles', 1);

INSERT INTO plan_prices (plan, version, meter, included, per, amount) VALUES
    ('team', 1, 'jobs_enqueued', 5000000, 1000000, 200),
    ('team', 1, 'executions', 10000000, 1000000, 50),
    ('team', 1, 'stored_byte_hours', 15676630630400, 783831531520, 50),
    ('team', 1, 'egress_bytes', 107374182400, 1073741824, 9),
    ('business', 1, 'jobs_enqueued', 100000000, 1000000, 120),
    ('business', 1, 'executions', 200000000, 1000000, 30),
    ('business', 1, 'stored_byte_hours', 195957882880000, 783831531520, 40),
    ('business', 1, 'egress_bytes', 1099511627776, 1073741824, 8);


INSERT INTO subscriptions (tenant_id, plan_version, state_since, updated_at) SELECT tenant_id, 1, created_at, created_at FROM tenants;
INSERT INTO subscription_changes (tenant_id, at, plan, plan_version) SELECT tenant_id, created_at, plan, 1 FROM tenants;
