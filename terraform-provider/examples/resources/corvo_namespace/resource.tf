resource "corvo_namespace" "orders" {
  name = "orders"

  labels = {
    team = "checkout"
    env  = "production"
  }

  # What the tenant's plan says for whatever is left out.
  retention = {
    completed_seconds = 3 * 24 * 3600
    events_bytes_max  = 32 * 1024 * 1024
  }

  # Destroying it is refused until this is false again.
  delete_protection = true
}
