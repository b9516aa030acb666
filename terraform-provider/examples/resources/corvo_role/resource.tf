resource "corvo_role" "on_call" {
  name        = "on-call"
  description = "Looks at jobs and retries them, without seeing what is in them"
  permissions = ["job.list", "job.read", "job.retry", "queue.pause", "queue.read"]
}
