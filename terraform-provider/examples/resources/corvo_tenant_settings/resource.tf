# What isn't set is off.
resource "corvo_tenant_settings" "this" {
  require_second_factor = true
  session_idle_seconds  = 8 * 3600
  key_life_max_seconds  = 90 * 86400
  key_networks_required = true
}
