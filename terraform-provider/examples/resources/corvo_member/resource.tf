resource "corvo_member" "ada" {
  email = "ada@example.com"
  roles = ["developer"]
}
