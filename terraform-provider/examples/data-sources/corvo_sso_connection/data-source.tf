data "corvo_sso_connection" "okta" {
  name = "Okta"
}

output "scim_endpoint" {
  value = data.corvo_sso_connection.okta.scim_endpoint_url
}
