data "corvo_roles" "all" {}

output "own_roles" {
  value = [for r in data.corvo_roles.all.roles : r.name if !r.fixed]
}
