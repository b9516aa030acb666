data "corvo_service_account" "deploy" {
  name = "deploy"
}

resource "corvo_role_binding" "deploy" {
  principal_id = data.corvo_service_account.deploy.id
  role         = "worker"
}
