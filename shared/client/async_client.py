"""The client for asyncio; each method is that of the synchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from httpx_sse import ServerSentEvent, aconnect_sse

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


class AsyncClient:
    """Placet's API under one key, or under a conversation's token."""

    def __init__(self, url: str, key: str) -> None:
        #: The HTTP client beneath.
        self.http = httpx.AsyncClient(base_url=url, headers=r.headers_of(key), timeout=r.TIMEOUT, limits=r.LIMITS)

    async def __aenter__(self) -> Self:
        """Use the client for a while."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.http.aclose()

    async def open_conversation(
        self,
        *,
        agent: str = "default",
        language: str = "en",
        labels: Mapping[str, str] | None = None,
        visitor: str | None = None,
    ) -> AsyncConversation:
        """Open a conversation; `visitor` is your id of the end user. Give its token to their browser, and no key."""
        made = await self.request("POST", "/v1/conversations", json=r.opening(agent, language, labels, visitor))
        return AsyncConversation(self, made["id"], made["token"])

    def conversation(self, conversation_id: str) -> AsyncConversation:
        """Return a conversation that is there."""
        return AsyncConversation(self, conversation_id, "")

    async def approvals(self, *, state: State = "pending", **filters: Any) -> AsyncIterator[Approval]:
        """Yield approvals that fit, newest first, page by page; filters are the API's query parameters."""
        asked = {"state": state, **filters}
        while True:
            page = await self.request("GET", "/v1/approvals", params=asked, again=True)
            for each in page["items"]:
                yield Approval.model_validate(each)
            if not page["next"]:
                return
            asked["cursor"] = page["next"]

    async def approval(self, approval_id: str) -> Approval:
        """Return one approval."""
        return Approval.model_validate(await self.request("GET", f"/v1/approvals/{r.named(approval_id)}", again=True))

    async def decide(self, approval: Approval, decision: Verb, *, reason: str = "", **more: Any) -> Approval:
        """Decide what you saw; ApiError 409 where somebody was first or it has changed. `more` goes with the verb."""
        body = r.deciding(approval, decision, reason, more)
        await self.request("POST", f"/v1/approvals/{r.named(approval.id)}/decisions", json=body)
        return await self.approval(approval.id)

    async def tool_call(self, call_id: str) -> ToolCall:
        """Return one tool call with its history."""
        return ToolCall.model_validate(await self.request("GET", f"/v1/tool-calls/{r.named(call_id)}", again=True))

    async def run_job(self, task: str, **more: Any) -> str:
        """Have a job done; return its id. `more` is what `POST /v1/jobs` takes; sent twice, it is one job."""
        body = r.job_of(task, more)
        return str((await self.request("POST", "/v1/jobs", json=body, again=True))["id"])

    async def job(self, job_id: str) -> Job:
        """Return a job with its tasks, their attempts and votes."""
        return Job.model_validate(await self.request("GET", f"/v1/jobs/{r.named(job_id)}", again=True))

    async def cancel_job(self, job_id: str) -> None:
        """Withdraw every attempt of a job; one that is over stays as it ended."""
        await self.request("POST", f"/v1/jobs/{r.named(job_id)}/cancel", again=True)

    def follow_job(self, job_id: str, after: int = 0) -> AsyncIterator[JobLine]:
        """Yield a job's log after a line, then what comes, up to its end: no gap, no repeat."""
        return _stream(self.http, f"/v1/jobs/{r.named(job_id)}/events", after, r.line_of)

    async def request(self, method: str, path: str, *, again: bool = False, **options: Any) -> Any:
        """Return the JSON of an answer; where it may be sent again, try a few times."""
        pauses = iter(r.PAUSES if again else ())
        while True:
            failed: httpx.Response | httpx.HTTPError
            try:
                answer = await self.http.request(method, path, **options)
            except httpx.HTTPError as error:
                failed = error
            else:
                if answer.is_success:
                    return answer.json() if answer.content else None
                failed = answer
            pause = next(pauses, None) if r.is_worth_another_try(failed) else None
            if pause is None:
                raise r.error_of(failed)
            await asyncio.sleep(pause)


class AsyncConversation:
    """One conversation."""

    def __init__(self, client: AsyncClient, conversation_id: str, token: str) -> None:
        self._client = client
        self._path = f"/v1/conversations/{r.named(conversation_id)}"
        self.id = conversation_id
        #: Lets an end user read, write and decide here; empty where the conversation was not opened by this object.
        self.token = token

    async def post(self, text: str, *, message_id: str | None = None, author: str | None = None) -> Posted:
        """Write in the conversation; the same `message_id` again is the same message."""
        body = r.saying(text, message_id, author)
        return Posted.model_validate(
            await self._client.request("POST", f"{self._path}/messages", json=body, again=True)
        )

    async def show(self) -> ConversationView:
        """Return the conversation as it stands."""
        return ConversationView.model_validate(await self._client.request("GET", self._path, again=True))

    def follow(self, after: int = 0) -> AsyncIterator[Item | Delta]:
        """Yield what happened after an item, then what happens: no gap, no repeat, also where the stream breaks."""
        return _stream(self._client.http, f"{self._path}/events", after, r.event_of)

    async def stop(self) -> None:
        """Stop the turn that runs."""
        await self._client.request("POST", f"{self._path}/stop")

    async def end(self) -> None:
        """End the conversation: what waits is withdrawn, and nobody writes in it again."""
        await self._client.request("POST", f"{self._path}/end", again=True)

    async def workspace(self) -> Workspace:
        """Return what is staged, or what became of it; ApiError 404 where nothing ever was."""
        return Workspace.model_validate(await self._client.request("GET", f"{self._path}/workspace", again=True))

    async def diff(self, entry_id: str) -> list[StagedChange]:
        """Return what one staged entry changes, with unified diffs."""
        path = f"{self._path}/workspace/entries/{entry_id}/diff"
        found = await self._client.request("GET", path, again=True)
        return [StagedChange.model_validate(each) for each in found["changes"]]

    async def propose(self) -> None:
        """Have what is staged decided now: the approval comes as an item; ApiError 409 where nothing waits."""
        await self._client.request("POST", f"{self._path}/workspace/propose")

    async def discard(self, reason: str = "") -> None:
        """Throw away what is staged: none of it happens; ApiError 409 where nothing waits."""
        body = {"reason": reason} if reason else {}
        await self._client.request("POST", f"{self._path}/workspace/discard", json=body)


async def _stream(
    http: httpx.AsyncClient, path: str, after: int, read: Callable[[ServerSentEvent], r.Found | None]
) -> AsyncIterator[r.Found]:
    """Yield what `read` finds in a stream after an id, up to the stream's end; open it again where it breaks."""
    while True:
        headers = {"last-event-id": str(after)} if after else {}
        try:
            async with aconnect_sse(http, "GET", path, headers=headers) as source:
                if source.response.status_code == r.NO_CONTENT:
                    return
                if not source.response.is_success:
                    await source.response.aread()
                    if not r.is_worth_another_try(source.response):
                        raise r.error_of(source.response)
                else:
                    async for event in source.aiter_sse():
                        if (found := read(event)) is not None:
                            after = getattr(found, "id", after)
                            yield found
                            if isinstance(found, JobLine) and found.is_end:
                                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(r.REOPEN_SECONDS)
