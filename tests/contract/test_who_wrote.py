"""Whoever hands words to the model is noted where that is done, so that four eyes know who may have asked (ADR 0075).

People's doors are the gateway's: HTTP and its dialects, pages, Slack and mailed links. Frontends write over AMQP for
visitors only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from placet.contracts.messages import DecisionClaims
from placet.contracts.topology import MESSAGES

ROOT = Path(__file__).parents[2]
GATEWAY = ROOT / "services/gateway"
SOURCES = sorted(GATEWAY.rglob("*.py"))
#: What the gateway sends in which a model reads a person's words, as they are or as other services hand them on.
WORDS = {
    "DecideApproval": "an answer instead of the tool",
    "DecisionClaims": "the same, as it is signed",
    "DiscardChanges": "why staged work is thrown away",
    "MessagePosted": "a message",
    "OperatorSpoke": "an operator's message",
    "ResolveCall": "what was found out about a call of unknown outcome",
    "RunJob": "a job's task",
}
#: What else it sends, and why no model reads a person's words in it.
SILENT = {
    "ApprovalCommented": "comments are for people",
    "CancelJob": "says who, and ends what the model does",
    "ConsentAnswered": "says what became of a yes or no in the chat",
    "ConversationEnded": "says who; no model reads that conversation again",
    "HolderChanged": "says who, and a text of ours for the visitor",
    "KeyOffered": "a code, for the key's owner",
    "MailBounced": "for people, in a mail system's words",
    "ProposeChanges": "says who; what is asked for is staged already",
    "ResolveDeadLetter": "says who; a letter is replayed as it came",
    "RetryDelivery": "says who",
    "RetryWebhookEvent": "says who",
    "RevokeGrant": "says who",
    "StopTurn": "says who; the model reads a text of ours",
    "TryRulebook": "a rulebook to try: no model reads it",
}
#: What makes such a message or signs it: who calls it is a door.
MAKERS = frozenset({"_claims", "_signed", "message_of"})
#: Doors that note nobody, and why nobody is overlooked.
WITHOUT = {
    "approvals/consents.py:_decide": "a yes or no that is shown as it was taken, and that no model reads",
    "approvals/decisions.py:send": "the same, as it is signed",
    "jobs/routes.py:run": "its author is the requester of all that it asks, and who made their key is known by that",
}


#: What notes who wrote.
NOTES = frozenset({"note_relay", "note_words"})
_SENT = frozenset({DecisionClaims.__name__, *(each.__name__ for each in MESSAGES.values())})


def made(source: str) -> set[str]:
    """Return the messages that a module makes."""
    tree = ast.parse(source)
    return set(_made(tree, _known(tree)))


def doors(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each function that makes a message with words or gets one made, and whether it notes who wrote them."""
    tree = ast.parse(source)
    known = _known(tree)
    # What has a private name makes messages for its own module alone.
    makers = MAKERS if WORDS.keys() & made(source) else {each for each in MAKERS if not each.startswith("_")}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in makers:
            called = {each.rpartition(".")[2] for each in _called(node)}
            if called & makers or WORDS.keys() & set(_made(node, known)):
                yield node.name, bool(called & NOTES)


def _called(part: ast.AST) -> Iterator[str]:
    return (ast.unparse(each.func) for each in ast.walk(part) if isinstance(each, ast.Call))


def _made(part: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    """Yield what is made by its class or by a way of its class, such as `model_validate`."""
    for called in _called(part):
        names = called.split(".")
        yield from (known[each] for each in (".".join(names[:1]), ".".join(names[:2])) if each in known)


def _known(tree: ast.Module) -> Mapping[str, str]:
    """Return the messages that a module can make, by how it calls them."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("placet.contracts"):
            for each in node.names:
                name = each.asname or each.name
                found |= {name: each.name} if each.name in _SENT else {f"{name}.{sent}": sent for sent in _SENT}
    return found


def test_all_that_the_gateway_sends_is_told_apart() -> None:
    """A new message is either one with words for the model or says why it is none; so does none that is gone."""
    found = {name for path in SOURCES for name in made(path.read_text())}
    assert sorted([*WORDS, *SILENT]) == sorted(found)


def test_every_door_notes_who_wrote_or_says_why_not() -> None:
    """A new door that hands on words and notes nobody fails here; so does a reason for what is gone."""
    found = {path: doors(path.read_text()) for path in SOURCES}
    silent = [
        f"{path.relative_to(GATEWAY)}:{name}" for path, each in found.items() for name, notes in each if not notes
    ]
    assert sorted(WITHOUT) == sorted(silent)


@pytest.mark.parametrize(
    "planted",
    [
        "from placet.contracts.messages import OperatorSpoke\nasync def f(work):\n    work.emit(OperatorSpoke())",
        "from placet.contracts.messages import RunJob as R\nasync def f(work):\n    await send(R.model_validate({}))",
        "from placet.contracts import messages as m\nasync def f(work):\n    work.emit(m.DiscardChanges())",
        "async def f(work, writing):\n    work.emit(service.message_of(writing))",
    ],
)
def test_a_planted_door_is_seen(planted: str) -> None:
    """Whatever it calls the message, and whoever makes it for it."""
    assert [("f", False)] == list(doors(planted))


def test_a_door_that_notes_is_seen() -> None:
    """The note counts in the function that hands on the words."""
    source = "async def f(work):\n    await store.note_words(work)\n    work.emit(message_of())"
    assert [("f", True)] == list(doors(source))
