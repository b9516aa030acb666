-- The limits that tenants set for what they spend, and what was mailed about limits.

-- +goose Up
CREATE TABLE spend_limits (
    tenant_id  TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    amount     BIGINT NOT NULL, -- In the smallest unit of the currency; 0: no limit.
    currency   TEXT   NOT NULL,
    action     TEXT   NOT NULL, -- alert, hold or reject.
    alerts     TEXT   NOT NULL, -- Percentages.
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version    BIGINT NOT NULL
);

-- Emails that were written once in a period.
CREATE TABLE limit_notices (
    tenant_id TEXT   NOT NULL REFERENCES tenants (tenant_id),
    period    BIGINT NOT NULL, -- When it began.
    notice    TEXT   NOT NULL,
    sent_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, period, notice)
);
