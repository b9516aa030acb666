# namespace/name, the namespace by its id or name.
terraform import corvo_queue.mail ns_01HZX3J5N8Q4R7T2V6W9Y0A1B2/mail
terraform import corvo_queue.mail orders/mail
