"""Measures Placet beside the bare floor, on the same machine, in turns. `make bench` runs it.

Absolute figures drift from machine to machine and hour to hour, so only ratios taken in one run are compared.
"""
