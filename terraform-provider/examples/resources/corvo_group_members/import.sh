# By the group's id.
terraform import corvo_group_members.support grp_01HZX3J5N8Q4R7T2V6W9Y0A1B2
