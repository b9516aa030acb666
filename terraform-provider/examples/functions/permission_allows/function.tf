data "corvo_role" "producer" {
  name = "producer"
}

check "producers_enqueue" {
  assert {
    condition     = provider::corvo::permission_allows(data.corvo_role.producer.permissions, "job.enqueue")
    error_message = "The role producer can't enqueue jobs."
  }
}
