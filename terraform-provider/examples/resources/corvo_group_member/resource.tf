resource "corvo_group" "support" {
  name = "support"
}

resource "corvo_group_member" "ada" {
  group_id = corvo_group.support.id
  user_id  = "usr_01HZX3J5N8Q4R7T2V6W9Y0A1B2"
}
