"""Receipts of rows that a database administrator inserted or deleted before they were sealed: explained by nothing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from placet.contracts.receipts import call_digest
from tests.unit.shared.test_receipts import (
    EXECUTION,
    House,
    Receipt,
    edit_of,
    free,
    held,
    house,
    noted,
    of,
    redacted,
    refused,
    staged,
    taken,
)

__all__ = ["house"]
Rows = list[Receipt]
Told = tuple[Receipt, Rows]


def waiting(house: House) -> Told:
    """Return a call that was staged, and of which people have decided nothing."""
    told, rows = refused(house, "stage")
    named = {"rule": "r", "rulebook": "b", "reference": "w"}
    told["permit"] = house.permit("policy", told["proposal"]["digest"], mode="stage", **named)
    told["execution"] = {**EXECUTION, "state": "staged"}
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "staged"
    return told, [*rows, taken("policy", "w"), noted("executor", "staged", "running", "staged")]


def denied(house: House, verb: str = "deny", state: str = "denied", event: str = "deny") -> Told:
    """Return a call that Ada approved and that Bob ended; nothing ran. The last two rows are theirs."""
    told, rows = held(house)
    told |= {"permit": None, "execution": None}
    told["votes"][1] = house.vote("person:bob", verb, told["proposal"]["digest"])
    told["approval"] |= {"state": state, "decided_by": "person:bob" if state == "denied" else None}
    told["result"]["kind"] = rows[1]["detail"]["kind"] = state
    said = {**rows[-1]["detail"], "decision_id": "d-person:bob"}
    return told, [*rows[:2], *rows[4:-1], {**rows[-1], "event": event, "to_state": state, "detail": said}]


def cancelled(house: House) -> Told:
    """Return a call that Bob cancelled."""
    return denied(house, "cancel", "withdrawn", "withdraw")


def tried(house: House) -> Told:
    """Return a call that Bob denied when Cem, who may not decide, had approved it."""
    told, rows = denied(house)
    told["votes"].append(house.vote("person:cem", "approve", told["proposal"]["digest"]))
    told["votes"][2] |= {"outcome": "not_allowed", "counted": False}
    said = {**rows[-1]["detail"], "outcome": "not_allowed", "decision_id": "d-person:cem"}
    one = noted("approval", "approve", "pending", "pending", actor="person:cem", detail=said)
    return told, [*rows[:-1], one, rows[-1]]


def erased_denial(house: House) -> Told:
    """Return a call that Bob alone denied, who was erased since."""
    told, rows = denied(house)
    told["votes"] = [told["votes"][1] | {"signed": None, "person": "person:erased-1"}]
    told["approval"] |= {"decided_by": "person:erased-1", "revision": 1}
    return told, [*rows[:-2], {**rows[-1], "erased": True}]


def edited(house: House) -> Told:
    """Return a call that Cem edited before two approved it."""
    told, rows = held(house)
    told["votes"].insert(0, house.vote("person:cem", "edit", told["proposal"]["digest"]))
    told["approval"]["edited"] = True
    return told, [*rows[:-2], *edit_of("person:cem", rows[-1]["detail"]), *rows[-2:]]


def kept(house: House) -> Told:
    """Return a call that was not withdrawn although somebody, who was erased since, asked for that."""
    told, rows = denied(house)
    asked = noted("approval", "withdraw", "pending", "pending", actor="person:eve", detail={"outcome": "kept"})
    return told, [*rows[:-1], {**asked, "erased": True}, rows[-1]]


def restoring(event: str, left: Any, to_state: Any) -> Receipt:
    """Return a row as a restore writes it, of any change."""
    ids = {"permit_id": "p", "pool": "pool"}
    return noted("executor", event, left, to_state, actor="restore", detail=ids)


def away(told: Receipt, **verdict: str) -> Receipt:
    """Return what is told without its permit, and with another verdict."""
    return {**told, "permit": None, "verdict": {**told["verdict"], **verdict}}


def told_as_run(told: Receipt, rows: Rows) -> Told:
    """Tell a staged call as having run."""
    by = {"permit_id": "p", "issuer": "policy", "reference": "w"}
    released = noted("executor", "released", "staged", "running", detail=by)
    ended = noted("executor", "succeeded", "running", "succeeded")
    return {**told, "execution": {**told["execution"], "state": "succeeded"}}, [*rows, released, ended]


def other_arguments(told: Receipt, rows: Rows) -> Told:
    """Tell other arguments of what somebody decided whose row says nothing any more."""
    digest = call_digest(told["proposal"], '{"amount":9}')
    told["approval"] |= {"arguments": '{"amount":9}', "digest": digest}
    told["votes"][0]["seen"]["digest"] = digest
    return told, rows


def no_digest(told: Receipt, rows: Rows) -> Told:
    """Tell any arguments, of which there is no digest."""
    told["approval"] |= {"arguments": "anything", "digest": None}
    told["votes"][0]["seen"]["digest"] = None
    return told, rows


def unsigned_edit(told: Receipt, rows: Rows) -> Told:
    """Take the signature of an edit away, as if something of it were redacted."""
    told["votes"][0] |= {"signed": None, "reason": "forged"}
    return told, [*rows, noted("approval", "noted", "approved", "approved", detail={"shown": "x"})]


def twice(told: Receipt, rows: Rows) -> Told:
    """Tell a refused yes once more, as one that counted, with a row behind the end."""
    told["votes"].append(told["votes"][2] | {"outcome": "accepted", "counted": True})
    detail = {"outcome": "counted", "proof": "api_key", "decision_id": "d-person:cem"}
    return told, [*rows, noted("approval", "approve", "denied", "denied", actor="person:cem", detail=detail)]


def erased_row(service: str, event: str, state: str, machine: str) -> Receipt:
    """Return a row that changed nothing and that was erased with somebody."""
    return {**noted(service, event, state, state, actor="person:ann"), "machine": machine, "erased": True}


Forge = Callable[[Receipt, Rows], Told]
STEPPED = noted("approval", "reminded", "pending", "pending", actor="approval", detail={"revision": 2})
FORGED: dict[str, tuple[Callable[[House], Told], Forge, str]] = {
    "a release behind the end": (
        free,
        lambda told, rows: (away(told, rule="x"), [*rows, restoring("released", "succeeded", "succeeded")]),
        "permit",
    ),
    "a claim of a restore before the genuine one": (
        held,
        lambda told, rows: (away(told), [*rows[:2], restoring("claimed", None, None), *rows[2:]]),
        "permit",
    ),
    "a release of a restore before the genuine one": (
        staged,
        lambda told, rows: (away(told), [*rows[:5], restoring("released", "staged", "staged"), *rows[5:]]),
        "permit",
    ),
    "a staged call that ran": (waiting, told_as_run, "permit"),
    "a use of a grant of somebody who was erased": (
        free,
        lambda told, rows: (away(told, rule="x"), [*rows, erased_row("policy", "use", "active", "grant")]),
        "permit",
    ),
    "a second word of somebody who was erased": (
        free,
        lambda told, rows: (
            away(told, rule="x"),
            [*rows, erased_row("executor", "resolved", "succeeded", "execution")],
        ),
        "permit",
    ),
    "no execution": (
        free,
        lambda told, rows: (away(told, rule="x") | {"execution": None}, rows[:2]),
        "result",
    ),
    "a vote that a refused one follows": (
        tried,
        lambda told, rows: (told | {"votes": told["votes"][1:]}, [*rows[:-3], *rows[-2:]]),
        "votes",
    ),
    "a vote in whose place something steps": (
        denied,
        lambda told, rows: (told | {"votes": told["votes"][1:]}, [*rows[:-2], STEPPED, rows[-1]]),
        "votes",
    ),
    "a vote that a withdrawal in vain follows": (
        kept,
        lambda told, rows: (told | {"votes": told["votes"][1:]}, [*rows[:-3], *rows[-2:]]),
        "votes",
    ),
    "a cancellation": (cancelled, lambda told, rows: (told | {"votes": told["votes"][:1]}, rows), "votes"),
    "other arguments under an erased end": (erased_denial, other_arguments, "votes"),
    "no digest under an erased end": (erased_denial, no_digest, "votes"),
    "an edit that is not signed": (edited, unsigned_edit, "votes"),
    "a refused yes that counts": (tried, twice, "votes"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_rows_were_inserted_or_deleted_for_does_not_hold(house: House, name: str) -> None:
    """The receipt of the rows as they were holds; that of the same ones after somebody was at them does not."""
    made, forge, part = FORGED[name]
    told, rows = made(house)
    forged = house.wrong(*forge(deepcopy(told), deepcopy(rows)))
    assert (set(), True) == (house.wrong(told, rows), part in forged)


def test_the_permit_of_staging_is_not_the_one_of_the_commit(house: House) -> None:
    """With it in the commit's place nobody would have been asked."""
    told, rows = staged(house)
    told["permit"] = waiting(house)[0]["permit"]
    assert {"permit"} == house.wrong(told, rows)


def test_arguments_that_were_edited_back_are_shown_as_they_are_now(house: House) -> None:
    """The tool redacts something else meanwhile: of the same arguments two things were shown, one after the other."""
    told, rows = redacted(house)
    digest, now = told["proposal"]["digest"], '{"card":"•••","x":1}'
    told["votes"] = [
        house.vote("person:ada", "edit", digest, "d") | {"signed": None},
        house.vote("person:ada", "edit", "other", "e") | {"signed": None},
        house.vote("person:bob", "approve", digest),
    ]
    told["approval"] |= {"edited": True, "revision": 3, "arguments": now}
    told["permit"] = house.permit(
        "approval", digest, rule="r", rulebook="b", reference="a", by=["person:ada", "person:bob"]
    )
    known = {"digest": "other", "shown": of("z"), "proof": "api_key", "revision": 2, "decision_id": "d-person:ada"}
    there = edit_of("person:ada", known)
    there[0]["detail"] |= {"digest": digest, "shown": rows[4]["detail"]["shown"], "revision": 1}
    again = {**known, "digest": digest, "shown": of(now), "revision": 3, "decision_id": "e-person:ada"}
    back = edit_of("person:ada", again)
    back[0]["detail"] |= {"digest": "other", "shown": of("z"), "revision": 2}
    ended = {**rows[-1], "detail": {**rows[-1]["detail"], "shown": of(now), "revision": 3}}
    assert set() == house.wrong(told, [*rows[:-2], *there, *back, ended])
