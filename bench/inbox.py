"""What people wait for while very many approvals wait for them: ratios against few.

One approval service and the gateway's own queries on one migrated database, in this process; no broker and no HTTP, so
that what grows with the rows is not hidden behind what does not.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from bench.measurement import Act, medians_ms, ratios_of, warm_up_of
from bench.processor import POSTGRES_URL
from bench.report import say
from placet.approval import worker
from placet.approval.service import build
from placet.approval.settings import ApprovalSettings
from placet.contracts.messages import ApprovalOpened
from placet.contracts.signing import Signer, create_keys, load_signer
from placet.deploy.migrations import migrate
from placet.domain.directory import Directory, Person
from placet.gateway.approvals.mine import list_mine, survey_mine
from placet.gateway.approvals.search import COUNT_MAX
from placet.gateway.approvals.store.inbox import Filters, list_approvals
from placet.gateway.identity.auth import Caller
from placet.runtime.logging import set_up_logging
from tests.support.approval_builders import a_decision, a_request, some_claims
from tests.support.house import Replica, a_replica
from tests.support.many_approvals import copy_approval
from tests.support.postgres import Databases

#: What everything is compared with.
FEW = 1_000
PAGE = 51
MEMBERS_ONLY = '"finance" in person.groups'
#: Overdue approvals that one measured sweep closes.
OVERDUE = 5
#: One of ten is for finance, one for operators of finance, one for all operators, and seven for somebody else.
_KIND = "(CASE n % 10 WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 2 THEN 2 ELSE 3 END)"
#: Columns of the rows that fill the inbox, where they differ from the one that they are copied from. Each filter fits
#: enough of them for a full page among the few too, so that a page is compared with a page.
_FILLED = {
    "approval_id": "'row-' || n",
    "call_id": "'row-' || n",
    "conversation_id": "'conversation-' || n / 64",
    "tool": "'tool-' || n % 10",
    "agent": "'agent-' || n % 10",
    "requester": "'person:' || n % 5000",
    "category": "(ARRAY['unsafe_write', 'unsafe_api', 'unsafe_exec'])[1 + n % 3]",
    "summary": """'Pay invoice ' || n || ' of customer ' || n % 997 || CASE n % 10 WHEN 0 THEN ' abroad' ELSE '' END
        || CASE n % 361 WHEN 0 THEN ' urgently' ELSE '' END || CASE WHEN n < 61 THEN ' first' ELSE '' END""",
    "deciders": f"(ARRAY['{{group:finance}}', '{{operators}}', '{{person:zoe}}'])[{_KIND}]::text[]",
    "deciders_digest": f"""'tool-' || n % 10 ||
        (ARRAY['finance', 'operators', 'zoe', 'members'])[CASE n % 10 WHEN 1 THEN 4 ELSE {_KIND} END]""",
    "approval_rule": f"""a.approval_rule || jsonb_build_object('approvers',
        (ARRAY['["group:finance"]', '["operators"]', '["person:zoe"]'])[{_KIND}]::jsonb, 'condition',
        CASE n % 10 WHEN 1 THEN '{MEMBERS_ONLY}' ELSE '' END)""",
    "created_at": "a.created_at - n * interval '1 ms'",
    "expires_at": "a.expires_at + n * interval '1 s'",
}
_OVERDUE = """
    UPDATE approval.approvals SET expires_at = clock_timestamp() WHERE approval_id IN (
        SELECT approval_id FROM approval.approvals WHERE tenant = 'acme' AND state = 'pending'
        ORDER BY created_at, approval_id LIMIT :most)
"""
DIRECTORY = Directory(people={"ada": Person("ada"), "bob": Person("bob")}, groups={"finance": frozenset({"ada"})})
OPERATOR = Caller("acme", "person:bob", "api_key", frozenset({"decide"}))
MEMBER = Caller("acme", "person:ada", "api_key", frozenset({"decide"}))


async def measure(rows: int, times: int) -> dict[str, dict[int, float]]:
    """Return the median milliseconds of each act among few approvals and among `rows`, taken in turns.

    Each is done so many `times`, after a tenth as many (ten at least) that are not measured: the planner settles then.
    """
    set_up_logging("warning")
    acts: dict[int, dict[str, Act]] = {}
    async with AsyncExitStack() as stack:
        for size in (FEW, rows):
            say(f"{size} approvals")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-bench-")))
            replica, signer = await stack.enter_async_context(_approval(folder))
            await replica.send(a_request())
            copy_approval(replica.units.database.url, replica.all_sent(ApprovalOpened)[0].approval_id, size, _FILLED)
            acts[size] = _acts(replica, signer)
        return {name: await _medians_ms({size: acts[size][name] for size in acts}, times) for name in acts[FEW]}


def ratios(found: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Return how many times as long each act takes among many as among few."""
    return {f"{name}_vs_{FEW}": ratio for name, ratio in ratios_of(found).items()}


@asynccontextmanager
async def _approval(folder: Path) -> AsyncIterator[tuple[Replica, Signer]]:
    create_keys(folder)
    databases = Databases(POSTGRES_URL)
    try:
        with databases.fresh(_migrate) as url:
            settings = ApprovalSettings(keys=folder)
            async with a_replica("approval", url, partial(build, settings), keys=folder) as replica:
                yield replica, load_signer(folder, "gateway")
    finally:
        databases.close()


def _migrate(url: str) -> None:
    migrate(url)


def _acts(replica: Replica, signer: Signer) -> dict[str, Act]:
    """Return what is measured, by name."""

    async def page(filters: Filters, rows: int = PAGE, *, oldest: bool = False, narrow: bool = False) -> object:
        async with replica.units.database.single() as connection:
            return await list_approvals(connection, "acme", filters, limit=rows, oldest=oldest, narrow=narrow)

    async def survey() -> object:
        async with replica.units.database.single() as connection:
            return await survey_mine(connection, OPERATOR, DIRECTORY, Filters(state="pending"))

    async def mine(caller: Caller, filters: Filters, rows: int = PAGE - 1) -> object:
        async with replica.units.database.single() as connection:
            return await list_mine(connection, caller, DIRECTORY, filters, limit=rows)

    return {
        "decision": _Decisions(replica, signer),
        "first_page": partial(page, Filters(state="pending")),
        "mine_of_operator": partial(mine, OPERATOR, Filters(state="pending")),
        "mine_of_group": partial(mine, MEMBER, Filters(state="pending")),
        "mine_and_tool": partial(mine, MEMBER, Filters(state="pending", tool="tool-2")),
        "tool": partial(page, Filters(tool="tool-7", state="pending")),
        "agent": partial(page, Filters(agent="agent-7", state="pending")),
        "conversation": partial(page, Filters(conversation_id="conversation-7", state="pending")),
        "category": partial(page, Filters(category="unsafe_exec", state="pending")),
        "age": partial(page, Filters(older_than_seconds=1, state="pending")),
        "one_word_in_all": partial(page, Filters(search="invoice", state="pending")),
        "one_word_in_ten": partial(page, Filters(search="abroad", state="pending")),
        "one_word_in_361": partial(page, Filters(search="urgently", state="pending"), 2),
        "one_word_in_1000": partial(page, Filters(search="777", state="pending"), 2),
        "word_of_60": partial(page, Filters(search="first", state="pending")),
        "word_of_one": partial(page, Filters(search="999", state="pending")),
        "words_in_all": partial(page, Filters(search="pay invoice customer", state="pending")),
        "words_in_all_and_ten": partial(page, Filters(search="pay abroad invoice", state="pending")),
        # Among the few none has both: a page of nothing would be compared with a page.
        "words_in_60_and_ten": partial(page, Filters(search="abroad first", state="pending")),
        "words_in_all_or_ten": partial(page, Filters(search="pay -urgently or abroad", state="pending")),
        "phrase_in_all": partial(page, Filters(search='"pay invoice"', state="pending")),
        "word_in_any_state": partial(page, Filters(search="abroad")),
        "mine_and_word_in_all": partial(mine, MEMBER, Filters(search="invoice", state="pending")),
        "mine_and_word_in_ten": partial(mine, MEMBER, Filters(search="abroad", state="pending")),
        "mine_and_word_in_361": partial(mine, MEMBER, Filters(search="urgently", state="pending"), 1),
        "oldest_first": partial(page, Filters(state="pending"), oldest=True),
        "requester": partial(page, Filters(requester="person:7", state="pending"), 2),
        "rule": partial(page, Filters(rule="payments", state="pending")),
        "beginning_of_one_word": partial(page, Filters(search="urg*", state="pending"), 2),
        "beginning_of_many_words": partial(page, Filters(search="9*", state="pending")),
        "survey": partial(page, Filters(state="pending"), COUNT_MAX, narrow=True),
        "survey_of_mine": survey,
        "expiry_of_nothing": partial(worker.expire_overdue, replica.units, 200, replica.signer),
        f"expiry_of_{OVERDUE}": _Expiry(replica),
    }


class _Expiry:
    """Closes approvals that were made overdue beforehand."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def before(self) -> None:
        """Let the oldest be overdue."""
        await self._replica.execute(_OVERDUE, most=OVERDUE)

    async def __call__(self) -> object:
        """Close them, and send what follows."""
        closed = await worker.expire_overdue(self._replica.units, OVERDUE, self._replica.signer)
        await self._replica.settle()
        if closed != OVERDUE:
            raise RuntimeError(f"{closed} approvals were overdue and not {OVERDUE}")
        return closed


class _Decisions:
    """Opens approvals beforehand and approves one each time."""

    def __init__(self, replica: Replica, signer: Signer) -> None:
        self._replica, self._signer = replica, signer
        self._opened: list[ApprovalOpened] = []

    async def prepare(self, number: int) -> None:
        """Open so many approvals."""
        for _ in range(number):
            sent = await self._replica.send(a_request())
            self._opened += [message for message in sent if isinstance(message, ApprovalOpened)]

    async def __call__(self) -> object:
        """Decide the next one."""
        claims = some_claims(self._opened.pop())
        return await self._replica.send(a_decision(self._signer, claims))


async def _medians_ms(acts: Mapping[int, Act], times: int) -> dict[int, float]:
    """Return the median of each, done in turns: a machine that gets slower meanwhile slows all alike."""
    for act in acts.values():
        if isinstance(act, _Decisions):
            await act.prepare(times + warm_up_of(times))

    async def before(act: Act) -> None:
        if isinstance(act, _Expiry):
            await act.before()

    return await medians_ms(acts, times, before)
