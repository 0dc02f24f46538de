"""What a caller changes for longer asks in its transaction whether their key or token is good still.

A revoked key is remembered for a second by the other replicas. All transactions for callers have one door, so that no
new route forgets to ask.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

GATEWAY = Path(__file__).parents[2] / "services/gateway"
#: The door, and what else begins a transaction, and why it need not ask.
WITHOUT = {
    "conversations/access.py:writing": "the door",
    "approvals/consents.py:_show": "says what became of a decision",
    "approvals/consents.py:take": "a decision: signed with its key's id, and approval looks that up when it decides",
    "approvals/decisions.py:_send_all": "the same",
    "audit/sealing.py:seal": "a timer's",
    "conversations/service.py:_post_all": "a message: its statement compares the token, and what it asks for is judged",
    "conversations/service.py:open_conversation": "asks by itself",
    "identity/sessions.py:begin": "locks the key that was shown",
    "identity/sessions.py:end": "a browser's own session",
    "receipts/receipt.py:make_receipt": "only reads",
    "slack/door.py:_only_once": "notes that an interaction came",
    "slack/door.py:forget_old": "a timer's",
}
_BEGINS = {"begin": "units", "once": "units", "transaction": "database"}


def begins(tree: ast.AST) -> Iterator[str]:
    """Yield the functions that begin a transaction, or its only statement, by themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_begins, ast.walk(node))):
            yield node.name


def _begins(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    place = ast.unparse(node.func.value).rpartition(".")[2].removeprefix("_")
    return _BEGINS.get(node.func.attr) == place


def test_what_callers_change_goes_through_one_door() -> None:
    """Whoever begins a transaction of a route without `writing` says here why a revoked key does no harm."""
    found = {
        f"{path.relative_to(GATEWAY)}:{name}"
        for path in sorted(GATEWAY.rglob("*.py"))
        for name in begins(ast.parse(path.read_text()))
    }
    assert set(WITHOUT) == found


def test_a_transaction_beside_the_door_is_found() -> None:
    """However the units or the database are reached."""
    texts = ("self._units.begin()", "deps.runtime.units.once()", "units.database.transaction()", "sessions.begin(x)")
    found = [[*begins(ast.parse(f"async def f():\n async with {text} as work: pass"))] for text in texts]
    assert [["f"], ["f"], ["f"], []] == found
