"""Opening conversations, writing in them, and following what happens."""
