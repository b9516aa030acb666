data "corvo_current_identity" "me" {}

output "tenant" {
  value = data.corvo_current_identity.me.tenant
}
