# By the id, which stands in the token itself: corvo_scim_ and the 12 characters of the id.
terraform import corvo_scim_token.okta key_9f3KxQ2mZt7B
