-- What was mailed about the end of a key. The columns are the service's own: no change of
-- the record that people made.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN end_set_at BIGINT NOT NULL DEFAULT 0;    -- When expires_at was changed last; 0: as it was made.
ALTER TABLE api_keys ADD COLUMN noticed_end BIGINT NOT NULL DEFAULT 0;   -- The expires_at that the last notice was about.
ALTER TABLE api_keys ADD COLUMN noticed_span_ns BIGINT NOT NULL DEFAULT 0; -- How long before it that notice was due.
CREATE INDEX api_keys_ending ON api_keys (expires_at) WHERE expires_at > 0 AND revoked_at = 0;
