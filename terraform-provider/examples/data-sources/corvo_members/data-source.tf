data "corvo_members" "all" {}

output "owners" {
  value = [for m in data.corvo_members.all.members : m.email if contains(m.roles, "owner")]
}
