-- What was done to queues and jobs stands in the audit log too, with where.

-- +goose Up

ALTER TABLE audit ADD COLUMN namespace_id TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
-- The acts of a cell name namespaces without their tenants.
CREATE INDEX namespaces_by_id ON namespaces (id);
