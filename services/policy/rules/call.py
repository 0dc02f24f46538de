"""A proposed call as the rules look at it, and what is kept of it, so that another rulebook can judge it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, Self

from pydantic_core import from_json, to_json

from placet.contracts.canonical import parse_arguments
from placet.contracts.messages import ToolCall
from placet.domain.origins import Origins
from placet.policy.rules.staging import StagedEntry

#: Counters of earlier calls that conditions may look at, as `history.<name>`, counted only if a rule uses them: name
#: -> what earlier calls of the same tool share with the call, and how far back they count.
COUNTERS: Mapping[str, tuple[Literal["conversation_id", "requester"], timedelta]] = {
    "calls_last_hour": ("conversation_id", timedelta(hours=1)),
    "calls_last_day": ("conversation_id", timedelta(days=1)),
    "requester_calls_last_hour": ("requester", timedelta(hours=1)),
    "requester_calls_last_day": ("requester", timedelta(days=1)),
}


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What the rules may look at: one proposed call."""

    call_id: str
    tenant: str
    conversation_id: str
    agent: str
    #: Stable id of the author whose message triggered the call.
    requester: str
    #: The conversation's labels.
    labels: Mapping[str, str]
    tool: str
    #: Digest of the tool in the catalogue that the agent used.
    schema_digest: str
    arguments: Mapping[str, Any]
    #: Counters of earlier calls for conditions; empty unless the rulebook uses them.
    history: Mapping[str, int] = field(default_factory=dict)
    #: Where texts among the arguments stood before the call; None: nobody looked.
    origins: Origins | None = None
    #: Of `commit_changes`: those of its entries that policy let this conversation stage.
    staged: tuple[StagedEntry, ...] | None = None
    #: What conditions have made of it, by what they know it by; what differs in anything has it made anew.
    prepared: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, call: ToolCall) -> Self:
        """Return the facts of a proposed call; raise NotStrictJson where its arguments are none."""
        return cls(
            call_id=call.call_id,
            tenant=call.tenant,
            conversation_id=call.conversation_id,
            agent=call.agent,
            requester=call.requester,
            labels=call.labels,
            tool=call.tool,
            schema_digest=call.schema_digest,
            arguments=parse_arguments(call.arguments),
            origins=call.origins,
        )


#: Fields of a call that its verdict has columns for.
COLUMNS = frozenset({"call_id", "tenant", "conversation_id", "requester", "tool", "digest", "schema_digest"})


def kept_text(call: ToolCall, facts: CallFacts) -> str:
    """Return what a verdict keeps of a call beside `COLUMNS`, and what was counted for it, as JSON text.

    No database reads it, and none minds what is in it. Defaults are left out, and nothing is said twice.
    """
    repeated = {"shown_arguments"} if call.shown_arguments == call.arguments else set()
    told = call.model_dump(mode="json", exclude={*COLUMNS, *repeated, "asked"}, exclude_defaults=True)
    return to_json({"call": told} | ({"history": dict(facts.history)} if facts.history else {})).decode()


def facts_from(text: str | bytes, columns: Mapping[str, Any]) -> CallFacts:
    """Return the facts that `kept_text` kept beside `columns`; raise ValueError or NotStrictJson for another text."""
    kept = from_json(text)
    told = {"shown_arguments": kept["call"].get("arguments")} | kept["call"]
    call = ToolCall.model_validate(told | {name: columns[name] for name in COLUMNS})
    return replace(CallFacts.of(call), history=kept.get("history", {}))
