# By id, or by name.
terraform import corvo_audit_sink.siem snk_01HZX3J5N8Q4R7T2V6W9Y0A1B2
terraform import corvo_audit_sink.siem siem
