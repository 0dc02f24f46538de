"""Neighbours of the demo shop that would be other companies' services in earnest."""
