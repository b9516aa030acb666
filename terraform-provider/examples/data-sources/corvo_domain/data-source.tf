data "corvo_domain" "company" {
  name = "company.com"
}

check "domain" {
  assert {
    condition     = data.corvo_domain.company.verified
    error_message = "company.com isn't verified: ${data.corvo_domain.company.problem}"
  }
}
