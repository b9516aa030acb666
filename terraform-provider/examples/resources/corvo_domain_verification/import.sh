# By the domain's id, or its name.
terraform import corvo_domain_verification.company dom_01HZX3J5N8Q4R7T2V6W9Y0A1B2
terraform import corvo_domain_verification.company company.com
