"""The messages other programs rely on: their schemas are frozen in `schemas/`.

A failing test here means that a message changed. A compatible change (a new optional field) is frozen anew with
`python -m tests.contract.freeze_schemas`; an incompatible one needs a new version of the message's type.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placet.contracts.topology import MESSAGES

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.mark.parametrize("type_name", sorted(MESSAGES))
def test_the_schema_is_the_frozen_one(type_name: str) -> None:
    """The JSON Schema of a message is exactly the one that was frozen."""
    frozen = json.loads((SCHEMAS / f"{type_name}.json").read_text())
    assert frozen == MESSAGES[type_name].model_json_schema(mode="serialization")


def test_no_frozen_message_has_gone() -> None:
    """A message that was ever frozen is still understood."""
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(MESSAGES)


@pytest.mark.parametrize("type_name", sorted(MESSAGES))
def test_a_type_name_carries_its_version(type_name: str) -> None:
    """`placet.<noun>.<verb>.v<version>`."""
    product, *_, version = type_name.split(".")
    assert ("placet", True) == (product, version[:1] == "v" and version[1:].isdigit())
