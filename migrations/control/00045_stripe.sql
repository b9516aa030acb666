-- What the payment provider, Stripe, has of tenants: its customers, what was sent to it of the
-- ledger, the events that it sent, its invoices, and what differs.

-- +goose Up
CREATE TABLE billing_contacts (
    tenant_id  TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    emails     TEXT   NOT NULL, -- Besides the owners.
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version    BIGINT NOT NULL
);

CREATE TABLE stripe_customers (
    tenant_id       TEXT   NOT NULL PRIMARY KEY REFERENCES tenants (tenant_id),
    customer_id     TEXT   NOT NULL, -- Empty while it is being made.
    attempt         BIGINT NOT NULL, -- Part of the idempotency key with which it is made.
    asked_at        BIGINT NOT NULL, -- When that attempt was first sent.
    subscription_id TEXT   NOT NULL,
    status          TEXT   NOT NULL, -- Stripe's word for the subscription's; empty: none.
    plan            TEXT   NOT NULL, -- What the subscription is for.
    plan_version    BIGINT NOT NULL,
    payment_method  BIGINT NOT NULL,
    owes            BIGINT NOT NULL,
    push_from       BIGINT NOT NULL, -- The first hour that is sent; 0: none.
    push_to         BIGINT NOT NULL, -- The first hour that is not; 0: no end.
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    version         BIGINT NOT NULL
);
CREATE UNIQUE INDEX stripe_customers_by_customer ON stripe_customers (customer_id) WHERE customer_id <> '';

-- One row is one meter event, or one invoice item where it is too late for one. It is here
-- before it is sent.
CREATE TABLE billing_pushes (
    tenant_id     TEXT   NOT NULL REFERENCES tenants (tenant_id),
    meter         TEXT   NOT NULL,
    hour          BIGINT NOT NULL, -- Its beginning.
    revision      BIGINT NOT NULL,
    identifier    TEXT   NOT NULL,
    kind          TEXT   NOT NULL, -- event or item.
    value         BIGINT NOT NULL, -- What the hour has beyond the revisions before.
    state         TEXT   NOT NULL, -- open, done or differs.
    first_sent_at BIGINT NOT NULL, -- 0: never.
    due_at        BIGINT NOT NULL,
    attempts      BIGINT NOT NULL,
    last_error    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    done_at       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, meter, hour, revision)
);
CREATE UNIQUE INDEX billing_pushes_by_identifier ON billing_pushes (identifier);
CREATE INDEX billing_pushes_due ON billing_pushes (due_at) WHERE state = 'open';

-- waiver: an event names no tenant of ours, and is known by Stripe's id alone.
CREATE TABLE stripe_events (
    id          TEXT   NOT NULL PRIMARY KEY,
    type        TEXT   NOT NULL,
    effect      TEXT   NOT NULL, -- applied or ignored.
    created_at  BIGINT NOT NULL, -- At Stripe.
    received_at BIGINT NOT NULL
);
CREATE INDEX stripe_events_received ON stripe_events (received_at);

CREATE TABLE stripe_invoices (
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    id           TEXT   NOT NULL,
    status       TEXT   NOT NULL, -- Stripe's word.
    currency     TEXT   NOT NULL,
    subtotal     BIGINT NOT NULL, -- Before tax.
    period_start BIGINT NOT NULL,
    period_end   BIGINT NOT NULL,
    items        TEXT   NOT NULL, -- Its lines.
    created_at   BIGINT NOT NULL, -- At Stripe.
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX stripe_invoices_by_period ON stripe_invoices (tenant_id, period_start, id);

-- What the ledger, the pushes and Stripe's summaries don't agree on; gone when they do again.
CREATE TABLE billing_differences (
    tenant_id TEXT   NOT NULL REFERENCES tenants (tenant_id),
    meter     TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    ledger    BIGINT NOT NULL,
    pushed    BIGINT NOT NULL,
    summed    BIGINT NOT NULL, -- By Stripe, with invoice items.
    found_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, meter, day)
);

-- For the loop that sends what was closed or corrected.
CREATE INDEX usage_hours_closed ON usage_hours (closed_at);
