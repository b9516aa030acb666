resource "corvo_namespace" "orders" {
  name = "orders"
}

resource "corvo_queue" "mail" {
  namespace = corvo_namespace.orders.id
  name      = "mail"

  # At most 20 jobs at a time, and 100 started in any second.
  max_concurrency = 20
  throttle = {
    limit     = 100
    window_ms = 1000
  }

  # Of no use an hour after they were sent.
  retention = {
    completed_seconds = 3600
  }

  # For jobs whose producers do not say.
  retry = {
    max_retries = 7
    backoff     = "linear"
  }
}
