-- For pushes to Stripe: a page of the hours that were closed or corrected since, in that order.

-- +goose Up
DROP INDEX usage_hours_closed;
CREATE INDEX usage_hours_closed ON usage_hours (closed_at, tenant_id, hour);
