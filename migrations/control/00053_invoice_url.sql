-- The provider's page of an invoice. Those that are here get theirs at the next daily check.

-- +goose Up
ALTER TABLE stripe_invoices ADD COLUMN url TEXT NOT NULL DEFAULT '';
