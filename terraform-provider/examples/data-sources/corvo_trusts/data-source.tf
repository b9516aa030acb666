data "corvo_trusts" "all" {}

output "issuers" {
  value = distinct([for t in data.corvo_trusts.all.trusts : t.issuer])
}
