variable "siem_signing_secret" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "corvo_audit_sink" "siem" {
  name   = "siem"
  format = "ocsf"
  https = {
    url               = "https://siem.company.com/audit"
    signing_secret_wo = var.siem_signing_secret
  }
  secrets_wo_version = 1
}
