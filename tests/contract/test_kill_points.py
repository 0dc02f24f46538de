"""Every transaction, publish and act of the services passes through a named kill point, or says why it need not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from placet.runtime.points import POINTS

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("services", "shared") for path in sorted((ROOT / folder).rglob("*.py"))]
#: What is done there can be lost or come twice: methods' names, and what they are called on where that matters.
STEPS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("transaction", "single", "publish", "basic_publish", "dead_letter"), frozenset()),
    "retry": frozenset({"bus"}),
    "run": frozenset({"tool"}),
    "send": frozenset({"channel"}),
    "send_joint": frozenset({"channel"}),
    "ask": frozenset({"model", "profile"}),
}
#: Functions with more such steps than points, and why a crash there loses and doubles nothing.
WITHOUT = {
    "services/agent/pseudonymizing.py:_kept": "what is called how; the same again is the same name",
    "services/agent/worker.py:_ask_for": "what calls it; the points are around it",
    "services/agent/worker.py:_run": "a lease that is given back; one that is not runs out",
    "services/agent/worker.py:_under_lease": "a lease; one that is not renewed runs out",
    "services/agent/worker.py:renew": "likewise",
    "services/approval/worker.py:index_words": "words to search by; what is not indexed is due again",
    "services/cli/audit.py:_blocks": "a command that only reads",
    "services/cli/audit.py:_verify_database": "likewise",
    "services/cli/invariants.py:_violations": "likewise",
    "services/embedded/system.py:_end_leases": "leases that are ended at a start; those that are not run out",
    "services/executor/parking.py:_handle": "what is not forgotten comes again, and is known",
    "services/executor/parking.py:park": "a permit is parked once, however often it comes, and acknowledged only then",
    "services/executor/parking.py:unpark": "lends permits; what is not handled in time is lent again",
    "services/executor/scopes.py:held": "holds locks and writes nothing; its journal has points of its own",
    "services/executor/slot_gate.py:_enter_alone": "a permit goes back to its queue before it is acknowledged here",
    "services/executor/sweeper.py:purge_workspaces": "deletes what nobody needs; the rest is due again",
    "services/executor/worker.py:_renew": "a lease; one that is not renewed runs out",
    "services/gateway/approvals/decisions.py:decide": "a link that is not marked as used says so on its use",
    "services/gateway/conversations/service.py:open_conversation": "one row; who got no answer opens another",
    "services/gateway/dialects/openai_requests.py:tell": "what a client was told; it is told once more",
    "services/gateway/receipts/receipt.py:make_receipt": "reads one moment and writes nothing",
    "services/gateway/slack/door.py:_only_once": "a click that dies here shows nothing, and is made again",
    "services/gateway/slack/door.py:forget_old": "deletes what nobody needs; the rest is due again",
    "services/notifier/worker.py:_show": "what calls it; the points are around it",
    "services/policy/purging.py:purge_old": "deletes what nobody needs; the rest is due again",
    "shared/runtime/consumer.py:_bury": "published again until it is confirmed; then the delivery is acknowledged",
    "shared/runtime/consumer.py:_later": "likewise",
    "shared/runtime/database.py:_begin": "what calls it; the points are there",
    "shared/runtime/outbox.py:_bury": "likewise; the row stays until then",
    "shared/runtime/outbox.py:_forget_once": "rows that stay are sent again, and known; the point is before it",
    "shared/runtime/rabbit.py:_send": "the broker's side of a publish; the points are around it",
    "shared/runtime/rabbit.py:publish": "likewise",
    "shared/runtime/service.py:_all_duties": "ids of events that are too old to come again; the rest is due again",
    "shared/runtime/service.py:forget": "likewise",
}
#: Functions that only read, each statement a transaction of its own.
READING = frozenset(
    {
        "services/agent/pseudonymizing.py:pseudonymize",
        "services/agent/worker.py:_is_broken_off",
        "services/agent/worker.py:_load",
        "services/agent/worker.py:_not_asked",
        "services/agent/worker.py:spent",
        "services/agent/worker.py:sweep",
        "services/approval/metrics.py:measure",
        "services/approval/quota.py:count",
        "services/dead_letters/handlers.py:measure",
        "services/executor/committing.py:_decided",
        "services/executor/committing.py:_prepare",
        "services/executor/committing.py:load",
        "services/executor/committing.py:run",
        "services/executor/metrics.py:measure",
        "services/executor/parking.py:look_for_tenants",
        "services/executor/service.py:assemble",
        "services/executor/service.py:unfinished",
        "services/executor/sweeper.py:_any_waits",
        "services/executor/sweeper.py:recover_commits",
        "services/executor/workspace_store.py:find",
        "services/executor/workspace_store.py:load",
        "services/executor/workspace_store.py:under",
        "services/gateway/conversations/log.py:read",
        "services/gateway/conversations/log.py:tail",
        "services/gateway/conversations/service.py:stop",
        "services/gateway/jobs/log.py:read",
        "services/gateway/store/__init__.py:reading",
        "services/jobs/handlers.py:sweep",
        "services/jobs/handlers.py:without_broken_off",
        "shared/runtime/consumer.py:_refuse_void",
        "shared/runtime/database.py:_why_not_ready",
        "shared/runtime/service.py:measure",
    }
)


def steps(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each function that has a step, and whether it reaches as many points; `<module>` is what is in none."""
    tree = ast.parse(source)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(each) for function in functions for each in ast.walk(function)}
    named = [(function.name, [each for part in function.body for each in ast.walk(part)]) for function in functions]
    named.append(("<module>", [each for each in ast.walk(tree) if id(each) not in inside]))
    for name, body in named:
        if number := sum(map(_is_step, body)):
            calls = [ast.unparse(each.func) for each in body if isinstance(each, ast.Call)]
            yield name, sum(each.endswith("points.reached") for each in calls) >= number


def _is_step(node: ast.AST) -> bool:
    """Tell whether a step is called there, or handed on under another name."""
    if not isinstance(node, ast.Attribute) or node.attr not in STEPS:
        return False
    on = STEPS[node.attr]
    return not on or ast.unparse(node.value).rpartition(".")[2].lstrip("_") in on


def test_every_step_has_a_point_or_a_reason() -> None:
    """A new transaction, publish or act without one fails here; so does a reason for what is gone."""
    found = {f"{path.relative_to(ROOT)}:{name}": has for path in SOURCES for name, has in steps(path.read_text())}
    assert sorted([*WITHOUT, *READING]) == sorted(name for name, has in found.items() if not has)


@pytest.mark.parametrize(
    "planted",
    [
        "async def f(database):\n    async with database.transaction() as connection:\n        pass",
        "async def f(database):\n    async with database.single() as connection:\n        pass",
        "async def f(bus):\n    await bus.publish('x')",
        "async def f(bus):\n    send = bus.publish\n    await send('x')",
        "f = lambda bus: bus.publish('x')",
        "async def f(channel, card):\n    await channel.send(card)",
        "async def f(self):\n    await self._model.ask([])",
        "async def f(tool):\n    await tool.run({})",
    ],
)
def test_a_planted_step_is_seen(planted: str) -> None:
    """A transaction, a write of one statement, a publish under whatever name, and the three acts."""
    assert [False] == [has for _, has in steps(planted)]


def test_every_point_is_reached_somewhere_and_no_other() -> None:
    """The names in the code are those of the table."""
    named = {
        node.args[0].value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "points.reached"
        if isinstance(node.args[0], ast.Constant)
    }
    assert set(POINTS) == named
