-- The address that a provider vouched for when somebody signed in last; an address that people
-- may have chosen by themselves is not here. Whoever signed in before this has none until they
-- sign in again: whether theirs was verified is not known.

-- +goose Up
ALTER TABLE identities ADD COLUMN vouched_email TEXT NOT NULL DEFAULT '';
