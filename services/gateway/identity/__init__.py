"""Who is calling: API keys, conversation tokens, sessions of browsers, signing in."""
