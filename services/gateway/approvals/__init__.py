"""What waits for people, and deciding it."""
