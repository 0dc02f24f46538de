"""The first API key of an installation: what set-up and the command line call where no service runs yet."""

from __future__ import annotations

from placet.gateway.identity.store.bootstrap import create_admin_key, create_key, key_works

__all__ = ["create_admin_key", "create_key", "key_works"]
