"""People who take a conversation over from the agent, answer in it and give it back."""
