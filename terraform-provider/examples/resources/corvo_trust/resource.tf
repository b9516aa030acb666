resource "corvo_service_account" "deploy" {
  name = "deploy"
}

# Jobs of GitHub Actions on the main branch of acme/web get keys of that service account.
resource "corvo_trust" "web" {
  name               = "web"
  service_account_id = corvo_service_account.deploy.id
  token_provider     = "github"
  conditions = {
    repository = ["acme/web"]
    ref        = ["refs/heads/main"]
  }
}
