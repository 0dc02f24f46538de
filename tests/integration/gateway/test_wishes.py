"""Every other decision over HTTP: what is signed of it, what its answers become, and many at once."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert


def a_waiting(house: House, **arguments: Any) -> dict[str, Any]:
    """Put an approval that waits into the read view and return its row."""
    row = an_approval_row(a_call(arguments=arguments)) if arguments else an_approval_row()
    insert(house.url, "approvals", **row)
    return row


@pytest.mark.parametrize(
    ("body", "signed"),
    [
        ({"decision": "edit", "arguments": {"b": 1.0, "a": "x"}}, {"arguments": '{"a":"x","b":1}'}),
        ({"decision": "respond", "response": "no"}, {"response": "no", "response_kind": "instruction"}),
        ({"decision": "delegate", "to": "person:bob"}, {"to": "person:bob"}),
        ({"decision": "claim", "seconds": 60}, {"seconds": 60}),
        ({"decision": "claim", "seconds": 600}, {"seconds": 600}),
    ],
)
async def test_a_decision_is_signed_with_what_it_carries(
    house: House, body: dict[str, Any], signed: dict[str, Any]
) -> None:
    """Arguments are signed as their canonical text: the very bytes that would run."""
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json={"digest": row["digest"], **body})
    (claims,) = house.approvers.claims
    assert {"verb": body["decision"]} | signed == {name: getattr(claims, name) for name in ("verb", *signed)}


async def test_arguments_that_no_call_may_have_are_refused_at_the_door(house: House) -> None:
    """Nothing is signed; what has the largest size that there is, is sent."""
    row, sizes = a_waiting(house), (ARGUMENTS_BYTES_MAX, ARGUMENTS_BYTES_MAX + 1, 3 * ARGUMENTS_BYTES_MAX)
    bodies = [{"decision": "edit", "digest": row["digest"], "arguments": {"a": "x" * (size - 8)}} for size in sizes]
    async with house.client(house.key("decide")) as client:
        path = f"/v1/approvals/{row['approval_id']}/decisions"
        answers = [await client.post(path, json=body) for body in bodies]
    assert [200, 413, 413] == [answer.status_code for answer in answers]
    assert "urn:placet:problem:too-large" == answers[1].json()["type"]
    assert [ARGUMENTS_BYTES_MAX] == [len(claims.arguments) for claims in house.approvers.claims]


@pytest.mark.parametrize(
    ("outcome", "status", "kind"),
    [
        ("too_weak", 403, "identity-too-weak"),
        ("invalid", 400, "invalid-decision"),
        ("not_allowed", 403, "not-an-approver"),
    ],
)
async def test_a_decision_that_does_not_count_says_why(house: House, outcome: str, status: int, kind: str) -> None:
    """Each outcome is a problem of its own."""
    house.approvers.outcome = outcome
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        body = {"decision": "approve", "digest": row["digest"]}
        answer = await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=body)
    assert (status, f"urn:placet:problem:{kind}") == (answer.status_code, answer.json()["type"])


async def test_a_stranger_is_told_in_a_sentence_and_nothing_of_the_approval(house: House) -> None:
    """Not even an empty state."""
    house.approvers.outcome = "not_allowed"
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        body = {"decision": "approve", "digest": row["digest"]}
        told = (await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=body)).json()
    assert {"type", "title", "status", "detail"} == told.keys()
    assert "You are not among this approval's approvers." == told["detail"]


async def test_an_approval_that_a_batch_has_twice_is_decided_by_the_first(house: House) -> None:
    """Not by whichever is quicker: the second is told that it was given twice."""
    row = a_waiting(house)
    items = [
        {"id": row["approval_id"], "decision": verb, "digest": row["digest"]} for verb in ("deny", "approve", "deny")
    ]
    async with house.client(house.key("decide")) as client:
        german = {"accept-language": "de"}
        told = (await client.post("/v1/approvals/decisions", json={"items": items}, headers=german)).json()["items"]
    assert ["Diese Freigabe ist doppelt angegeben."] * 2 == [each["problem"]["title"] for each in told[1:]]
    twice = "urn:placet:problem:given-twice"
    assert [(200, None), (409, twice), (409, twice)] == [
        (each["status"], each["problem"] and each["problem"]["type"]) for each in told
    ]
    assert ["deny"] == [claims.verb for claims in house.approvers.claims]


async def test_what_is_to_be_looked_at_twice_is_in_no_batch(house: House) -> None:
    """A trick in the arguments takes a request of its own, whoever sends the batch."""
    plain, odd = a_waiting(house), a_waiting(house, to="a\u202eb")
    items = [{"id": row["approval_id"], "decision": "approve", "digest": row["digest"]} for row in (plain, odd)]
    async with house.client(house.key("decide")) as client:
        told = (await client.post("/v1/approvals/decisions", json={"items": items})).json()["items"]
    assert [(200, None), (409, "urn:placet:problem:approve-alone")] == [
        (each["status"], each["problem"] and each["problem"]["type"]) for each in told
    ]


async def test_a_commit_is_in_no_batch(house: House) -> None:
    """A plan of several entries takes a request of its own, as it does on the page."""
    row = an_approval_row(a_call(tool="commit_changes"))
    insert(house.url, "approvals", **row)
    item = {"id": row["approval_id"], "decision": "approve", "digest": row["digest"]}
    async with house.client(house.key("decide")) as client:
        (told,) = (await client.post("/v1/approvals/decisions", json={"items": [item]})).json()["items"]
    assert ("urn:placet:problem:approve-alone", "This is approved by itself: it is a plan of several entries.") == (
        told["problem"]["type"],
        told["problem"]["title"],
    )


async def test_a_batch_answers_each_decision_in_its_order(house: House) -> None:
    """Unknown, stale and good ones side by side."""
    first, second = a_waiting(house), a_waiting(house)
    items = [
        {"id": "unknown", "decision": "approve", "digest": first["digest"]},
        {"id": first["approval_id"], "decision": "approve", "digest": "f" * 64},
        {"id": second["approval_id"], "decision": "deny", "digest": second["digest"], "reason": "no"},
    ]
    async with house.client(house.key("decide")) as client:
        answer = await client.post("/v1/approvals/decisions", json={"items": items})
        too_many = await client.post("/v1/approvals/decisions", json={"items": items * 67})
    told = answer.json()["items"]
    assert [("unknown", 404), (first["approval_id"], 409), (second["approval_id"], 200)] == [
        (each["id"], each["status"]) for each in told
    ]
    assert ("denied", 400) == (told[2]["approval"]["state"], too_many.status_code)


async def test_a_batch_needs_the_right_to_decide(house: House) -> None:
    """A key for chatting alone decides nothing."""
    row = a_waiting(house)
    items = [{"id": row["approval_id"], "decision": "approve", "digest": row["digest"]}]
    async with house.client(house.key("chat")) as client:
        answer = await client.post("/v1/approvals/decisions", json={"items": items})
    assert 403 == answer.status_code


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"category": "unsafe_exec"}, "it runs code"),
        ({"approval_rule": {"approvers": ["operators"], "approvals": 2}}, "its rule asks several people"),
        ({"approval_rule": {"approvers": ["operators"], "min_strength": "web"}}, "its rule needs a stronger sign-in"),
    ],
)
async def test_a_batch_approves_nothing_risky(house: House, changes: dict[str, Any], why: str) -> None:
    """What is risky is approved by itself; it may be denied among others."""
    row = an_approval_row(**changes)
    insert(house.url, "approvals", **row)
    items = [{"id": row["approval_id"], "decision": verb, "digest": row["digest"]} for verb in ("approve", "deny")]
    async with house.client(house.key("decide")) as client:
        answers = [await client.post("/v1/approvals/decisions", json={"items": [each]}) for each in items]
    (refused,), (denied,) = (answer.json()["items"] for answer in answers)
    assert (409, f"This is approved by itself: {why}.") == (refused["status"], refused["problem"]["title"])
    assert denied["status"] in {200, 202}
