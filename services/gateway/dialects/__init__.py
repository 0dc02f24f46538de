"""Dialects: the wire formats that chat frontends already speak, each made of the same moves of a turn."""
