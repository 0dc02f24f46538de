"""Every setting with its default and its meaning, drawn from the settings classes.

`python -m placet.deploy.example_env` writes the names alone as well, to where each service finds them: it knows no
other's settings, and must still tell a misspelt name from another's. A contract test finds stale files. Services are
looked up by name: a new setting needs no entry here.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, NoDecode

from placet.contracts.topology import SERVICES
from placet.runtime.settings import INTERNAL, NAMES, Settings

COMMITTED = Path(__file__).with_name("example.env")
WIDTH = 118
_INTRODUCTION = """\
Every setting of every service, with its default, but for those that only tests and benchmarks turn. Drawn from the
settings classes by `make docs`; do not edit.
Services read these names from their environment; a line that stays commented out means its default. The passwords
of compose.yaml are not among them: `make compose-env` writes those into .env."""


def text() -> str:
    """Return the whole file."""
    parts = [_comment(_INTRODUCTION), _section("every service", Settings, known=frozenset())]
    known = frozenset(_names(Settings))
    parts += [_section(title, kind, known=known) for title, kind in settings_classes()]
    return "\n\n".join(part for part in parts if part) + "\n"


def settings_classes() -> Iterator[tuple[str, type[BaseSettings]]]:
    """Yield whose they are and the settings class, for every service that there is."""
    modules = {service: f"placet.{service}.settings" for service in SERVICES}
    modules["purge, and `placet up`"] = "placet.deploy.retention.settings"
    for title, name in modules.items():
        if find_spec(name):
            module = import_module(name)
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, BaseSettings) and value.__module__ == name:
                    yield title, value


def known_names() -> set[str]:
    """Return the names of all settings of services that there are."""
    return {*_names(Settings), *(name for _, kind in settings_classes() for name in _names(kind))}


def _names(kind: type[BaseSettings]) -> dict[str, FieldInfo]:
    prefix = kind.model_config.get("env_prefix", "")
    return {f"{prefix}{name}".upper(): field for name, field in kind.model_fields.items()}


def _section(title: str, kind: type[BaseSettings], *, known: frozenset[str]) -> str:
    entries = [
        _entry(name, field)
        for name, field in _names(kind).items()
        if name not in known and field.json_schema_extra != INTERNAL
    ]
    return "\n\n".join([f"# --- {title} ---", *entries]) if entries else ""


def _entry(name: str, field: FieldInfo) -> str:
    return f"{_comment(_meaning(name, field))}\n#{name}={_default(field)}"


def _meaning(name: str, field: FieldInfo) -> str:
    words = name.removeprefix("PLACET_").lower().replace("_", " ")
    return field.description or f"{words[0].upper()}{words[1:]}."


def _default(field: FieldInfo) -> str:
    """Return the default as the environment spells it; nothing where the process works it out or there is none."""
    value: Any = field.default
    if field.default_factory is not None:
        made = field.get_default(call_default_factory=True, validated_data={})
        # What is no list and no table is worked out by the process: its host's name.
        value = made if isinstance(made, list | dict | tuple) else value
    if value is PydanticUndefined or value is None:
        return ""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, tuple | list | dict):
        return json.dumps(value) if NoDecode not in field.metadata else ",".join(value)
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return json.dumps(shown, ensure_ascii=False) if "\n" in shown else shown


def _comment(words: str) -> str:
    lines = textwrap.wrap(" ".join(words.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"# {line}" for line in lines)


def names_text() -> str:
    """Return the whole file of names."""
    return "\n".join(sorted(known_names())) + "\n"


if __name__ == "__main__":
    COMMITTED.write_text(text())
    NAMES.write_text(names_text())
