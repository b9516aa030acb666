-- Who operates the service, what they changed that belongs to no tenant, and the figures by
-- which they compare tenants.

-- +goose Up
-- waiver: operators belong to the service; a tenant neither makes nor sees one.
CREATE TABLE operators (
    user_id  TEXT   NOT NULL PRIMARY KEY REFERENCES users (id),
    role     TEXT   NOT NULL, -- viewer or admin.
    added_at BIGINT NOT NULL,
    added_by TEXT   NOT NULL  -- Who ran the command, and where.
);

-- What is about a tenant is in that tenant's audit log instead.
-- waiver: as operators.
CREATE TABLE operator_log (
    id     TEXT   NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT   NOT NULL,
    detail TEXT   NOT NULL
);

-- Computed again when they are too old; see package operators.
CREATE TABLE tenant_figures (
    tenant_id          TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    at                 BIGINT NOT NULL,
    month              BIGINT NOT NULL, -- When the month of revenue began.
    currency           TEXT   NOT NULL,
    revenue            BIGINT NOT NULL, -- In the currency's smallest unit, before tax.
    revenue_last_month BIGINT NOT NULL,
    jobs_day           BIGINT NOT NULL,
    jobs_hour          BIGINT NOT NULL,
    open_jobs          BIGINT NOT NULL,
    stored_bytes       BIGINT NOT NULL
);
