data "corvo_trust" "deploy" {
  name = "deploy"
}

# What a pipeline must ask its token for.
output "audience" {
  value = data.corvo_trust.deploy.audience
}
