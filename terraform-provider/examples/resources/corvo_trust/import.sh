# By id, or by name.
terraform import corvo_trust.web trust_01HZX3J5N8Q4R7T2V6W9Y0A1B2
terraform import corvo_trust.web web
