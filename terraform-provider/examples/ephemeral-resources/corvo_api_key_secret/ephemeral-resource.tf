# A key for a pipeline that calls the control API.
ephemeral "corvo_api_key_secret" "pipeline" {
  kind = "mg"
}

resource "corvo_api_key" "pipeline" {
  name              = "pipeline"
  kind              = "mg"
  roles             = ["developer"]
  secret_wo         = ephemeral.corvo_api_key_secret.pipeline.key
  secret_wo_version = 1
}
