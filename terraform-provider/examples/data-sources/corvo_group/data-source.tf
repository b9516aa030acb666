# A group that the company's directory keeps.
data "corvo_group" "engineering" {
  name = "Engineering"
}

resource "corvo_role_binding" "engineering" {
  principal_id = data.corvo_group.engineering.id
  role         = "developer"
}
