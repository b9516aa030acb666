data "corvo_service_account" "deploy" {
  name = "deploy"
}

# Works during this run, and is revoked at its end.
ephemeral "corvo_api_key" "run" {
  name        = "terraform run"
  kind        = "dp"
  owner_id    = data.corvo_service_account.deploy.id
  permissions = ["job.enqueue"]
  life        = "30m"
}
