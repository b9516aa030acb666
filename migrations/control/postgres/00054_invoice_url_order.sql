-- As in 00002: texts are ordered by their bytes.

-- +goose Up
ALTER TABLE stripe_invoices ALTER COLUMN url TYPE TEXT COLLATE "C";
