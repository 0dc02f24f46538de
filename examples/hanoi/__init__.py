"""Towers of Hanoi as a job: one move per atomic task, each tried by several agents that vote."""
