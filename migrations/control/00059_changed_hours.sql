-- For pushes to Stripe: a page of the hours that were closed or corrected since, in that order,
-- and what was pushed of some hours.

-- +goose Up
DROP INDEX usage_hours_closed;
CREATE INDEX usage_hours_closed ON usage_hours (closed_at, tenant_id, hour);
CREATE INDEX billing_pushes_by_hour ON billing_pushes (tenant_id, hour);
