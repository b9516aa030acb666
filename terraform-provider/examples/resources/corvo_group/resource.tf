resource "corvo_group" "support" {
  name        = "support"
  description = "Answers customers"
}

resource "corvo_role_binding" "support" {
  principal_id = corvo_group.support.id
  role         = "operator"
}
