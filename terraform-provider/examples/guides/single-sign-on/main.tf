variable "company_domain" {
  description = "The domain of your people's email addresses."
  type        = string
}

variable "idp_metadata_url" {
  description = "Where your identity provider has its SAML metadata."
  type        = string
}

variable "sign_in_tested" {
  description = "Set it to true after the test sign-in."
  type        = bool
  default     = false
}

locals {
  # Raise it to rotate the directory's token.
  directory_token_version = 1
}

# --- How people sign in -------------------------------------------------------------------

resource "corvo_sso_connection" "company" {
  name         = "Company"
  saml         = { metadata_url = var.idp_metadata_url }
  enabled      = var.sign_in_tested
  default_role = "viewer"

  # The first that matches decides.
  group_mappings = [
    { group = "platform", role = "admin" },
    { group = "on-call", role = corvo_role.on_call.id },
  ]
}

resource "corvo_domain" "company" {
  name          = var.company_domain
  connection_id = corvo_sso_connection.company.id
}

# The TXT record, with the provider of your DNS, for example:
#
#   resource "aws_route53_record" "corvo" {
#     zone_id = data.aws_route53_zone.company.zone_id
#     name    = corvo_domain.company.txt_name
#     type    = "TXT"
#     ttl     = 300
#     records = [corvo_domain.company.txt_value]
#   }

# Waits until the record is found.
resource "corvo_domain_verification" "company" {
  domain_id = corvo_domain.company.id
  # depends_on = [aws_route53_record.corvo]
}

# --- Who is there: the company's directory keeps people and groups -------------------------

# Made on this machine; only its id and digest are sent. Another one in every run, taken only
# when directory_token_version changes.
ephemeral "corvo_api_key_secret" "directory" {
  kind = "scim"
}

resource "corvo_scim_token" "directory" {
  connection_id     = corvo_sso_connection.company.id
  secret_wo         = ephemeral.corvo_api_key_secret.directory.key
  secret_wo_version = local.directory_token_version
}

# The token itself, where whoever sets up the directory finds it, for example:
#
#   resource "aws_secretsmanager_secret_version" "directory" {
#     secret_id                = aws_secretsmanager_secret.directory.id
#     secret_string_wo         = ephemeral.corvo_api_key_secret.directory.key
#     secret_string_wo_version = local.directory_token_version
#   }

# --- Who may do what ----------------------------------------------------------------------

resource "corvo_namespace" "production" {
  name = "production"
}

resource "corvo_role" "on_call" {
  name        = "on-call"
  description = "Looks at queues, pauses them, and retries what died."
  permissions = ["namespace.read", "queue.read", "queue.pause", "job.list", "job.read", "job.retry"]
}

# A machine: it may enqueue and work, in production only.
resource "corvo_service_account" "orders" {
  name        = "orders"
  description = "The shop's order service."
}

resource "corvo_role_binding" "orders" {
  for_each = toset(["producer", "worker"])

  principal_id = corvo_service_account.orders.id
  role         = each.key
  namespace    = corvo_namespace.production.id
  queues       = "orders.*"
}

# What somebody enters at the identity provider and at the directory.
output "identity_provider" {
  value = {
    acs_url      = corvo_sso_connection.company.redirect_uri
    entity_id    = corvo_sso_connection.company.sp_entity_id
    metadata_url = corvo_sso_connection.company.sp_metadata_url
  }
}

output "directory_endpoint" {
  value = corvo_scim_token.directory.endpoint_url
}
