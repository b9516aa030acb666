data "corvo_service_accounts" "all" {}

output "disabled" {
  value = [for a in data.corvo_service_accounts.all.service_accounts : a.name if a.disabled]
}
