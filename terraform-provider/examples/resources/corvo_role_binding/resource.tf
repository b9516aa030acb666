resource "corvo_namespace" "orders" {
  name = "orders"
}

resource "corvo_service_account" "mail" {
  name = "mail"
}

# Only the queues whose names begin with mail., and only in this namespace.
resource "corvo_role_binding" "mail" {
  principal_id = corvo_service_account.mail.id
  role         = "worker"
  namespace    = corvo_namespace.orders.id
  queues       = "mail.*"
}
