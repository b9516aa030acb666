data "corvo_invoice_preview" "current" {}

# What November would have cost on another plan.
data "corvo_invoice_preview" "team" {
  period = "2026-11"
  plan   = "team"
}

check "cost" {
  assert {
    condition     = data.corvo_invoice_preview.current.forecast_total <= 50000
    error_message = "This month is going to cost more than $500."
  }
}
