"""Planted bugs: what the tests of safety are worth. `make test-mutants` breaks one defence at a time."""
