variable "worker_key" {
  type      = string
  sensitive = true
  ephemeral = true

  validation {
    condition     = provider::corvo::parse_api_key(var.worker_key).kind == "dp"
    error_message = "This isn't a key for jobs (corvo_dp_…)."
  }
}
