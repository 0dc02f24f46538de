"""SQL of keys, tokens and sessions."""
