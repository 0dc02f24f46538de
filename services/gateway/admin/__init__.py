"""What administrators look after: rulebooks, grants, dead letters, deliveries."""
