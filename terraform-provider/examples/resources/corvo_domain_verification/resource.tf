resource "corvo_domain" "company" {
  name = "company.com"
}

# Make it depend on the resource of your DNS provider that adds corvo_domain.company.txt_name.
resource "corvo_domain_verification" "company" {
  domain_id = corvo_domain.company.id
}
