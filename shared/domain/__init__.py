"""Rules that more than one service applies: votes, deciders, the directory, tools, CEL. No I/O but files."""
