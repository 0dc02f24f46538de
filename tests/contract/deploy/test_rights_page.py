"""The table of broker users in docs/deploying.md says what each may publish and consume, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placet.contracts.topology import DEAD_LETTERS, EXCHANGES, SERVICES
from placet.deploy.rabbitmq.definitions import user_name
from placet.deploy.rabbitmq.rights import DEFAULT_EXCHANGE, PRIVATE_QUEUES, RETRIES, all_rights

PAGE = Path(__file__).parents[3] / "docs" / "deploying.md"
#: How the page writes "each executor pool".
POOL = "<pool>"


def row_of(service: str) -> list[str]:
    """Return the cells of a service's row: who, what they publish, what they consume."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{user_name(service)}` |")]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def named(text: str) -> list[str]:
    """Return what stands between backticks."""
    return re.findall("`([^`]+)`", text)


def alternatives(pattern: str) -> set[str]:
    """Return what an anchored pattern of the broker allows, as the page writes it."""
    inner = pattern.removeprefix("^(").removesuffix(")$").replace(f"({POOL})", POOL)
    return {key.replace("\\.", ".").replace(".+", "*") for key in inner.split("|")} - {""}


@pytest.mark.parametrize("service", SERVICES)
def test_row_names_every_key_that_the_user_may_publish_with(service: str) -> None:
    """What all may do, park and bury, stands below the table."""
    topics = all_rights([POOL])[service].topics
    expected = {
        exchange: alternatives(right.write)
        for exchange, right in topics.items()
        if right.write and exchange not in {*RETRIES, DEAD_LETTERS}
    }
    parts = [names for part in row_of(service)[1].split("; ") if (names := named(part))]
    assert expected == {exchange: set(keys) for exchange, *keys in parts}


@pytest.mark.parametrize("service", SERVICES)
def test_row_names_every_queue_that_the_user_consumes(service: str) -> None:
    """Private queues and what they are bound to are told in words."""
    readable = all_rights([POOL])[service].read.replace(PRIVATE_QUEUES.get(service, "\0"), "")
    bound = {exchange for exchange in EXCHANGES if exchange != DEAD_LETTERS}
    assert alternatives(readable) - bound == set(named(row_of(service)[2]))


def test_only_who_may_replay_is_said_to_write_to_any_queue() -> None:
    """The default exchange takes every queue's name as a key."""
    expected = {
        service
        for service, rights in all_rights([POOL]).items()
        if DEFAULT_EXCHANGE.replace(".", r"\.") in rights.write
    }
    assert expected == {service for service in SERVICES if "any queue" in row_of(service)[1]}
