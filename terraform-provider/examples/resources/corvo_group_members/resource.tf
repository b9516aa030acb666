resource "corvo_group" "support" {
  name = "support"
}

# Nobody else is in it.
resource "corvo_group_members" "support" {
  group_id = corvo_group.support.id
  user_ids = [
    "usr_01HZX3J5N8Q4R7T2V6W9Y0A1B2",
    "usr_01J0A7C9E2G4J6M8P0R3T5W7Y9",
  ]
}
