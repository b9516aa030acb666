-- For operators: a page of tenants by a figure, and what isn't at Stripe for certain, without
-- reading all of either.

-- +goose Up
CREATE INDEX tenant_figures_revenue ON tenant_figures (revenue DESC, tenant_id);
CREATE INDEX tenant_figures_last_month ON tenant_figures (revenue_last_month DESC, tenant_id);
CREATE INDEX tenant_figures_jobs_day ON tenant_figures (jobs_day DESC, tenant_id);
CREATE INDEX tenant_figures_jobs_hour ON tenant_figures (jobs_hour DESC, tenant_id);
CREATE INDEX tenant_figures_open_jobs ON tenant_figures (open_jobs DESC, tenant_id);
CREATE INDEX tenant_figures_stored_bytes ON tenant_figures (stored_bytes DESC, tenant_id);
CREATE INDEX billing_pushes_undone ON billing_pushes (hour) WHERE state <> 'done';
