data "corvo_member" "ada" {
  email = "ada@company.com"
}

resource "corvo_role_binding" "ada" {
  principal_id = data.corvo_member.ada.user_id
  role         = "auditor"
}
