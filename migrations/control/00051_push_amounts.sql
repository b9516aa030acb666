-- What an item costs is decided once, before it is sent: of two items of a month only one
-- uses up what is included in it.

-- +goose Up
ALTER TABLE billing_pushes ADD COLUMN amount BIGINT NOT NULL DEFAULT 0; -- Of an item, in the smallest unit of the currency.
ALTER TABLE billing_pushes ADD COLUMN currency TEXT NOT NULL DEFAULT ''; -- Empty: not decided.

-- When an invoice got what its lines lacked to the bill.
ALTER TABLE stripe_invoices ADD COLUMN adjusted_at BIGINT NOT NULL DEFAULT 0; -- 0: never.
CREATE INDEX stripe_invoices_drafts ON stripe_invoices (created_at) WHERE status = 'draft' AND adjusted_at = 0;
