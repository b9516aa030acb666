# The current month, by day.
data "corvo_usage" "current" {}

output "jobs_this_month" {
  value = data.corvo_usage.current.total.jobs_enqueued
}

# A day, by hour and namespace.
data "corvo_usage" "launch" {
  from         = "2026-11-03T00:00:00Z"
  to           = "2026-11-04T00:00:00Z"
  interval     = "hour"
  by_namespace = true
}
