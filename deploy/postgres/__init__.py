"""PostgreSQL on the distributed footing: a role per service, and what each of them may do."""
