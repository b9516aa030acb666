# By its id, which corvo bindings list shows.
terraform import corvo_role_binding.mail bnd_01HZX3J5N8Q4R7T2V6W9Y0A1B2
