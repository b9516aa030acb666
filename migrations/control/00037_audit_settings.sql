-- What a tenant's audit log has, and for how long.

-- +goose Up
ALTER TABLE sign_in_policies ADD COLUMN audit_payload_reads BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sign_in_policies ADD COLUMN audit_retention_ns BIGINT NOT NULL DEFAULT 0; -- 0: as everywhere.
