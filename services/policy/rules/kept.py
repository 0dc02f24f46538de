"""What is kept of a judged call, so that it can be judged again by another rulebook."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.messages import ToolCall
from placet.policy.rules.call import CallFacts


class KeptFacts(BaseModel):
    """Everything that the rules looked at, as JSON text: no database reads it, and none minds what is in it."""

    model_config = ConfigDict(frozen=True)

    call: ToolCall
    history: dict[str, int] = Field(default_factory=dict, description="Counters, where the rulebook used them.")


def kept_text(call: ToolCall, facts: CallFacts) -> str:
    """Return the text to keep of a call and of what was counted for it."""
    return KeptFacts(call=call, history=dict(facts.history)).model_dump_json()


def facts_from(text: str) -> CallFacts:
    """Return the facts that `kept_text` kept; raise ValueError or NotStrictJson for another text."""
    kept = KeptFacts.model_validate_json(text)
    return replace(CallFacts.of(kept.call), history=kept.history)
