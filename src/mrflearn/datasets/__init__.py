"""Built-in corpora and generators."""
