"""What a job does next: divisions, votes, how many of them are enough, and budgets. Pure."""
