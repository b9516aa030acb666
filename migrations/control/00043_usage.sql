-- What was counted for billing. Hours are numbers since 1970, UTC. A meter's numbers are in
-- this order everywhere: jobs_enqueued, executions, payload_bytes, stored_byte_hours,
-- egress_bytes, streams_peak.

-- +goose Up
-- Up to where a source of readings, a shard or a proxy, has told what it counted.
-- waiver: no tenant_id; a source counts for all tenants of its cell.
CREATE TABLE usage_sources (
    cell        TEXT   NOT NULL,
    source      TEXT   NOT NULL,
    epoch       TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    complete_to BIGINT NOT NULL, -- Nothing will be added to hours that ended by then, except by a correction.
    heard_at    BIGINT NOT NULL, -- When complete_to rose last.
    ended       BIGINT NOT NULL, -- Of a shard: another epoch has begun.
    PRIMARY KEY (cell, source, epoch)
);

-- Which hours of a cell are closed: those before hour, and hour itself of the tenants up to
-- tenants_to.
-- waiver: no tenant_id; it is about all tenants of a cell.
CREATE TABLE usage_closings (
    cell       TEXT   NOT NULL PRIMARY KEY,
    hour       BIGINT NOT NULL,
    tenants_to TEXT   NOT NULL,
    closed_at  BIGINT NOT NULL
);

-- The largest numbers of each source in an epoch. What exceeds base counts.
CREATE TABLE usage_readings (
    tenant_id              TEXT   NOT NULL REFERENCES tenants (tenant_id),
    hour                   BIGINT NOT NULL,
    namespace_id           TEXT   NOT NULL,
    cell                   TEXT   NOT NULL,
    source                 TEXT   NOT NULL,
    epoch                  TEXT   NOT NULL,
    seq                    BIGINT NOT NULL,
    jobs_enqueued          BIGINT NOT NULL,
    executions             BIGINT NOT NULL,
    payload_bytes          BIGINT NOT NULL,
    stored_byte_hours      BIGINT NOT NULL,
    egress_bytes           BIGINT NOT NULL,
    streams_peak           BIGINT NOT NULL,
    base_jobs_enqueued     BIGINT NOT NULL,
    base_executions        BIGINT NOT NULL,
    base_payload_bytes     BIGINT NOT NULL,
    base_stored_byte_hours BIGINT NOT NULL,
    base_egress_bytes      BIGINT NOT NULL,
    base_streams_peak      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, hour, namespace_id, cell, source, epoch)
);
CREATE INDEX usage_readings_of_hour ON usage_readings (cell, hour, tenant_id);

-- Jobs that haven't ended and bytes stored, as a namespace's shard said last.
CREATE TABLE usage_levels (
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    namespace_id TEXT   NOT NULL,
    hour         BIGINT NOT NULL,
    seq          BIGINT NOT NULL,
    open_jobs    BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, namespace_id)
);

-- The ledger: closed hours. The highest revision of an hour counts.
CREATE TABLE usage_hours (
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    hour              BIGINT NOT NULL,
    namespace_id      TEXT   NOT NULL,
    revision          BIGINT NOT NULL,
    jobs_enqueued     BIGINT NOT NULL,
    executions        BIGINT NOT NULL,
    payload_bytes     BIGINT NOT NULL,
    stored_byte_hours BIGINT NOT NULL,
    egress_bytes      BIGINT NOT NULL,
    streams_peak      BIGINT NOT NULL,
    closed_at         BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, hour, namespace_id, revision)
);

-- Sums of the closed hours of a day (a number since 1970, UTC), streams_peak the largest of
-- them. They make previews fast.
CREATE TABLE usage_days (
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    day               BIGINT NOT NULL,
    namespace_id      TEXT   NOT NULL,
    jobs_enqueued     BIGINT NOT NULL,
    executions        BIGINT NOT NULL,
    payload_bytes     BIGINT NOT NULL,
    stored_byte_hours BIGINT NOT NULL,
    egress_bytes      BIGINT NOT NULL,
    streams_peak      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, namespace_id)
);

-- What a source said that can't be: somebody has to look.
CREATE TABLE usage_alarms (
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    namespace_id TEXT   NOT NULL,
    hour         BIGINT NOT NULL,
    cell         TEXT   NOT NULL,
    source       TEXT   NOT NULL,
    epoch        TEXT   NOT NULL,
    problem      TEXT   NOT NULL,
    first_at     BIGINT NOT NULL,
    last_at      BIGINT NOT NULL,
    times        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, namespace_id, hour, cell, source, epoch, problem)
);

-- Tenants whose readings or spend limit changed, for the loop that compares them with limits.
CREATE TABLE usage_changes (
    tenant_id  TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    changed_at BIGINT NOT NULL
);
CREATE INDEX usage_changes_at ON usage_changes (changed_at);
