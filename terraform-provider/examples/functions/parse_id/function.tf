variable "namespace_id" {
  type = string

  validation {
    condition     = provider::corvo::parse_id(var.namespace_id).kind == "namespace"
    error_message = "This isn't the id of a namespace (ns_…)."
  }
}
