-- How long a namespace keeps what has ended.

-- +goose Up
ALTER TABLE namespaces ADD COLUMN retention TEXT NOT NULL DEFAULT '{}'; -- JSON; what is missing the plan decides.
