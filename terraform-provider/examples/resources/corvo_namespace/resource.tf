resource "corvo_namespace" "orders" {
  name = "orders"

  labels = {
    team = "checkout"
    env  = "production"
  }

  # Destroying it is refused until this is false again.
  delete_protection = true
}
