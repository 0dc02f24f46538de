"""Receipts of what people approved in a job: a call of an attempt, its commit, what that let go, the job itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.contracts.receipts import verify
from placet.contracts.signing import payload_of
from tests.e2e.test_a_job_as_a_tool import RULES, written
from tests.e2e.test_embedded import Embedded
from tests.e2e.test_job_commits import line
from tests.e2e.test_receipts import PARTS, changed, changed_row, leaves, public, receipt_of, verified
from tests.support.jobs import begin, ended
from tests.support.people import Caller, a_visitor, is_result
from tests.support.ports import free_port
from tests.support.system import until
from tests.support.workspaces import FILE_TOOLS

#: Has something approved; returns the id of the call whose receipt is looked at.
Way = Callable[[Caller], Awaitable[str]]

pytestmark = pytest.mark.timeout(240)

HELD = {
    "name": "held-files",
    "match": {"tool": "write_file"},
    "when": 'arguments.path.startsWith("held")',
    "effect": "require_approval",
    "reason": "Somebody reads these.",
    "approval": {"approvers": ["operators"]},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet whose agents write files and have jobs done."""
    folder = tmp_path_factory.mktemp("job-receipts")
    environment = written(folder)
    rules = folder / "rulebook.yaml"
    rules.write_text(yaml.safe_dump({"version": 1, "tools": FILE_TOOLS, "rules": [*RULES, HELD]}))
    made = Embedded(folder / "data", free_port(), environment, ("--rulebook", str(rules)))
    made.data.mkdir()
    made.start()
    yield made
    assert 0 == made.stop()


async def approved(admin: Caller) -> dict[str, Any]:
    """Approve what people are asked, once they are; return it."""
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        found[:] = (await admin.get("/v1/approvals?state=pending"))["items"]
        return bool(found)

    await until(is_there, "people are asked")
    (asked,) = found
    body = {"decision": "approve", "digest": asked["digest"], "revision": asked["revision"]}
    await admin.post(f"/v1/approvals/{asked['id']}/decisions", body)
    return asked


async def in_an_attempt(admin: Caller) -> str:
    """Have a call of an attempt approved; return its id."""
    job_id = await begin(admin, task="Write a file.", tasks=[line("one", "held.txt")], k=1)
    asked = await approved(admin)
    assert ("write_file", "done") == (asked["tool"], (await ended(admin, job_id))["state"])
    return str(asked["call"]["id"])


async def committed(admin: Caller, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have a job's changes approved; return the approval, and the job."""
    job_id = await begin(admin, task="Write a file.", tasks=[line("one", path)], k=1)
    asked = await approved(admin)
    job = await ended(admin, job_id)
    assert ("commit_changes", "committed") == (asked["tool"], job["changes"])
    return asked, job


async def its_commit(admin: Caller) -> str:
    """Have a job's changes approved; return the id of the call that commits them."""
    asked, _ = await committed(admin, "commit.txt")
    return str(asked["call"]["id"])


async def what_it_let_go(admin: Caller) -> str:
    """Have a job's changes approved; return the id of the call of an attempt that was staged until then."""
    _, job = await committed(admin, "staged.txt")
    (attempt,) = job["tasks"][0]["attempts"]
    log = (await admin.get(f"/v1/jobs/{job['id']}/attempts/{attempt['id']}/log"))["items"]
    return next(str(each["data"]["call_id"]) for each in log if each["data"].get("tool") == "write_file")


async def the_job_itself(admin: Caller) -> str:
    """Have a job approved that an agent has done; return the id of the call that asked for it."""
    visitor = await a_visitor(admin)
    await visitor.say("Have it done: ask first, then go deeper")
    await approved(admin)
    return str((await visitor.see(is_result("accomplish")))["data"]["call_id"])


@pytest.mark.parametrize(
    ("way", "votes", "issuer", "execution", "result"),
    [
        (in_an_attempt, 1, "approval", "succeeded", "succeeded"),
        (its_commit, 1, "approval", "succeeded", "succeeded"),
        (what_it_let_go, 0, "policy", "staged", "staged"),
        # A job has no executor, so nobody needs a permit.
        (the_job_itself, 1, None, None, "succeeded"),
    ],
)
async def test_a_call_of_a_job_has_a_receipt_that_verifies_alone(
    house: Embedded, tmp_path: Path, way: Way, votes: int, issuer: str | None, execution: str | None, result: str
) -> None:
    """Each part of it is there and holds, each change of a field is found, and so is who is said to have voted."""
    admin, keys = house.caller(), public(house)
    call_id = await way(admin)
    receipt = await receipt_of(admin, call_id)
    assert (0, PARTS) == verified(receipt, house.data / "keys", tmp_path)
    let = receipt["permit"] and json.loads(payload_of(receipt["permit"]))["iss"]
    ran = receipt["execution"] and receipt["execution"]["state"]
    assert (votes, issuer, execution, result) == (len(receipt["votes"]), let, ran, receipt["result"]["kind"])
    paths = list(leaves(receipt))
    assert [] == [path for path in paths if all(each.holds for each in verify(changed(receipt, path), keys))]
    assert 1 == verified(changed(receipt, ("proposal", "arguments")), house.data / "keys", tmp_path)[0]
    tampered = [("policy.verdicts", "rule", {"call_id": call_id}, "verdict")]
    if votes:
        tampered.append(("approval.decisions", "person", {"approval_id": receipt["approval"]["id"]}, "votes"))
    for table, column, where, part in tampered:
        with changed_row(house, table, column, "person:eve", where):
            told = verify(await receipt_of(admin, call_id), keys)
        assert part in {each.part for each in told if not each.holds}
