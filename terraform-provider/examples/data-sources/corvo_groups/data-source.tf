data "corvo_groups" "all" {}

output "of_the_directory" {
  value = [for g in data.corvo_groups.all.groups : g.name if g.connection_id != ""]
}
