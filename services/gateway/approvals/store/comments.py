"""What people say to each other about an approval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from placet.contracts.ids import new_id
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

#: Comments on one approval.
COMMENTS_MAX = 100

QUERIES = load_queries(__file__, "comments.sql")


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment, in a person's own words."""

    id: str
    #: `person:…`, or who a conversation's token stands for.
    person: str
    text: str
    #: Whether it asks the requester something.
    question: bool
    at: datetime


async def list_comments(connection: Connection, tenant: str, approval_id: str) -> tuple[Comment, ...]:
    """Return the comments on an approval, oldest first."""
    rows = await connection.run(QUERIES.list_comments, tenant=tenant, approval_id=approval_id)
    return tuple(
        Comment(row["comment_id"], row["person"], row["text"], row["question"], row["created_at"]) for row in rows
    )


async def count_comments(connection: Connection, tenant: str, approval_ids: Sequence[str]) -> dict[str, int]:
    """Return how many comments these approvals have, of those that have any."""
    rows = await connection.run(QUERIES.count_comments, tenant=tenant, approval_ids=list(approval_ids))
    return {row["approval_id"]: row["comments"] for row in rows}


async def has_comment(connection: Connection, comment_id: str) -> bool:
    """Tell whether a comment is kept already."""
    return bool(await connection.run(QUERIES.has_comment, comment_id=comment_id))


async def add_comment(
    connection: Connection,
    tenant: str,
    approval_id: str,
    *,
    person: str,
    text: str,
    question: bool,
    comment_id: str = "",
) -> Comment | None:
    """Keep a comment; return None where an approval has COMMENTS_MAX of them, or this one already."""
    comment_id, said = comment_id or new_id(), {"person": person, "text": text, "question": question}
    place = {"tenant": tenant, "approval_id": approval_id, "comment_id": comment_id}
    rows = await connection.run(QUERIES.add_comment, **place, **said, most=COMMENTS_MAX)
    return Comment(comment_id, person, text, question, rows[0]["created_at"]) if rows else None
