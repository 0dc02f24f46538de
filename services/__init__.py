"""The services. They never import each other: they meet only in `shared.messages`."""
