"""Catalogues: every text that a card shows is there in every language, with its placeholders."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from services.notifier import channels, texts
from services.notifier.texts import CATALOGUES, LANGUAGES, language_of, moment, text
from tests.builders import NOON

#: Where texts are that a catalogue must have.
SOURCES = [
    CATALOGUES.parent / "drawing.py",
    CATALOGUES.parent / "channels" / "email" / "letters.py",
    *(Path(channels.__file__).parent / name for name in ("apprise.py", "slack_blocks.py")),
]
#: Tables of texts in them.
TABLES = {"_NOTES", "_ENDS", "_FINISHES", "_ROLES", "_TITLES", "_HEADINGS", "_ENDINGS", "_VOTES"}
_PLACEHOLDER = re.compile(r"\{\w+\}")


def used() -> set[str]:
    """Return the texts that the sources look up: arguments of `text`, values of the tables, and what `words` is."""
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source.read_text()))]
    found = {each.value for node in nodes for each in _looked_up(node) if isinstance(each.value, str)}
    templates = (CATALOGUES.parent / "channels").rglob("templates/*")
    return found.union(*(re.findall(r'\bt\("([^"]+)"', each.read_text()) for each in templates))


def _looked_up(node: ast.AST) -> list[ast.Constant]:
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "text":
        found = list(node.args)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = target.id if isinstance(target, ast.Name) else ""
        if name in TABLES and isinstance(node.value, ast.Dict):
            found = list(node.value.values)
        elif name == "words":
            found = [node.value]
    return [each for each in found if isinstance(each, ast.Constant)]


@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "en"])
def test_every_text_is_translated_with_its_placeholders(language: str) -> None:
    """None is missing, and none loses or invents a value."""
    with (CATALOGUES / f"{language}.po").open("rb") as source:
        catalogue = {str(each.id): str(each.string) for each in read_po(source, locale=language) if each.id}
    missing = {each for each in used() if not catalogue.get(each)}
    assert set() == missing
    wrong = {each for each in used() if set(_PLACEHOLDER.findall(each)) != set(_PLACEHOLDER.findall(catalogue[each]))}
    assert set() == wrong


def test_the_languages_are_those_that_the_settings_offer() -> None:
    """English, German and Turkish to begin with."""
    assert ("en", "de", "tr") == LANGUAGES


def test_a_region_is_left_out_and_an_unknown_language_is_english() -> None:
    """The first wish that is spoken counts."""
    assert ["de", "tr", "en"] == [language_of("de-AT"), language_of("fi", "tr_TR"), language_of("fi")]


def test_a_value_is_put_in_as_it_is() -> None:
    """Braces in a name are no placeholders."""
    assert "{person} voted." == text("en", "{person} voted.", person="{person}")
    assert "{0.__class__} hat abgestimmt." == text("de", "{person} voted.", person="{0.__class__}")


def test_a_moment_is_written_as_people_write_it() -> None:
    """With the time zone, so that nobody guesses."""
    assert "22.11.2026, 13:00:00 CET" == moment("de", NOON, "Europe/Berlin")
    assert texts.moment("en", NOON).endswith("UTC")
