"""What both clients have in common: requests, answers, errors and the event stream. Pure.

A request that may have been lost is sent again only where a second copy does nothing: reads, and messages, which carry
an id of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
from httpx_sse import ServerSentEvent

from placet.client.items import Delta, Item, items
from placet.client.models import Approval, JobLine, Verb

#: Longest wait for an answer, and for the next sign of life of a stream, in seconds.
TIMEOUT = httpx.Timeout(20.0, read=60.0)
#: Each conversation that is followed holds a connection, however many there are: the server says when it has enough.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
#: Pauses before a request is sent again, in seconds.
PAUSES = (0.2, 1.0, 3.0)
#: Pause before a stream is opened again that broke, in seconds.
REOPEN_SECONDS = 0.5
#: Of a stream: nothing will come any more.
NO_CONTENT = 204
_AGAIN = frozenset({502, 503, 504})

#: What a stream has.
Found = TypeVar("Found", bound=Item | Delta | JobLine)


class ApiError(Exception):
    """Placet refused a request, or could not be reached (status 0). `problem` is its problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        title, detail = problem.get("title", "no answer"), problem.get("detail") or _faults_of(problem)
        super().__init__(f"{status} {title}" + (f": {detail}" if detail else ""))
        self.status = status
        self.problem = dict(problem)


def _faults_of(problem: Mapping[str, Any]) -> str:
    """Return what a problem document says is wrong, and where."""
    faults = problem.get("errors")
    told = [each for each in faults if isinstance(each, dict)] if isinstance(faults, list) else []
    return "; ".join(f"{each.get('pointer') or each.get('parameter')}: {each.get('detail')}" for each in told)


def headers_of(token: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"authorization": f"Bearer {token}", "accept": "application/json"}


def named(identifier: str) -> str:
    """Return an id as a part of a path, so that none leads to another one."""
    return quote(identifier, safe="")


def error_of(failed: httpx.Response | httpx.HTTPError) -> ApiError:
    """Return the error that an answer, or the lack of one, stands for."""
    if isinstance(failed, httpx.HTTPError):
        return ApiError(0, {"title": "no answer", "detail": str(failed) or type(failed).__name__})
    try:
        problem = failed.json()
    except ValueError:
        problem = {}
    return ApiError(
        failed.status_code, problem if isinstance(problem, dict) and problem else {"title": failed.reason_phrase}
    )


def is_worth_another_try(failed: httpx.Response | httpx.HTTPError) -> bool:
    """Tell whether a failure may pass by itself."""
    return isinstance(failed, httpx.TransportError) or (
        isinstance(failed, httpx.Response) and failed.status_code in _AGAIN
    )


def opening(agent: str, language: str, labels: Mapping[str, str] | None, visitor: str | None) -> dict[str, Any]:
    """Return the body that opens a conversation."""
    body: dict[str, Any] = {"agent": agent, "language": language, "labels": dict(labels or {})}
    return body | ({"visitor": visitor} if visitor else {})


def saying(text: str, message_id: str | None, author: str | None) -> dict[str, Any]:
    """Return the body of a message, which may be sent twice."""
    return {"text": text, "message_id": message_id or str(uuid4())} | ({"author": author} if author else {})


def deciding(approval: Approval, decision: Verb, reason: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a decision about what was seen."""
    seen: dict[str, Any] = {"digest": approval.digest, "revision": approval.revision}
    if approval.restored_at is not None:
        seen["restored_at"] = approval.restored_at.isoformat()
    return {"decision": decision, **seen, **({"reason": reason} if reason else {}), **more}


def job_of(task: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that asks for a job, which may be sent twice."""
    return {"id": str(uuid4()), "task": task, **more}


def line_of(event: ServerSentEvent) -> JobLine | None:
    """Return the line of a job's log that an event is; None where it is none."""
    if not event.id or not event.data:
        return None
    return JobLine(id=int(event.id), type=event.event, data=event.json())


def event_of(event: ServerSentEvent) -> Item | Delta | None:
    """Return what an event of the stream says; None for one that is no item and no piece of text."""
    if event.event == "delta":
        return Delta.model_validate(event.json())
    if not event.id or not event.data:
        return None
    data = event.json()
    return items.validate_python({"id": int(event.id), "type": event.event, "at": data.pop("at", None), "data": data})
