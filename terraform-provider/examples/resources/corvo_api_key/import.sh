# By its id, never by the key itself.
terraform import corvo_api_key.worker key_9f3KxQ2mZt7B
