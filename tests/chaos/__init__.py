"""A storm over a whole distributed system, and what is left of its promises: `make chaos SEED=7 MINUTES=15`."""
