variable "environment" {
  type    = string
  default = "EU Production"
}

# orders-eu-production
resource "corvo_namespace" "orders" {
  name = provider::corvo::resource_name(["orders", var.environment])
}
