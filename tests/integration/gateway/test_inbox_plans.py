"""How PostgreSQL finds a page of the inbox among very many approvals: along an index, whatever is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from psycopg.types.json import Jsonb

from placet.approval.service import build
from placet.approval.settings import ApprovalSettings
from placet.contracts.messages import ApprovalOpened
from placet.contracts.signing import create_keys
from placet.deploy.migrations import migrate
from placet.domain.directory import Directory, Person
from placet.gateway.approvals.mine import list_mine
from placet.gateway.approvals.store.inbox import Filters, Seat, candidates, fitting
from placet.gateway.approvals.store.pages import OLDEST
from placet.gateway.approvals.store.words import beginning
from placet.gateway.identity.auth import Caller
from placet.runtime.database import async_url
from tests.builders import NOON, an_approval_rule
from tests.support.approval_builders import a_request
from tests.support.house import Replica, a_replica
from tests.support.many_approvals import copy_approval
from tests.support.postgres import Databases

#: One of a hundred is for the group, one of twenty is over.
_COPIES = {
    "approval_id": "'copy-' || n",
    "call_id": "'copy-' || n",
    "conversation_id": "'conversation-' || n",
    "tool": "'tool-' || n % 50",
    "agent": "'agent-' || n % 50",
    "requester": "'person:' || n % 500",
    "category": "(ARRAY['unsafe_write', 'unsafe_api', 'unsafe_exec'])[1 + n % 3]",
    "state": "CASE n % 20 WHEN 1 THEN 'expired' ELSE 'pending' END",
    "closed_at": "CASE n % 20 WHEN 1 THEN a.created_at END",
    "result_kind": "CASE n % 20 WHEN 1 THEN 'expired' END",
    "summary": "'Pay invoice ' || n",
    "deciders": "CASE n % 100 WHEN 0 THEN '{group:finance}'::text[] ELSE a.deciders END",
    "deciders_digest": "'tool-' || n % 50 || CASE n % 100 WHEN 0 THEN 'b' ELSE 'a' END",
    "approval_rule": """CASE n % 100 WHEN 0 THEN a.approval_rule || '{"approvers": ["group:finance"]}'
        ELSE a.approval_rule END""",
    "created_at": "a.created_at + n * interval '1 ms'",
    "expires_at": "a.expires_at + n * interval '1 s'",
}
ADA = Seat("person:ada", digests=("tool-0b", "tool-1a"))
BOB = Caller("acme", "person:bob", "api_key", frozenset({"decide"}))
FINANCE = Directory(people={"bob": Person("bob")}, groups={"finance": frozenset({"bob"})})


def _migrate(url: str) -> None:
    migrate(url)


@pytest.fixture(scope="module")
def filled_url(databases: Databases) -> Iterator[str]:
    """A migrated database for very many approvals."""
    with databases.fresh(_migrate) as url:
        yield url


@pytest.fixture
async def replica(filled_url: str, tmp_path: Path) -> AsyncIterator[Replica]:
    """An approval service; 20,001 approvals wait in its database."""
    create_keys(tmp_path)
    async with a_replica(
        "approval", filled_url, partial(build, ApprovalSettings(keys=tmp_path)), keys=tmp_path
    ) as made:
        if (await made.rows("SELECT count(*) FROM approval.approvals"))[0]["count"] == 0:
            rule = an_approval_rule(approvers=["person:zoe"])
            (card,) = await made.send(a_request(approval=rule))
            assert isinstance(card, ApprovalOpened)
            copy_approval(filled_url, card.approval_id, 20_000, _COPIES)
        yield made


def given(filters: Filters) -> dict[str, Any]:
    """Return what a statement takes of filters."""
    return filters.given(filters.asks())


def plan_of(url: str, build_statement: Callable[[frozenset[str]], sa.Select[Any]], **asked: Any) -> str:
    """Return PostgreSQL's plan of the second page as text."""
    values = {"tenant": "acme", "most": 51, "after_at": NOON.replace(year=2100), "after_id": "copy-9", **asked}
    names = frozenset(values)
    if "asks" in values:
        values["asks"] = Jsonb(values["asks"])
    engine = sa.create_engine(async_url(url), poolclass=sa.NullPool)
    with engine.connect() as connection:
        compiled: Any = build_statement(names).compile(dialect=connection.dialect)
        found = connection.exec_driver_sql(f"EXPLAIN {compiled}", compiled.construct_params(values))
        return "\n".join(found.scalars())


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"state": "expired"}, "ix_approvals_inbox"),
        ({"conversation_id": "conversation-7"}, "ix_approvals_conversation"),
        ({"tool": "tool-7"}, "ix_approvals_tool"),
        ({"agent": "agent-7"}, "ix_approvals_agent"),
        ({"category": "unsafe_exec"}, "ix_approvals_category"),
    ],
    ids=["state", "conversation", "tool", "agent", "category"],
)
@pytest.mark.usefixtures("replica")
def test_a_page_of_a_filter_is_a_stretch_of_an_index(filled_url: str, filters: Mapping[str, Any], index: str) -> None:
    """However many approvals wait, the page is read in its order: nothing is sorted, nothing else looked at."""
    plan = plan_of(filled_url, fitting, **given(Filters(**filters)))
    assert (True, False, False) == (index in plan, "Sort" in plan, "Seq Scan" in plan)


@pytest.mark.parametrize("filters", [{}, {"older_than_seconds": 1}, {"search": "-4711"}], ids=["all", "age", "without"])
@pytest.mark.usefixtures("replica")
def test_a_page_of_all_is_a_stretch_of_an_index_for_each_state(filled_url: str, filters: Mapping[str, Any]) -> None:
    """One page of each of the six states, and nothing else looked at; also where no word can be walked."""
    plan = plan_of(filled_url, fitting, **given(Filters(**filters)))
    assert (6, False) == (plan.count("ix_approvals_inbox"), "Seq Scan" in plan)


@pytest.mark.parametrize("typed", ["invoice", "4711", "invoice 4711", '"invoice 4711" or pay', "pay -4711"])
@pytest.mark.parametrize("state", [None, "pending", "expired"])
@pytest.mark.usefixtures("replica")
def test_a_page_of_words_is_a_stretch_of_their_index(filled_url: str, typed: str, state: str | None) -> None:
    """Rare or not, one or several: the words are walked in the order of the page, and no approvals beside theirs."""
    plan = plan_of(filled_url, fitting, **given(Filters(search=typed, state=state)))
    assert (False, False) == ("Sort" in walk_of(plan), "Seq Scan on" in plan)


def walk_of(plan: str) -> str:
    """Return the part of a plan that walks the words."""
    return plan[plan.rindex("Nested Loop", 0, plan.rindex("pk_words")) :]


@pytest.mark.parametrize("filters", [{"requester": "person:7"}, {"rule": "payments"}, {"decided_by": "person:7"}])
@pytest.mark.usefixtures("replica")
def test_a_filter_without_an_index_is_a_stretch_of_the_words(filled_url: str, filters: Mapping[str, Any]) -> None:
    """What has a value is walked in the order of the page, also oldest first."""
    for more in ({}, {OLDEST: True}):
        plan = plan_of(filled_url, fitting, **given(Filters(**filters)), **more)
        assert (False, False) == ("Sort" in walk_of(plan), "Seq Scan on" in plan)


@pytest.mark.usefixtures("replica")
def test_the_beginning_of_a_word_is_steps_along_the_words(filled_url: str) -> None:
    """One look into the index for each word that begins so; no word is read twice, and none that begins otherwise."""
    plan = plan_of(filled_url, lambda _: beginning(), prefix="inv")
    assert (True, False) == ("Index Only Scan using pk_words" in plan, "Seq Scan on" in plan)


@pytest.mark.parametrize("filters", [{"tool": "tool-7"}, {"state": "pending"}])
@pytest.mark.usefixtures("replica")
def test_oldest_first_is_the_same_stretch_from_its_other_end(filled_url: str, filters: Mapping[str, Any]) -> None:
    """No index of its own, and nothing sorted."""
    plan = plan_of(filled_url, fitting, **Filters(**filters).given(), **{OLDEST: True})
    assert (True, False) == ("Index Scan Backward" in plan, "Sort" in plan)


@pytest.mark.usefixtures("replica")
def test_what_is_mine_is_a_stretch_of_an_index_for_each_set_of_deciders(filled_url: str) -> None:
    """A page of each that lets somebody in; nothing reads what is for others."""
    plan = plan_of(filled_url, candidates, **ADA.values())
    found = [index in plan for index in ("ix_approvals_deciders", "ix_approvals_requester", "Seq Scan on approvals")]
    assert [True, True, False] == found


async def test_what_is_mine_is_what_names_me(replica: Replica) -> None:
    """The page holds the newest approvals for the caller's group, and none that are for others."""
    async with replica.units.database.single() as connection:
        page = await list_mine(connection, BOB, FINANCE, Filters(), limit=3)
    assert ["copy-20000", "copy-19900", "copy-19800"] == [row["approval_id"] for row in page.rows]
