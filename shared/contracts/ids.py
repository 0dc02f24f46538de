"""Identifiers: time-ordered, so that indexes stay local and lists sort by age without another column."""

from __future__ import annotations

import hashlib
import re
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


#: Characters of an id, and of the part of it that names its tenant.
ID_MAX, _TENANT_MAX = 64, 27


def own_id(tenant: str, chosen: str) -> str:
    """Return the id of what a tenant's client calls `chosen`, a conversation or a job; an own id stays as it is.

    It begins with the tenant's name, so two tenants never mean the same thing, whatever their clients choose. At most
    64 characters: of a longer name, and of a longer `chosen`, a digest stands there.
    """
    prefix = own_prefix(tenant)
    if chosen.startswith(prefix):
        return chosen
    return prefix + (chosen if len(prefix + chosen) <= ID_MAX else derived_id("chosen", chosen))


def own_prefix(tenant: str) -> str:
    """Return what the ids of a tenant begin with: its name and `_`, which no tenant's name has."""
    if len(tenant) > _TENANT_MAX:
        tenant = f"{tenant[:14]}-{hashlib.sha256(tenant.encode()).hexdigest()[:12]}"
    return f"{tenant}_"


def is_shortened(tenant: str) -> bool:
    """Tell whether a name has the form of what ids of longer ones begin with: no new tenant is called so."""
    return re.fullmatch(f".{{{_TENANT_MAX - 13}}}-[0-9a-f]{{12}}", tenant) is not None


#: What the chosen part of the id of a job's conversation begins with, before 32 hexadecimal digits.
_OF_JOB = "job-"


def job_conversation_id(tenant: str, *parts: str) -> str:
    """Return the id of the conversation of a job or an attempt, always the same for the same parts.

    It has a shape of its own, so nobody can open or follow the conversation before the job begins it.
    """
    return own_prefix(tenant) + _OF_JOB + UUID(derived_id(*parts)).hex


def is_of_job(tenant: str, conversation_id: str) -> bool:
    """Tell whether a tenant's conversation has an id that only its jobs give."""
    chosen = conversation_id.removeprefix(own_prefix(tenant))
    return re.fullmatch(f"{_OF_JOB}[0-9a-f]{{32}}", chosen) is not None


def workspace_id(tenant: str, conversation_id: str, number: int = 1) -> str:
    """Return the id of the n-th workspace of a conversation: a new one opens when the one before has ended."""
    return derived_id("workspace", tenant, conversation_id, str(number))


def call_id(turn_id: str, step: int, position: int) -> str:
    """Return the id of the call at a position of the answer that a model gave in one step of a turn."""
    return derived_id("call", turn_id, str(step), str(position))


def new_traceparent() -> str:
    """Return a fresh W3C `traceparent`: version 00, sampled."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
