data "corvo_permissions" "all" {}

# A role with everything that only reads queues and jobs.
resource "corvo_role" "reader" {
  name        = "reader"
  permissions = [for p in data.corvo_permissions.all.permissions : p.name if p.level == "queue" && endswith(p.name, ".read")]
}
