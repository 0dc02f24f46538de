"""Every transaction, publish and act of the services passes through a named kill point, or says why it need not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from placet.runtime.points import POINTS

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("services", "shared") for path in sorted((ROOT / folder).rglob("*.py"))]
#: What is done there can be lost or come twice: methods' names, whatever they are called on, or on what alone.
STEPS = {"transaction": "", "publish": "", "basic_publish": "", "dead_letter": "", "retry": "bus", "run": "tool"}
#: Functions with more such steps than points, and why a crash there loses and doubles nothing.
WITHOUT = {
    "services/agent/pseudonymizing.py:_kept": "what is called how; the same again is the same name",
    "services/approval/worker.py:index_words": "words to search by; what is not indexed is due again",
    "services/cli/audit.py:_blocks": "a command that only reads",
    "services/cli/audit.py:_verify_database": "likewise",
    "services/cli/invariants.py:_violations": "likewise",
    "services/executor/scopes.py:held": "holds locks and writes nothing; its journal has points of its own",
    "services/executor/slot_gate.py:_enter_alone": "a permit goes back to its queue before it is acknowledged here",
    "services/executor/worker.py:_renew": "a lease; one that is not renewed runs out",
    "services/gateway/receipts/receipt.py:make_receipt": "reads one moment and writes nothing",
    "services/gateway/slack/door.py:_only_once": "a click that dies here shows nothing, and is made again",
    "services/gateway/slack/door.py:forget_old": "deletes what nobody needs; the rest is due again",
    "services/policy/purging.py:purge_old": "deletes what nobody needs; the rest is due again",
    "shared/runtime/consumer.py:_bury": "published again until it is confirmed; then the delivery is acknowledged",
    "shared/runtime/consumer.py:_later": "likewise",
    "shared/runtime/consumer.py:_until_published": "what calls it; the points are there",
    "shared/runtime/database.py:_begin": "likewise",
    "shared/runtime/outbox.py:_bury": "likewise; the row stays until then",
    "shared/runtime/rabbit.py:_send": "the broker's side of a publish; the points are around it",
    "shared/runtime/rabbit.py:publish": "likewise",
}


def steps() -> Iterator[tuple[str, bool]]:
    """Yield each function that has a step, and whether it reaches as many points."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = [each for statement in node.body for each in ast.walk(statement)]
            calls = [ast.unparse(each.func) for each in body if isinstance(each, ast.Call)]
            if number := sum(map(_is_step, calls)):
                name = f"{path.relative_to(ROOT)}:{node.name}"
                yield name, sum(each.endswith("points.reached") for each in calls) >= number


def _is_step(call: str) -> bool:
    on, _, name = call.rpartition(".")
    wanted = STEPS.get(name)
    return wanted is not None and wanted in {"", on.rpartition(".")[2].lstrip("_")}


def test_every_step_has_a_point_or_a_reason() -> None:
    """A new transaction, publish or act without one fails here; so does a reason for what is gone."""
    found = dict(steps())
    assert sorted(WITHOUT) == sorted(name for name, has in found.items() if not has)


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
