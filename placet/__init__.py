"""Placet: an approval queue between AI agents and the tools they call.

The one import name of everything here. Its parts stand in folders of their own and are linked into this one: the
services in `services/`, what they share in `shared/`, set-up and operation in `deploy/`.
"""
