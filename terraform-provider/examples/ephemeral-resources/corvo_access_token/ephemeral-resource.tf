variable "id_token" {
  type      = string
  sensitive = true
  ephemeral = true
}

# Has no key, and can do nothing but exchange a token.
provider "corvo" {
  alias     = "exchange"
  endpoint  = "https://app.corvo.cloud"
  anonymous = true
}

ephemeral "corvo_access_token" "ci" {
  provider = corvo.exchange
  tenant   = "acme"
  token    = var.id_token
}

provider "corvo" {
  endpoint = "https://app.corvo.cloud"
  token    = ephemeral.corvo_access_token.ci.key
}
