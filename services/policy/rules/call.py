"""A proposed call as the rules look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from placet.contracts.canonical import parse_arguments
from placet.contracts.messages.tool_calls import ToolCall
from placet.domain.origins import Origins
from placet.policy.rules.staging import StagedEntry


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
