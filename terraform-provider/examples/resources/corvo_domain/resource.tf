resource "corvo_domain" "company" {
  name = "company.com"
}

# To be added to the domain's DNS, by any provider.
output "record" {
  value = "${corvo_domain.company.txt_name}. TXT \"${corvo_domain.company.txt_value}\""
}
