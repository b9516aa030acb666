# By email address, or by id.
terraform import corvo_member.ada ada@example.com
terraform import corvo_member.ada usr_01HZX3J5N8Q4R7T2V6W9Y0A1B2
