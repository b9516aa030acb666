data "corvo_role" "producer" {
  name = "producer"
}

output "producers_may" {
  value = data.corvo_role.producer.permissions
}
