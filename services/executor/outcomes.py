"""What a tool said or its probe found, as the outcome of an attempt."""

from __future__ import annotations

import asyncio

import structlog

from placet.executor import rules
from placet.executor.metrics import FINDINGS
from placet.executor.rules import Outcome
from placet.executor.states import Event
from placet.executor.store import Attempt
from placet.tools import CannotTell, DidNotRun, Finding, Ran, ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.registry import CRASHED, NEUTRAL_TEXT

log = structlog.get_logger(__name__)


def said(attempt: Attempt, running: asyncio.Task[ToolReply | Outcome], *, idempotent: bool) -> Outcome:
    """Return the outcome of a tool that has ended, or of a call that was to be staged."""
    try:
        reply = running.result()
    except ToolOutcomeUnknown as doubt:
        return rules.in_doubt(doubt.text, doubt.data)
    except ToolError as error:
        if error.code == CRASHED:
            return rules.crashed(error.text, error.data, error.code, idempotent=idempotent)
        return Outcome(Event.FAILED, error.data, error.text, code=error.code)
    except Exception:  # a tool is foreign code: whatever it raises ends this call only
        log.exception("tool.broken", tool=attempt.call.tool, call_id=attempt.call.call_id)
        return rules.crashed(NEUTRAL_TEXT, None, CRASHED, idempotent=idempotent)
    return reply if isinstance(reply, Outcome) else _succeeded(reply)


def found(attempt: Attempt, finding: Finding) -> Outcome:
    """Return the outcome that a probe's finding means; where it cannot tell, the doubt remains that led to it."""
    match finding:
        case Ran():
            outcome = _succeeded(ToolReply(data=finding.data, ui_blocks=finding.ui_blocks))
        case DidNotRun():
            outcome = Outcome(Event.FAILED, error=rules.NOT_RUN_TEXT, code=rules.NOT_RUN)
        case CannotTell():
            outcome = rules.in_doubt(finding.text) if finding.text else Outcome(Event.GAVE_UP, error=attempt.doubt)
    FINDINGS.labels(attempt.call.tool, rules.kind_of(outcome)).inc()
    return outcome


def _succeeded(reply: ToolReply) -> Outcome:
    return Outcome(Event.SUCCEEDED, reply.data, ui_blocks=reply.to_json()["ui_blocks"], handover=reply.handover)
