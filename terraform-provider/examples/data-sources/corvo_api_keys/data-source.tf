data "corvo_service_account" "deploy" {
  name = "deploy"
}

data "corvo_api_keys" "deploy" {
  owner_id = data.corvo_service_account.deploy.id
}

# Every key of it has an end.
check "keys_expire" {
  assert {
    condition     = alltrue([for k in data.corvo_api_keys.deploy.api_keys : k.expires_at != null])
    error_message = "A key of the service account deploy never expires."
  }
}
