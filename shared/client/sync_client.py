"""The client for programs that block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from httpx_sse import ServerSentEvent, connect_sse

from placet.client import requests as r
from placet.client.items import Delta, Item
from placet.client.models import (
    Approval,
    ConversationView,
    Job,
    JobLine,
    Posted,
    StagedChange,
    State,
    ToolCall,
    Verb,
    Workspace,
)


class Client:
    """Placet's API under one key, or under a conversation's token."""

    def __init__(self, url: str, key: str) -> None:
        #: The HTTP client beneath.
        self.http = httpx.Client(base_url=url, headers=r.headers_of(key), timeout=r.TIMEOUT, limits=r.LIMITS)

    def __enter__(self) -> Self:
        """Use the client for a while."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.http.close()

    def open_conversation(
        self,
        *,
        agent: str = "default",
        language: str = "en",
        labels: Mapping[str, str] | None = None,
        visitor: str | None = None,
    ) -> Conversation:
        """Open a conversation; `visitor` is your id of the end user. Give its token to their browser, and no key."""
        made = self.request("POST", "/v1/conversations", json=r.opening(agent, language, labels, visitor))
        return Conversation(self, made["id"], made["token"])

    def conversation(self, conversation_id: str) -> Conversation:
        """Return a conversation that is there."""
        return Conversation(self, conversation_id, "")

    def approvals(self, *, state: State = "pending", **filters: Any) -> Iterator[Approval]:
        """Yield approvals that fit, newest first, page by page; filters are the API's query parameters."""
        asked = {"state": state, **filters}
        while True:
            page = self.request("GET", "/v1/approvals", params=asked, again=True)
            yield from map(Approval.model_validate, page["items"])
            if not page["next"]:
                return
            asked["cursor"] = page["next"]

    def approval(self, approval_id: str) -> Approval:
        """Return one approval."""
        return Approval.model_validate(self.request("GET", f"/v1/approvals/{r.named(approval_id)}", again=True))

    def decide(self, approval: Approval, decision: Verb, *, reason: str = "", **more: Any) -> Approval:
        """Decide what you saw; ApiError 409 where somebody was first or it has changed. `more` goes with the verb."""
        body = r.deciding(approval, decision, reason, more)
        self.request("POST", f"/v1/approvals/{r.named(approval.id)}/decisions", json=body)
        return self.approval(approval.id)

    def tool_call(self, call_id: str) -> ToolCall:
        """Return one tool call with its history."""
        return ToolCall.model_validate(self.request("GET", f"/v1/tool-calls/{r.named(call_id)}", again=True))

    def run_job(self, task: str, **more: Any) -> str:
        """Have a job done; return its id. `more` is what `POST /v1/jobs` takes; sent twice, it is one job."""
        body = r.job_of(task, more)
        return str(self.request("POST", "/v1/jobs", json=body, again=True)["id"])

    def job(self, job_id: str) -> Job:
        """Return a job with its tasks, their attempts and votes."""
        return Job.model_validate(self.request("GET", f"/v1/jobs/{r.named(job_id)}", again=True))

    def cancel_job(self, job_id: str) -> None:
        """Withdraw every attempt of a job; one that is over stays as it ended."""
        self.request("POST", f"/v1/jobs/{r.named(job_id)}/cancel", again=True)

    def follow_job(self, job_id: str, after: int = 0) -> Iterator[JobLine]:
        """Yield a job's log after a line, then what comes, up to its end: no gap, no repeat."""
        return _stream(self.http, f"/v1/jobs/{r.named(job_id)}/events", after, r.line_of)

    def request(self, method: str, path: str, *, again: bool = False, **options: Any) -> Any:
        """Return the JSON of an answer; where it may be sent again, try a few times."""
        pauses = iter(r.PAUSES if again else ())
        while True:
            failed: httpx.Response | httpx.HTTPError
            try:
                answer = self.http.request(method, path, **options)
            except httpx.HTTPError as error:
                failed = error
            else:
                if answer.is_success:
                    return answer.json() if answer.content else None
                failed = answer
            pause = next(pauses, None) if r.is_worth_another_try(failed) else None
            if pause is None:
                raise r.error_of(failed)
            time.sleep(pause)


class Conversation:
    """One conversation."""

    def __init__(self, client: Client, conversation_id: str, token: str) -> None:
        self._client = client
        self._path = f"/v1/conversations/{r.named(conversation_id)}"
        self.id = conversation_id
        #: Lets an end user read, write and decide here; empty where the conversation was not opened by this object.
        self.token = token

    def post(self, text: str, *, message_id: str | None = None, author: str | None = None) -> Posted:
        """Write in the conversation; the same `message_id` again is the same message."""
        body = r.saying(text, message_id, author)
        return Posted.model_validate(self._client.request("POST", f"{self._path}/messages", json=body, again=True))

    def show(self) -> ConversationView:
        """Return the conversation as it stands."""
        return ConversationView.model_validate(self._client.request("GET", self._path, again=True))

    def follow(self, after: int = 0) -> Iterator[Item | Delta]:
        """Yield what happened after an item, then what happens: no gap, no repeat, also where the stream breaks."""
        return _stream(self._client.http, f"{self._path}/events", after, r.event_of)

    def stop(self) -> None:
        """Stop the turn that runs."""
        self._client.request("POST", f"{self._path}/stop")

    def end(self) -> None:
        """End the conversation: what waits is withdrawn, and nobody writes in it again."""
        self._client.request("POST", f"{self._path}/end", again=True)

    def workspace(self) -> Workspace:
        """Return what is staged, or what became of it; ApiError 404 where nothing ever was."""
        return Workspace.model_validate(self._client.request("GET", f"{self._path}/workspace", again=True))

    def diff(self, entry_id: str) -> list[StagedChange]:
        """Return what one staged entry changes, with unified diffs."""
        path = f"{self._path}/workspace/entries/{entry_id}/diff"
        found = self._client.request("GET", path, again=True)
        return [StagedChange.model_validate(each) for each in found["changes"]]

    def propose(self) -> None:
        """Have what is staged decided now: the approval comes as an item; ApiError 409 where nothing waits."""
        self._client.request("POST", f"{self._path}/workspace/propose")

    def discard(self, reason: str = "") -> None:
        """Throw away what is staged: none of it happens; ApiError 409 where nothing waits."""
        body = {"reason": reason} if reason else {}
        self._client.request("POST", f"{self._path}/workspace/discard", json=body)


def _stream(
    http: httpx.Client, path: str, after: int, read: Callable[[ServerSentEvent], r.Found | None]
) -> Iterator[r.Found]:
    """Yield what `read` finds in a stream after an id, up to the stream's end; open it again where it breaks."""
    while True:
        headers = {"last-event-id": str(after)} if after else {}
        try:
            with connect_sse(http, "GET", path, headers=headers) as source:
                if source.response.status_code == r.NO_CONTENT:
                    return
                if not source.response.is_success:
                    source.response.read()
                    if not r.is_worth_another_try(source.response):
                        raise r.error_of(source.response)
                else:
                    for event in source.iter_sse():
                        if (found := read(event)) is not None:
                            after = getattr(found, "id", after)
                            yield found
                            if isinstance(found, JobLine) and found.is_end:
                                return
        except httpx.TransportError:
            pass
        time.sleep(r.REOPEN_SECONDS)
