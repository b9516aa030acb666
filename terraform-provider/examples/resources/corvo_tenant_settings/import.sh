# A tenant has one.
terraform import corvo_tenant_settings.this settings
