data "corvo_plan" "current" {}

# Fails before anything is made if the plan is too small.
check "namespaces" {
  assert {
    condition     = lookup(data.corvo_plan.current.entitlements, "namespaces_max", 2000) >= 10
    error_message = "The plan ${data.corvo_plan.current.name} has too few namespaces."
  }
}
