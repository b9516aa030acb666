locals {
  # Raise it to rotate. The old key works for rotation_overlap longer.
  key_version = 1
}

resource "corvo_namespace" "orders" {
  name = "orders"
}

# Another key in every run; taken only when key_version changes.
ephemeral "corvo_api_key_secret" "worker" {
  kind = "dp"
}

resource "corvo_api_key" "worker" {
  name       = "orders-worker"
  kind       = "dp"
  namespaces = [corvo_namespace.orders.id]
  roles      = ["producer", "worker"]

  secret_wo         = ephemeral.corvo_api_key_secret.worker.key
  secret_wo_version = local.key_version
  rotation_overlap  = "24h"
}

# The same key goes to whoever uses it, by another write-only argument, with the same
# version: for example to a secrets manager.
#
#   resource "aws_secretsmanager_secret_version" "worker" {
#     secret_id                = aws_secretsmanager_secret.worker.id
#     secret_string_wo         = ephemeral.corvo_api_key_secret.worker.key
#     secret_string_wo_version = local.key_version
#   }
