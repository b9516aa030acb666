# A tenant has one: import it by the tenant's name or id.
terraform import corvo_spend_limit.this acme
