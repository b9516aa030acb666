terraform {
  required_version = ">= 1.11"
  required_providers {
    corvo = {
      source = "corvo-cloud/corvo"
    }
  }
}

# CORVO_ENDPOINT and CORVO_TOKEN (a management key) come from the environment.
provider "corvo" {
  # A token of another tenant changes nothing.
  tenant = "acme"
}
