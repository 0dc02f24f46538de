"""Mailed links: found by the hash of their token in the notifier's view, and used up here, once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placet.contracts.messages import DecisionClaims
from placet.gateway.approvals.links import SENT_SECONDS, Link, Use
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection
from placet.runtime.work import Work

#: What a use keeps of its decision.
_CLAIMED = ("tenant", "approval_id", "person", "verb", "decision_id")

QUERIES = load_queries(__file__, "links.sql")


async def find_link(connection: Connection, token_hash: str) -> Link | None:
    """Return the link whose token has this hash."""
    rows = await connection.run(QUERIES.find_link, token_hash=token_hash)
    return Link(**dict(rows[0])) if rows else None


async def find_use(connection: Connection, token_hash: str) -> Use | None:
    """Return what a link was used for; None where nothing was decided with it that counts, or may still count."""
    rows = await connection.run(QUERIES.find_use, token_hash=token_hash, sent_seconds=SENT_SECONDS)
    return Use(rows[0]["verb"], rows[0]["used_at"], counted=rows[0]["counted"]) if rows else None


async def use_links(work: Work, uses: Iterable[tuple[str, DecisionClaims]], decision_ids: Sequence[str]) -> set[str]:
    """Use links up, each the hash of its token, in the statement that sends the decisions which they are used for.

    Sent is of `decision_ids` what needs no link, or whose link could be used; the ids of these come back.
    """
    found = list(uses)
    given = {name: [getattr(claims, name) for _, claims in found] for name in _CLAIMED}
    rows = await work.execute_once(
        QUERIES.use_links,
        hashes=[hashed for hashed, _ in found],
        tenants=given["tenant"],
        approval_ids=given["approval_id"],
        people=given["person"],
        verbs=given["verb"],
        link_decision_ids=given["decision_id"],
        decision_ids=list(decision_ids),
        sent_seconds=SENT_SECONDS,
    )
    return {row["key"] for row in rows}


async def settle_link(connection: Connection, decision_id: str, *, counted: bool) -> None:
    """Note what became of the decision that a link was used for; where it did not count, the link is good again."""
    became = "counted" if counted else "refused"
    await connection.run(QUERIES.settle_link, decision_id=decision_id, became=became)


async def mail_is_of(connection: Connection, tenant: str, mail_id: str) -> bool:
    """Tell whether a mail about approvals of this tenant has this id."""
    return bool(await connection.run(QUERIES.mail_is_of, tenant=tenant, mail_id=mail_id))
