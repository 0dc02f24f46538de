"""Items of a history that OpenAI's clients post: whose they are, and which of them the user says now. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from placet.gateway.approvals.answers import Answer
from placet.gateway.dialects.openai import conversation_of

#: Written by whoever set a client up; neither the user's words nor ours.
_SETUP = ("system", "developer")
#: What agents elsewhere did with tools that are not ours, and thought; a call of ours is an `mcp_call`.
_FOREIGN = re.compile(r"(?!mcp_)[a-z_]+_call(_output)?|reasoning")
#: What is asked, and the names of items, as clients post them beside an answer.
_ASKING = ("item_reference", "mcp_approval_request")

Item = Mapping[str, Any]


def spoken(items: Sequence[Item]) -> list[Item]:
    """Return the items without those that set a client up."""
    return [item for item in items if item.get("role") not in _SETUP]


def newest_of(items: Sequence[Item]) -> list[Item]:
    """Return the user's words and answers at the end.

    Requests among the answers, and what agents elsewhere did, end no answers: they are no word and no call of ours.
    Words in front of them were answered with them.
    """
    newest, has_words = list[Item](), True
    for item in reversed(before_others(spoken(items))):
        if is_answer(item) or (has_words and is_users(item)):
            newest.append(item)
        elif _is_foreign(item) or _is_asking(item):
            has_words = False
        else:
            break
    return newest[::-1]


def before_others(items: Sequence[Item]) -> Sequence[Item]:
    """Return what stands before the calls of agents elsewhere at the end, such as a hand-off, and their words to them.

    Words behind those calls are an answer: then all is returned. And what has an id of ours stays, with all before it.
    """
    foreign = takewhile(lambda item: _is_foreign(item) or _is_others(item), reversed(items))
    called = bool(items) and _is_foreign(items[-1])
    return items[: len(items) - len(list(foreign))] if called else items


def as_asked(given: Sequence[tuple[Any, Answer]]) -> list[Answer]:
    """Return the answers, each with the id of its request, that count where a call was asked about again.

    Its newest request is the one that is answered. What stands before that answer was posted before that request.
    """
    newest = {answer.approval_id: request for request, answer in given}
    again = {answer.approval_id for request, answer in given if request != newest[answer.approval_id]}
    requests = [request for request, _ in given]
    now = max((requests.index(newest[approval_id]) for approval_id in again), default=0)
    return [
        replace(answer, is_earlier=place < now)
        for place, (request, answer) in enumerate(given)
        if request == newest[answer.approval_id]
    ]


def is_users(item: Item) -> bool:
    """Tell whether the user wrote it."""
    return item.get("role") == "user"


def is_answer(item: Item) -> bool:
    """Tell whether it answers an approval request."""
    return item.get("type") == "mcp_approval_response"


def _is_asking(item: Item) -> bool:
    return item.get("type") in _ASKING and not conversation_of(str(item.get("id")))


def _is_foreign(item: Item) -> bool:
    return bool(_FOREIGN.fullmatch(str(item.get("type"))))


def _is_others(item: Item) -> bool:
    return item.get("role") == "assistant" and not conversation_of(str(item.get("id")))
