locals {
  # Raise it to rotate. The old token works for rotation_overlap longer.
  token_version = 1
}

resource "corvo_sso_connection" "okta" {
  name = "Okta"
  saml = {
    metadata_url = "https://company.okta.com/app/exk1b2c3d4/sso/saml/metadata"
  }
}

# Another token in every run; taken only when token_version changes.
ephemeral "corvo_api_key_secret" "directory" {
  kind = "scim"
}

resource "corvo_scim_token" "okta" {
  connection_id     = corvo_sso_connection.okta.id
  secret_wo         = ephemeral.corvo_api_key_secret.directory.key
  secret_wo_version = local.token_version
}

# The same token goes where the person who sets up the directory finds it, by another
# write-only argument, with the same version:
#
#   resource "aws_secretsmanager_secret_version" "directory" {
#     secret_id                = aws_secretsmanager_secret.directory.id
#     secret_string_wo         = ephemeral.corvo_api_key_secret.directory.key
#     secret_string_wo_version = local.token_version
#   }
output "scim_endpoint" {
  value = corvo_scim_token.okta.endpoint_url
}
