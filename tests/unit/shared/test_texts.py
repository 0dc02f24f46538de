"""Catalogues: every text that a card shows is there in every language, with its placeholders."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from services.gateway import argument_fields, decisions, slack, web
from services.notifier import channels, drawing
from shared import texts
from shared.texts import CATALOGUES, LANGUAGES, language_of, moment, text
from tests.builders import NOON

#: Where texts are that a catalogue must have.
_CHANNELS, _SLACK, _WEB = (Path(str(each.__file__)).parent for each in (channels, slack, web))
SOURCES = [
    Path(drawing.__file__),
    _CHANNELS / "email" / "letters.py",
    *(_CHANNELS / name for name in ("apprise.py", "slack_blocks.py")),
    *_SLACK.glob("*.py"),
    _WEB / "links.py",
    Path(decisions.__file__),
    Path(argument_fields.__file__),
]
TEMPLATES = [
    *_CHANNELS.rglob("templates/*"),
    *(_WEB / "templates").glob("link*.html"),
    _WEB / "templates/arguments.html",
]
#: Tables of texts in them.
TABLES = {"_NOTES", "_ENDS", "_FINISHES", "_ROLES", "_TITLES", "_HEADINGS", "_ENDINGS", "_VOTES"}
#: What is looked up under another name than where it stands: names of texts, and calls whose text a person is told.
NAMES, CALLS = {"words", "title", "AWAY", "_SLOW"}, {"text", "Refused", "NotHere", "NotAnArgument"}
#: Of calls, states and verbs that are looked up by their name.
VALUES = {"pending", "approved", "denied", "answered", "expired", "withdrawn", "approve", "deny", "abstain"} | {
    "You are not among this approval's approvers."
}

_PLACEHOLDER = re.compile(r"\{\w+\}")


def used() -> set[str]:
    """Return the texts that the sources look up: arguments of `text`, values of the tables, and what `words` is."""
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source.read_text()))]
    found = {each.value for node in nodes for each in _looked_up(node) if isinstance(each.value, str)}
    return found.union(VALUES, *(re.findall(r'\bt\("([^"]+)"', each.read_text()) for each in TEMPLATES))


def _looked_up(node: ast.AST) -> list[ast.Constant]:
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        found = list(node.args)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = target.id if isinstance(target, ast.Name) else ""
        if name in TABLES and isinstance(node.value, ast.Dict):
            found = list(node.value.values)
        elif name in NAMES:
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
