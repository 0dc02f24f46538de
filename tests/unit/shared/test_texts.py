"""Catalogues: every text that a card or a page shows is there in every language, with its placeholders."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from babel.messages.pofile import read_po

from placet import gateway
from placet.agent import budgets, rules
from placet.agent.rules import RESULT_LOST
from placet.contracts.messages import ResultKind
from placet.contracts.messages.approvals import Outcome, ProgressKind, Proof, Verb
from placet.contracts.messages.jobs import Flag
from placet.contracts.permit import MAY_HAVE_RUN
from placet.executor.rules import LOST_TEXT
from placet.executor.tables import EntryState
from placet.gateway import web
from placet.gateway.web.script_words import SCRIPT_WORDS
from placet.gateway.web.sheets import SHEETS
from placet.gateway.web.words import UNITS
from placet.notifier import channels, drawing, key_codes
from placet.surfaces import card, duty, plan, texts
from placet.surfaces.texts import CATALOGUES, LANGUAGES, accepted, language_of, moment, text
from tests.builders import NOON

#: Where texts are that a catalogue must have.
_CHANNELS, _WEB = (Path(str(each.__file__)).parent for each in (channels, web))
SOURCES = [
    *(Path(str(each.__file__)) for each in (card, drawing, duty, key_codes, plan)),
    _CHANNELS / "email" / "mail_templates.py",
    *(_CHANNELS / name for name in ("apprise.py", "slack_blocks.py")),
    # There, `text` is what SQLAlchemy calls a parameter.
    *(each for each in Path(str(gateway.__file__)).parent.rglob("*.py") if each.parts[-3:-1] != ("approvals", "store")),
]
TEMPLATES = [*_CHANNELS.rglob("templates/*"), *(_WEB / "templates").iterdir()]
SCRIPTS = [*(_WEB / "static").glob("*.js")]
#: Tables of texts in them.
TABLES = {
    "_OUTCOMES",
    "_NOTES",
    "_ENDS",
    "_FINISHES",
    "_ROLES",
    "_TITLES",
    "_HEADINGS",
    "_ENDINGS",
    "_VOTES",
    "_STOOD",
    "RISKS",
    "FILTERS",
    "ORDERS",
    "AGES",
    "_FAULTS",
}
#: What is looked up under another name than where it stands: names of texts, and calls whose text a person is told.
FORMS = "(one, many)"
NAMES = {"words", "title", "told", "detail", "AWAY", "_SLOW"}
CALLS = {
    "text",
    "translated",
    "plural",
    "Refused",
    "NotHere",
    "NotAnArgument",
    "NotSuggested",
    "NoCaller",
    "OtherSession",
    "problem",
}
#: Lists whose names a page shows as words: states, events and kinds.
LISTS: tuple[type[StrEnum], ...] = (
    EntryState,
    *(
        each
        for service in ("agent", "approval", "dead_letters", "executor", "gateway", "jobs", "notifier", "policy")
        for each in vars(import_module(f"placet.{service}.states")).values()
        if isinstance(each, type) and issubclass(each, StrEnum)
    ),
)
KINDS = (Verb, Outcome, ProgressKind, Proof, ResultKind, Flag)
LISTED = {str(each) for names in LISTS for each in names if str(each)} | {
    each for kind in KINDS for each in get_args(kind)
}
_SHEETS = {state for sheet in SHEETS.values() for state in sheet.states}
#: What is looked up by a name of these lists, or comes from where it is told in English alone.
VALUES = {name.replace("_", " ") for name in (*LISTED, *_SHEETS, "opened", "unsound_division")} | {
    "You are not among this approval's approvers.",
    "You are not among the people who may decide this.",
    "It expired before you decided.",
    "The call is not the one you were shown: its digest differs",
    "You have decided again since",
    "This cannot be decided by a message.",
    "This needs a reason.",
    "An edit says what to change: new arguments, or entries of a commit to leave out.",
    "The arguments are not in canonical form.",
    "Nothing was changed: at least one argument must get another value.",
    "Only somebody whose approval decides alone can allow such calls from now on.",
    "Somebody else changed the arguments meanwhile. Look at it again.",
    "An answer must say something.",
    "Somebody who holds this conversation's token has voted in person: it adds nothing.",
    "Whoever let you decide in their place has voted: your vote adds nothing.",
    "Only somebody whose denial decides alone can answer instead of the tool.",
    "This person cannot decide in your place.",
    "You did not say that you are on it.",
    "key",
    "late",
    "must say something",
    "must have a word to look for",
    "not a cursor of this list",
    "unknown parameter",
    "given more than once",
    "it runs code",
    "its rule asks several people",
    "its rule needs a stronger sign-in",
    "it is a plan of several entries",
    "its rule asks for a reason each time",
    "it has more values than a card shows",
    "something in its arguments needs a second look",
    "{person} voted",
    *card.HOUSE_REASONS,
    *(rules.NO_MODEL, rules.TOO_LONG, rules.RESTORED, rules.NO_AGENT),
    *(rules.STOPPED, rules.STOPPED_AT_ONCE, rules.USED_UP),
    *(*budgets.REASONS.values(), budgets.UNPRICED),
    MAY_HAVE_RUN,
    LOST_TEXT.removesuffix(MAY_HAVE_RUN).strip(),
    RESULT_LOST.removesuffix(MAY_HAVE_RUN).strip(),
}

#: What pages say in every language: our name, keys, and examples.
PAGE_NAMES = {'placet jobs run "…"', "Placet", "j", "k", "o", "a", "d", "e", "x", "z", "grace", "placet_…"}

_ATTRIBUTES = re.compile(r"{% block (?:body_class|main_class|words) %}.*?{% endblock %}")
_JINJA, _LETTERS = re.compile(r"{#.*?#}|{%.*?%}|{{.*?}}", re.DOTALL), re.compile(r"[^\W\d_]")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_TEXT, _TEXTS = re.compile(r'\bt\(\s*"([^"]+)"'), re.compile(r'\btn\("([^"]+)", "([^"]+)"')


def used() -> set[str]:
    """Return the texts that the sources look up: arguments of `text`, values of the tables, and what `words` is."""
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source.read_text()))]
    found = {each.value for node in nodes for each in _looked_up(node) if isinstance(each.value, str) and each.value}
    units = {each for unit in UNITS for each in unit[1:]}
    pages = (_TEXT.findall(each.read_text()) for each in TEMPLATES)
    several = (each for template in TEMPLATES for each in _TEXTS.findall(template.read_text()))
    return found.union(VALUES, units, SCRIPT_WORDS, *pages, *several)


def _looked_up(node: ast.AST) -> list[ast.Constant]:
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        found = [*node.args, *(each.value for each in node.keywords if each.arg == "detail")]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = target.id if isinstance(target, ast.Name) else ""
        if name in TABLES and isinstance(node.value, ast.Dict):
            found = list(node.value.values)
        elif name in NAMES:
            found = [node.value]
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and ast.unparse(target) == FORMS:
            found = list(node.value.elts)
    return [each for each in found if isinstance(each, ast.Constant)]


def catalogue_of(language: str) -> dict[str, str]:
    """Return the translations of a catalogue, each form of a plural by its own English."""
    with (CATALOGUES / f"{language}.po").open("rb") as source:
        found = [each for each in read_po(source, locale=language) if each.id]
    forms = (zip(_listed(each.id), _listed(each.string), strict=True) for each in found)
    return {str(words): str(said) for form in forms for words, said in form}


def _listed(words: Any) -> Sequence[Any]:
    return words if isinstance(words, list | tuple) else [words]


@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "en"])
def test_every_text_is_translated_with_its_placeholders(language: str) -> None:
    """None is missing, none loses or invents a value, and none is kept that nobody says."""
    catalogue, told = catalogue_of(language), used()
    missing = {each for each in told if not catalogue.get(each)}
    assert set() == missing
    wrong = {each for each in told if set(_PLACEHOLDER.findall(each)) != set(_PLACEHOLDER.findall(catalogue[each]))}
    assert set() == wrong
    assert set() == catalogue.keys() - told


def test_no_template_of_a_page_says_a_word_of_its_own() -> None:
    """Texts between tags and in attributes that people read come from catalogues, but for names and examples."""
    told = {each for template in (_WEB / "templates").iterdir() for each in _own_words(template.read_text())}
    assert PAGE_NAMES == told


def _own_words(template: str) -> set[str]:
    bare = _JINJA.sub("", _ATTRIBUTES.sub("", template))
    attributes = re.findall(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"', bare)
    texts = [each for each in (*attributes, *re.sub(r"<[^>]*>", "\n", bare).splitlines()) if _LETTERS.search(each)]
    return {each.strip(" ·") for each in texts}


def test_a_page_brings_each_word_that_its_scripts_say() -> None:
    """What a script looks up and no page brings would be English for ever."""
    units = {each for unit in UNITS for each in unit[1:]}
    assert set(SCRIPT_WORDS) | units == {each for script in SCRIPTS for each in _TEXT.findall(script.read_text())}


def test_a_browser_s_wishes_are_read_by_their_weight() -> None:
    """As they come where they weigh the same; what is unwanted, or no wish, is none."""
    assert ("de-AT", "de", "en") == accepted("en;q=0.5, de-AT, de;q=0.9, tr;q=0, fi;q=high,, ;q=1")
    assert ["tr", "en", "en"] == [language_of(*accepted(each)) for each in ("fi, tr-TR;q=0.1", "*", "")]


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


def test_any_number_is_written_out() -> None:
    """Also one of more digits than decimals are usually reckoned with."""
    numbers = [texts.number("de", each) for each in (1234.5, 1e25, -1e25, float("inf"))]
    assert ["1.234,5", f"10{'.000' * 8}", f"-10{'.000' * 8}", "∞"] == numbers
    assert f"{sys.float_info.max:,.0f}".count(",") == texts.number("en", sys.float_info.max).count(",")


def test_shares_and_amounts_are_written_as_people_write_them() -> None:
    """To what is worth reading: a tenth of a percent, a hundredth of a cent."""
    shares = [texts.share(language, 0.98765) for language in ("en", "de", "tr")]
    amounts = [texts.dollars(language, 0.012345) for language in ("en", "de", "tr")]
    assert (["98.8%", "98,8\xa0%", "%98,8"], ["$0.0123", "0,0123\xa0$", "$0,0123"]) == (shares, amounts)
    assert ["100%", "$5.00"] == [texts.share("en", 1.0), texts.dollars("en", 5)]


def test_a_moment_is_written_as_people_write_it() -> None:
    """With the time zone, so that nobody guesses."""
    assert "22.11.2026, 13:00 CET" == moment("de", NOON, "Europe/Berlin")
    assert texts.moment("en", NOON).endswith("UTC")
