data "corvo_audit_head" "now" {}

# In the state, which the service can't change.
output "audit_head" {
  value = "${data.corvo_audit_head.now.seq} ${data.corvo_audit_head.now.hash}"
}
