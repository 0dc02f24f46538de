"""Conversations as this process stored them last, so that what comes next need not read them.

Nothing is true for being remembered: whoever writes by it says which version it was, and stores nothing where that is
not the newest. What writes nothing has read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from placet.agent.conversation import Conversation
from placet.agent.conversation_state import Call, Turn
from placet.agent.store import Wanted

#: Conversations that are remembered, those that were not stored for longest forgotten first.
SIZE_MAX = 2_000
_NAMES = (
    *("conversation_id", "tenant", "agent", "language", "labels", "ended", "held", "holder_revision"),
    *("holder_told", "log_seq", "turn_id"),
)
#: All fields in their order: a twentieth of what `dataclasses.replace` costs, for some fifty copies a call.
_of_conversation, _of_turn, _of_call = attrgetter(*_NAMES), attrgetter(*Turn.__slots__), attrgetter(*Call.__slots__)


class Memory:
    """Conversations with a turn under way for which nothing waits: those of which more is soon to come."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def keep(self, stored: Iterable[Conversation]) -> None:
        """Remember conversations that were just stored as they are."""
        for each in stored:
            known = self._kept.get(each.conversation_id)
            if known is not None and known.version > each.version:
                continue
            if each.turn is None or each.queue or each.ended or _is_rare(each):
                self._kept.pop(each.conversation_id, None)
                continue
            self._kept[each.conversation_id] = _stored(each)
            self._kept.move_to_end(each.conversation_id)
        while len(self._kept) > SIZE_MAX:
            self._kept.popitem(last=False)

    def forget(self, conversation_ids: Iterable[str]) -> None:
        """Remember these no more."""
        for each in conversation_ids:
            self._kept.pop(each, None)

    def recall(self, wanted: Wanted) -> dict[str, Conversation] | None:
        """Return all that is wanted, for things to happen to it; None where some of it is not remembered."""
        if wanted.message_ids or wanted.consent_ids or wanted.turn_ids or wanted.born:
            return None
        found = {each: self._kept.get(each) for each in wanted.conversation_ids}
        kept = {name: each for name, each in found.items() if each is not None}
        if len(kept) < len(found) or wanted.call_ids - {call for each in kept.values() for call in each.calls}:
            return None
        return {name: _copy(each) for name, each in kept.items()}


def _is_rare(one: Conversation) -> bool:
    """Tell whether more belongs to a conversation than is remembered: staged entries, or that it is an attempt."""
    return bool(one.staged or one.changed_staged or one.gone_staged or one.attempt is not None)


def _stored(changed: Conversation) -> Conversation:
    """Return a conversation as it is read after `changed` was stored; it has a turn."""
    turn = changed.turn
    assert turn is not None  # noqa: S101 - others are not kept
    kept = Turn(*_of_turn(turn))
    kept.lost, kept.reason, kept.final_answer, kept.stopped_number = False, "", None, None
    calls = {call_id: Call(*_of_call(call)) for call_id, call in changed.calls.items() if call.turn_id == turn.turn_id}
    for call in calls.values():
        call.author, call.cause, call.result = turn.author, turn.cause, None
    return _of(changed, version=1 if changed.is_new else changed.version + 1, turns={kept.turn_id: kept}, calls=calls)


def _copy(kept: Conversation) -> Conversation:
    turns = {turn_id: Turn(*_of_turn(turn)) for turn_id, turn in kept.turns.items()}
    calls = {call_id: Call(*_of_call(call)) for call_id, call in kept.calls.items()}
    return _of(kept, version=kept.version, turns=turns, calls=calls)


def _of(one: Conversation, **changes: Any) -> Conversation:
    kept: dict[str, Any] = dict(zip(_NAMES, _of_conversation(one), strict=True))
    return Conversation(**kept, **changes)
