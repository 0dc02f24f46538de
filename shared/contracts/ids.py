"""Identifiers: time-ordered, so that indexes stay local and lists sort by age without another column."""

from __future__ import annotations

import secrets
from uuid import UUID, uuid5

import uuid_utils

_NAMESPACE = UUID("5b0d3c5e-7f5e-4f0e-9a59-3d6f0c1f7a11")


def new_id() -> str:
    """Return a new UUID version 7 in its 36-character text form."""
    return str(uuid_utils.uuid7())


def derived_id(*parts: str) -> str:
    """Return the same UUID for the same parts: a repeated step then writes the same row instead of a second one."""
    return str(uuid5(_NAMESPACE, "\x1f".join(parts)))


def workspace_id(tenant: str, conversation_id: str, number: int = 1) -> str:
    """Return the id of the n-th workspace of a conversation: a new one opens when the one before has ended."""
    return derived_id("workspace", tenant, conversation_id, str(number))


def call_id(turn_id: str, step: int, position: int) -> str:
    """Return the id of the call at a position of the answer that a model gave in one step of a turn."""
    return derived_id("call", turn_id, str(step), str(position))


def new_traceparent() -> str:
    """Return a fresh W3C `traceparent`: version 00, sampled."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
