"""What the statements are given: settled steps and their calls as plain values.

One writer for both ways to settle a step, so that what is stored does not depend on the way it took.
"""

from __future__ import annotations

from typing import Any

from services.agent.assembly import ModelAnswer
from services.agent.rules import CheckedCall, Claim, Settlement, storable
from services.agent.states import CallState, State


def of_settlement(claim: Claim, settlement: Settlement) -> dict[str, Any]:
    """Return what a settlement makes of the turn of `claim`."""
    return {
        "turn_id": claim.turn_id,
        "fence": claim.fence,
        "step": claim.step,
        "next_step": claim.step + (settlement.state is State.THINKING),
        "open_calls": settlement.open_calls,
        "reason": settlement.reason,
        "final_answer": storable(settlement.final_answer),
        "assistant_message_id": claim.assistant_message_id,
    }


def of_answer(said: ModelAnswer) -> dict[str, Any]:
    """Return what is kept of a model's answer beside its calls."""
    raw = {name: value for name, value in said.raw.items() if name != "tool_calls"}
    return {
        "raw": storable(raw | {"content": said.text}),
        "model": said.model,
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
    }


def of_call(call: CheckedCall) -> dict[str, Any]:
    """Return what a call brings, by the names of `CALL_BROUGHT`."""
    result = call.result
    return {
        "call_id": call.call_id,
        "position": call.position,
        "provider_call_id": call.provider_call_id,
        "tool": call.tool,
        "arguments": call.arguments,
        "shown_arguments": call.shown_arguments,
        "digest": call.digest or None,
        "state": CallState.OPEN if result is None else CallState.ANSWERED,
        "result_kind": result and result.kind,
        "result": result and storable(result.as_json()),
    }
