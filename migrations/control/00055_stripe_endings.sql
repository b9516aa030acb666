-- Subscriptions that have ended, until everything that they owe is on an invoice.

-- +goose Up
CREATE TABLE stripe_endings (
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    subscription_id TEXT   NOT NULL,
    push_from       BIGINT NOT NULL, -- The first hour that it pays.
    push_to         BIGINT NOT NULL, -- The first hour that it doesn't.
    due_at          BIGINT NOT NULL, -- When it is looked at again; 0: never.
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, subscription_id)
);
CREATE INDEX stripe_endings_due ON stripe_endings (due_at) WHERE due_at > 0;
