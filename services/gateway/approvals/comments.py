"""Comments on an approval: approvers among themselves, and a question to the requester that is answered there.

A comment decides nothing: it changes neither the approval nor its revision, and no model reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, Field, Strict

from placet.contracts.errors import Refused
from placet.contracts.messages import ApprovalCommented
from placet.contracts.messages.deliveries import COMMENT_MAX
from placet.gateway.approvals.store.comments import (
    COMMENTS_MAX,
    Comment,
    add_comment,
    has_comment,
    list_comments,
)
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.texts import Body, Text, saying_something
from placet.runtime.work import UnitOfWork

router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=StrictRoute)


class CommentIn(Body):
    """What somebody says about an approval."""

    text: Annotated[Text, Field(max_length=COMMENT_MAX), AfterValidator(saying_something), AfterValidator(str.strip)]
    question: Annotated[bool, Strict()] = Field(
        default=False, description="Whether it asks the requester something; they see it in their conversation."
    )


class CommentOut(BaseModel):
    """One comment."""

    id: str
    person: str
    text: str
    question: bool = Field(description="Whether it asks the requester something.")
    by_requester: bool = Field(description="Whether the requester of the call wrote it.")
    answered: bool = Field(description="Of a question: whether the requester has written since.")
    at: datetime


class CommentPage(BaseModel):
    """The comments on an approval, oldest first."""

    items: list[CommentOut]


def comments_out(comments: Sequence[Comment], requester: str) -> list[CommentOut]:
    """Return comments as they are shown."""
    words = [each.at for each in comments if each.person == requester]
    return [
        CommentOut(
            **asdict(each),
            by_requester=each.person == requester,
            answered=each.question and any(at > each.at for at in words),
        )
        for each in comments
    ]


def may_comment(caller: Caller, row: Row) -> bool:
    """Tell whether somebody may read and write comments: who may decide here, and who asked for the call."""
    return caller.may(Scope.DECIDE) or caller.person == row["requester"]


async def comments_of(deps: Deps, caller: Caller, row: Row) -> list[CommentOut]:
    """Return the comments on an approval; raise Refused (403) where they are not for the caller."""
    _need(caller, row)
    async with reading(deps.runtime.database) as connection:
        return comments_out(await list_comments(connection, row["tenant"], row["approval_id"]), row["requester"])


async def comment(
    units: UnitOfWork, caller: Caller, row: Row, said: CommentIn, *, comment_id: str = "", said_in: str = ""
) -> None:
    """Keep a comment and let Slack's threads tell it; raise Refused (403, 409).

    Who asked for the call asks nothing of themselves. One with a `comment_id` that is kept already is kept once;
    `said_in` is the thread in Slack that it was written in.
    """
    _need(caller, row)
    question = said.question and caller.person != row["requester"]
    place = {"tenant": row["tenant"], "approval_id": row["approval_id"]}
    words: dict[str, Any] = {"person": caller.person, "text": said.text, "question": question}
    async with writing(units, caller) as work:
        made = await add_comment(work.connection, **place, **words, comment_id=comment_id)
        if made is not None:
            work.emit(ApprovalCommented(**place, **words, comment_id=made.id, said_in=said_in))
        known = made is not None or (comment_id != "" and await has_comment(work.connection, comment_id))
    if not known:
        detail = f"An approval has at most {COMMENTS_MAX} comments."
        raise Refused("There are too many comments.", status=409, kind="too-many-comments", detail=detail)


def _need(caller: Caller, row: Row) -> None:
    if not may_comment(caller, row):
        caller.need(Scope.DECIDE)


@router.get("/{approval_id}/comments", responses=described(401, 403, 404, 503))
async def list_all(deps: DepsOf, caller: CallerOf, approval_id: PathId) -> CommentPage:
    """List what people said about an approval, oldest first."""
    return CommentPage(items=await comments_of(deps, caller, await deps.decisions.find(caller, approval_id)))


@router.post("/{approval_id}/comments", status_code=201, responses=described(400, 401, 403, 404, 409, 413, 415, 503))
async def write(deps: DepsOf, caller: CallerOf, approval_id: PathId, body: CommentIn) -> CommentPage:
    """Say something about an approval, or ask its requester; it decides nothing. Return all that was said."""
    row = await deps.decisions.find(caller, approval_id)
    await comment(deps.runtime.units, caller, row, body)
    return CommentPage(items=await comments_of(deps, caller, row))
