resource "corvo_service_account" "deploy" {
  name        = "deploy"
  description = "Deploys the shop"
}

resource "corvo_role_binding" "deploy" {
  principal_id = corvo_service_account.deploy.id
  role         = "operator"
}

ephemeral "corvo_api_key_secret" "deploy" {
  kind = "dp"
}

# The key may do what the service account may, from one network only.
resource "corvo_api_key" "deploy" {
  name              = "deploy"
  kind              = "dp"
  owner_id          = corvo_service_account.deploy.id
  cidrs             = ["203.0.113.0/24"]
  secret_wo         = ephemeral.corvo_api_key_secret.deploy.key
  secret_wo_version = 1
}
