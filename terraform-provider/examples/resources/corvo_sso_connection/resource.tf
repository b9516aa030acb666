variable "okta_client_secret" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "corvo_sso_connection" "okta" {
  name = "Okta"
  oidc = {
    issuer           = "https://company.okta.com"
    client_id        = "0oa1b2c3d4e5f6g7h8"
    client_secret_wo = var.okta_client_secret
  }
  client_secret_wo_version = 1

  # The first that matches decides.
  group_mappings = [
    { group = "platform", role = "admin" },
    { group = "engineering", role = "viewer" },
  ]
}

resource "corvo_sso_connection" "entra" {
  name = "Entra ID"
  saml = {
    metadata_url = "https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/federationmetadata/2007-06/federationmetadata.xml"
  }
  default_role = "viewer"
}
