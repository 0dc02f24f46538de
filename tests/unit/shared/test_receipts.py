"""Receipts made of rows that somebody changed, without a database: what was signed or sealed says otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from placet.contracts import receipts
from placet.contracts.chain import leaf, path, seal
from placet.contracts.messages import ResolveCall
from placet.contracts.receipts import FORMAT, call_digest, data_digest, digest_of, load_keys, verify
from placet.contracts.signed import signed
from placet.contracts.signing import Purpose, create_keys, load_signer

Receipt = dict[str, Any]
SALT = "00000000-0000-4000-8000-000000000000"
SHOWN = '{"card":"•••"}'
BY_BOB: Receipt = {"rule": "r", "rulebook": "b", "reference": "a", "by": ["person:bob"]}
NOBODY = dict.fromkeys(("resolution", "resolved_by", "resolution_note", "resolved_at"))
SAID = {"data": {"did": "it"}}
AT = "2026-01-01T00:00:00+00:00"


class House:
    """Signing keys, and receipts as the gateway makes them of rows."""

    def __init__(self, folder: Path) -> None:
        create_keys(folder)
        self.folder = folder
        self.keys = load_keys((folder / "public.json").read_text())
        self.signers = {issuer: load_signer(folder, issuer) for issuer in ("gateway", "policy", "approval")}

    def permit(self, issuer: str, digest: str, **more: Any) -> str:
        """Return a permit of call `c`."""
        claims = {"jti": "p", "sub": "c", "aud": "pool", "tenant": "acme", "digest": digest, "message_id": "m"}
        return self.signers[issuer].sign(Purpose.PERMIT, {**claims, "requester": "person:eve", **more})

    def vote(self, person: str, verb: str, digest: str, first: str = "d") -> Receipt:
        """Return an accepted decision of somebody, signed."""
        claims: Receipt = {"tenant": "acme", "approval_id": "a", "decision_id": f"{first}-{person}", "person": person}
        claims |= {"verb": verb, "reason": "", "digest": digest, "revision": 1, "proof": "api_key", "key_id": "k"}
        told = {name: claims[name] for name in ("decision_id", "person", "verb", "reason", "key_id")}
        told |= {"seen": {"digest": digest, "revision": 1}, "known_by": "api_key", "key_made_by": None}
        signed = self.signers["gateway"].sign(Purpose.DECISION, claims)
        counted = verb in {"approve", "deny", "abstain", "edit"}
        return {**told, "outcome": "accepted", "counted": counted, "decided_at": AT, "signed": signed}

    def receipt(self, told: Receipt, rows: Sequence[Mapping[str, Any]]) -> Receipt:
        """Return a receipt with its rows in one sealed block, signed."""
        made = deepcopy(told)
        lines, kept = [], []
        for number, row in enumerate(rows, 1):
            said = json.dumps({"actor": row.get("actor", "policy"), "detail": row.get("detail", {})})
            sealed = {"tenant": "acme", "call_id": "c", "machine": "x", "subject_id": "s", "from_state": None, **row}
            sealed |= {"id": number, "said": sha256((SALT + said).encode()).hexdigest()}
            lines.append(json.dumps({name: each for name, each in sealed.items() if name not in {"actor", "detail"}}))
            erased = row.get("erased", False)
            kept.append({"salt": None if erased else SALT, "said": None if erased else said})
        leaves = [leaf(line) for line in lines]
        block = seal(self.signers["gateway"], "acme", None, leaves, {"approval": len(rows)}, at=datetime.now(UTC))
        places = [{"block": 1, "place": at, "path": list(path(leaves, at))} for at in range(len(lines))]
        made["history"] = [{"line": line, **each, **at} for line, each, at in zip(lines, kept, places, strict=True)]
        made |= {"checkpoints": {"1": block.token}}
        signature = self.signers["gateway"].sign(Purpose.RECEIPT, {"digest": digest_of(made)})
        return {**made, "signature": signature}

    def wrong(self, told: Receipt, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the parts of a receipt that do not hold."""
        return {each.part for each in verify(self.receipt(told, rows), self.keys) if not each.holds}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A house with keys."""
    return House(tmp_path_factory.mktemp("keys"))


def row(service: str, event: str, to_state: str, **more: Any) -> Receipt:
    """Return a row of the history."""
    return {"service": service, "event": event, "to_state": to_state, **more}


EXECUTION: Receipt = {"permit_id": "p", "pool": "pool", "state": "succeeded", "attempt": 1, "started_at": AT} | NOBODY


def taken(issuer: str, reference: str) -> Receipt:
    """Return the row of a call that an executor took."""
    ids = {"permit_id": "p", "pool": "pool", "issuer": issuer, "reference": reference}
    return row("executor", "claimed", "running", machine="execution", detail=ids)


def ran(issuer: str, reference: str) -> list[Receipt]:
    """Return the rows of a call that ran."""
    return [taken(issuer, reference), noted("executor", "succeeded", "running", "succeeded")]


def noted(service: str, event: str, left: str, to_state: str, **more: Any) -> Receipt:
    """Return a row that an execution or an approval might have."""
    return {**row(service, event, to_state, machine="execution", **more), "from_state": left}


def parts_of(arguments: str, shown: str) -> tuple[Receipt, list[Receipt]]:
    """Return what every receipt here says, and the two rows of the agent."""
    named = {"tenant": "acme", "conversation_id": "v", "tool": "pay", "schema_digest": "s"}
    digest = call_digest(named, arguments)
    proposal: Receipt = {**named, "call_id": "c", "message_id": "m", "digest": digest, "arguments": shown}
    proposal |= {"redacted": shown != arguments}
    told: Receipt = {"format": FORMAT, "made_at": AT, "proposal": proposal}
    told |= {
        "approval": None,
        "votes": [],
        "permit": None,
        "verdict": {"id": "w", "effect": "allow", "rule": "r", "rulebook_digest": "b"},
        "execution": None,
    }
    told |= {"result": {"kind": "succeeded", "data": SAID}}
    detail = {"tool": "pay", "digest": digest} | ({"shown": of(shown)} if shown != arguments else {})
    answered = {"kind": "succeeded", "result_digest": data_digest(SAID)}
    rows = [row("agent", "proposed", "open", detail=detail), row("agent", "result_came", "answered", detail=answered)]
    return told, rows


def of(text: str) -> str:
    """Return the digest of a text."""
    return sha256(text.encode()).hexdigest()


def held(house: House, arguments: str = '{"amount":1}', shown: str = "") -> tuple[Receipt, list[Receipt]]:
    """Return a call that Ada and Bob approved, and that ran; its last two rows are their votes."""
    told, rows = parts_of(arguments, shown or arguments)
    digest = told["proposal"]["digest"]
    told["verdict"]["effect"] = "require_approval"
    told["approval"] = {"id": "a", "state": "approved", "digest": digest, "schema_digest": "s", "edited": False}
    told["approval"] |= {"decided_by": "person:bob", "requester": "person:eve", "redacted": bool(shown)}
    told["approval"] |= {"arguments": shown or arguments, "rule": "r", "rulebook_digest": "b", "revision": 2}
    told["votes"] = [house.vote(f"person:{who}", "approve", digest) for who in ("ada", "bob")]
    by = ["person:ada", "person:bob"]
    told["permit"] = house.permit("approval", digest, rule="r", rulebook="b", reference="a", by=by)
    told["execution"] = {**EXECUTION}
    known = {"digest": digest, "proof": "api_key"} | ({"shown": of(shown)} if shown else {})
    rows += [
        *ran("approval", "a"),
        row("approval", "opened", "pending", detail={**known, "revision": 1, "rule": "r", "rulebook_digest": "b"}),
        {
            **row(
                "approval",
                "approve",
                "pending",
                actor="person:ada",
                detail={**known, "revision": 2, "outcome": "counted"},
            ),
            "from_state": "pending",
        },
        {
            **row("approval", "approve", "approved", actor="person:bob", detail={**known, "revision": 2}),
            "from_state": "pending",
        },
    ]
    return told, rows


def free(house: House) -> tuple[Receipt, list[Receipt]]:
    """Return a call that a rule let through."""
    told, rows = parts_of('{"amount":1}', '{"amount":1}')
    named = {"rule": "r", "rulebook": "b", "reference": "w"}
    told["permit"] = house.permit("policy", told["proposal"]["digest"], **named)
    told["execution"] = {**EXECUTION}
    return told, [*rows, *ran("policy", "w")]


def refused(_: House, effect: str = "deny") -> tuple[Receipt, list[Receipt]]:
    """Return a call that a rule denied."""
    told, rows = parts_of('{"amount":1}', '{"amount":1}')
    told["verdict"]["effect"] = effect
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "denied"
    detail = {"rule": "r", "rulebook_digest": "b"}
    return told, [*rows, row("policy", "given", effect, machine="verdict", subject_id="w", detail=detail)]


def staged(house: House) -> tuple[Receipt, list[Receipt]]:
    """Return a call that was staged, and ran with a commit that people approved."""
    told, rows = refused(house, "stage")
    digest = told["proposal"]["digest"]
    told["permit"] = house.permit("approval", digest, mode="staged_call", commit="k", reference="a")
    told["execution"] = {**EXECUTION}
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "staged"
    by = {"permit_id": "p", "issuer": "approval", "reference": "a"}
    moved = [
        noted("executor", "staged", "running", "staged"),
        noted("executor", "released", "staged", "running", detail=by),
        noted("executor", "succeeded", "running", "succeeded"),
    ]
    return told, [*rows, taken("policy", "w"), *moved]


def redacted(house: House) -> tuple[Receipt, list[Receipt]]:
    """Return a call of whose arguments people saw a part."""
    return held(house, '{"card":"4242"}', SHOWN)


def restored(house: House) -> tuple[Receipt, list[Receipt]]:
    """Return a call that was permitted when a backup was made, and that its restore left unknown."""
    told, rows = held(house)
    told["permit"], told["execution"]["state"], told["execution"]["attempt"] = None, "unknown", 2
    ids = {"fence": 1, "permit_id": "p", "pool": "pool"}
    rows[2] = row("executor", "claimed", "running", machine="execution", actor="restore", detail=ids)
    rows[3] = noted("executor", "probed", "running", "verifying", actor="restore", detail={"fence": 2})
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "unknown"
    ended = noted("executor", "gave_up", "verifying", "unknown", actor="w", detail={"fence": 2})
    return told, [*rows[:4], ended, *rows[4:]]


def refusals(house: House) -> tuple[Receipt, list[Receipt]]:
    """Return a call of which Cem, who may not decide, approved too; his is the last row."""
    told, rows = held(house)
    told["votes"].append(house.vote("person:cem", "approve", told["proposal"]["digest"]))
    told["votes"][-1] |= {"outcome": "not_allowed", "counted": False}
    detail = {**rows[-1]["detail"], "outcome": "not_allowed"}
    later = row("approval", "approve", "approved", actor="person:cem", detail=detail)
    return told, [*rows, {**later, "from_state": "approved"}]


def invalid(_: House) -> tuple[Receipt, list[Receipt]]:
    """Return what was no valid call, and was never judged."""
    told, rows = parts_of('{"amont":1}', '{"amont":1}')
    told["proposal"]["digest"], told["verdict"] = None, None
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "invalid"
    rows[0]["detail"] = {"tool": "pay", "shown": of('{"amont":1}')}
    return told, rows


Made = Callable[[House], tuple[Receipt, list[Receipt]]]


@pytest.mark.parametrize("made", [held, free, refused, staged, redacted, restored, refusals, invalid])
def test_a_receipt_of_rows_as_they_were_holds(house: House, made: Made) -> None:
    """Held, let through, denied, staged, redacted, restored: every part fits its proof."""
    assert set() == house.wrong(*made(house))


def at(told: Receipt, place: str, value: Any) -> Receipt:
    """Return what a receipt says with another value at a place."""
    *names, last = [int(name) if name.isdecimal() else name for name in place.split(".")]
    inner: Any = told
    for name in names:
        inner = inner[name]
    inner[last] = value
    return told


INVENTED = {"decision_id": "d-x", "person": "person:carol", "verb": "approve", "outcome": "accepted", "signed": None}


@pytest.mark.parametrize(
    ("made", "changes", "part"),
    [
        (held, {"approval": None, "votes": []}, "votes"),
        (held, {"votes.0.signed": None}, "votes"),
        (held, {"votes.0.signed": None, "votes.0.known_by": "session"}, "votes"),
        (held, {"votes.1": INVENTED | {"seen": {"digest": ""}, "known_by": "session"}}, "votes"),
        (held, {"approval.decided_by": None}, "votes"),
        (held, {"votes.0.outcome": "not_allowed", "permit": None}, "votes"),
        (held, {"verdict.effect": "allow"}, "verdict"),
        (held, {"approval.requester": "person:mallory"}, "permit"),
        (held, {"approval.arguments": '{"amount":9}', "approval.redacted": True}, "votes"),
        (held, {"proposal.arguments": SHOWN, "proposal.redacted": True}, "proposal"),
        (redacted, {"proposal.arguments": '{"card":"•••","to":"me"}'}, "proposal"),
        (redacted, {"approval.arguments": '{"card":"•••","to":"me"}'}, "votes"),
        (redacted, {"votes.0.signed": None}, "votes"),
        (held, {"approval.arguments": '{"amount":9}', "approval.schema_digest": None}, "votes"),
        (held, {"approval.rule": "another"}, "verdict"),
        (held, {"approval.revision": 9}, "votes"),
        (held, {"approval.edited": True}, "votes"),
        (held, {"votes.0.counted": False}, "votes"),
        (held, {"execution.resolution": "did_not_run", "execution.resolved_by": "person:mallory"}, "execution"),
        (free, {"proposal.arguments": '{"amount":9}', "proposal.schema_digest": None}, "proposal"),
        (invalid, {"proposal.arguments": '{"amount":9}'}, "proposal"),
        (free, {"permit": None, "execution.started_at": None, "verdict.rule": "another"}, "permit"),
        (held, {"permit": None, "execution.started_at": None}, "permit"),
        (free, {"verdict": None}, "verdict"),
        (free, {"verdict.effect": "require_approval"}, "verdict"),
        (refused, {"verdict": None}, "verdict"),
        (refused, {"verdict.effect": "allow"}, "verdict"),
        (staged, {"verdict.rule": "another"}, "verdict"),
        (staged, {"verdict.effect": "allow"}, "verdict"),
    ],
)
def test_what_nothing_signed_or_sealed_says_does_not_hold(
    house: House, made: Made, changes: Mapping[str, Any], part: str
) -> None:
    """A row was changed before the gateway made and signed the receipt: the part that it is in is wrong."""
    told, rows = made(house)
    for place, value in changes.items():
        at(told, place, deepcopy(value))
    assert part in house.wrong(told, rows)


def test_a_vote_that_the_history_knows_is_among_those_told(house: House) -> None:
    """Of two votes one was deleted, and the permit with it, as an erasure would: the sealed row still tells of it."""
    told, rows = held(house)
    told["votes"].pop(0)
    told["permit"] = None
    rows[2] = {**rows[2], "erased": True}
    assert {"votes"} == house.wrong(told, rows)


def test_a_refused_decision_stands_with_the_reason_that_was_sealed(house: House) -> None:
    """Who was refused, and why, can neither be left out nor told otherwise, nor be said of somebody without a row."""
    told, rows = refusals(house)
    left_out, otherwise = deepcopy(told), at(deepcopy(told), "votes.2.outcome", "stale")
    left_out["votes"].pop()
    found = [house.wrong(told, rows), house.wrong(left_out, rows), house.wrong(otherwise, rows)]
    assert [set(), {"votes"}, {"votes"}, {"votes"}] == [*found, house.wrong(told, rows[:-1])]


@pytest.mark.parametrize(
    "changes",
    [{"resolution": "ran"}, {"resolved_by": "person:mallory"}, {"resolution_note": "I never looked"}],
)
def test_who_resolved_a_call_and_what_they_said_is_as_it_was_sealed(house: House, changes: Receipt) -> None:
    """Of a call whose outcome was unknown a person said that it did not run, and wrote why."""
    told, rows = free(house)
    told["execution"] |= {"state": "resolved", "resolution": "did_not_run", "resolved_by": "person:ada"}
    told["execution"] |= {"resolution_note": "I looked"}
    detail = {"outcome": "did_not_run", "note": "I looked"}
    word = ResolveCall(tenant="acme", call_id="c", pool="pool", by="person:ada", **detail)
    word = signed(word, house.signers["gateway"], datetime.fromisoformat(AT))
    told["execution"]["resolution_signed"] = word.signature
    told["result"]["kind"] = rows[1]["detail"]["kind"] = "unknown"
    rows[-1] = noted("executor", "gave_up", "running", "unknown")
    rows.append(noted("executor", "resolved", "unknown", "resolved", actor="person:ada", detail=detail))
    good = house.wrong(told, rows)
    told["execution"] |= changes
    found = house.wrong(told, rows)
    # Nor with a row that says so too: only the gateway signs words.
    said = told["execution"]
    detail = {"outcome": said["resolution"], "note": said["resolution_note"]}
    rows[-1] = {**rows[-1], "actor": said["resolved_by"], "detail": detail}
    assert (set(), {"execution"}, {"execution"}) == (good, found, house.wrong(told, rows))


def test_a_result_whose_row_was_erased_is_of_a_kind_that_an_executor_sealed(house: House) -> None:
    """What came of it is the gateway's word then, but not whether it succeeded."""
    told, rows = held(house)
    rows[1] = {**rows[1], "erased": True}
    good = house.wrong(told, rows)
    told["result"] = {"kind": "failed", "data": None}
    assert (set(), {"result"}) == (good, house.wrong(told, rows))


def test_a_signature_is_away_where_its_row_was_erased_and_there_only(house: House) -> None:
    """Ada was erased: her vote needs no signature any more. Bob's does."""
    told, rows = held(house)
    told["permit"] = None
    rows[2], rows[-2] = {**rows[2], "erased": True}, {**rows[-2], "erased": True}
    told["votes"][0] |= {"person": "person:erased-1", "signed": None}
    one = house.wrong(told, rows)
    told["votes"][1] |= {"signed": None}
    assert (set(), {"votes"}) == (one, house.wrong(told, rows))


def edit_of(person: str, detail: Receipt) -> list[Receipt]:
    """Return the rows of an edit that policy let through."""
    told = [{**detail, "outcome": outcome} for outcome in ("asked", "counted")]
    return [{**row("approval", "edit", "pending", actor=person, detail=each), "from_state": "pending"} for each in told]


def test_an_edit_is_told_of_whoever_made_it_and_of_nobody_else(house: House) -> None:
    """One that was left out is missed; a yes does not become an edit, whose signature would be withheld."""
    told, rows = redacted(house)
    edited = [*rows[:-2], *edit_of("person:cem", rows[-1]["detail"]), *rows[-2:]]
    turned = at(at(deepcopy(told), "votes.0.verb", "edit"), "votes.0.signed", None)
    assert [{"votes"}, {"votes"}] == [house.wrong(told, edited), house.wrong(turned, rows)]


def test_who_takes_a_call_on_need_not_have_seen_it_as_it_is(house: House) -> None:
    """A claim, a release and a cancellation are about no arguments: they are sent with any digest."""
    told, rows = held(house)
    told["votes"].insert(0, house.vote("person:cem", "claim", "old"))
    claimed = row("approval", "claim", "pending", actor="person:cem", detail={"proof": "api_key", "outcome": "counted"})
    assert set() == house.wrong(told, [*rows[:-2], {**claimed, "from_state": "pending"}, *rows[-2:]])


def test_an_edit_that_was_refused_at_once_takes_no_row_of_another(house: House) -> None:
    """Cem edited what was stale, and then what was not: only the second was asked of policy."""
    told, rows = held(house)
    edit = house.vote("person:cem", "edit", told["proposal"]["digest"])
    stale = house.vote("person:cem", "edit", told["proposal"]["digest"], "e") | {"outcome": "stale", "counted": False}
    told["votes"] = [stale, edit, *told["votes"]]
    told["approval"]["edited"] = True
    detail = {**rows[-1]["detail"], "outcome": "stale"}
    refused = {**row("approval", "edit", "pending", actor="person:cem", detail=detail), "from_state": "pending"}
    edited = edit_of("person:cem", rows[-1]["detail"])
    assert set() == house.wrong(told, [*rows[:-2], refused, *edited, *rows[-2:]])


def test_who_was_refused_first_and_counted_then_has_a_row_for_each(house: House) -> None:
    """Ada approved what was stale, and then what was not: neither takes the other's row."""
    told, rows = held(house)
    told["votes"].insert(0, {**told["votes"][0], "outcome": "stale", "counted": False, "known_by": "web_session"})
    claims: Receipt = {
        "tenant": "acme",
        "approval_id": "a",
        "decision_id": "d-0",
        "person": "person:ada",
        "verb": "approve",
    }
    claims |= {"reason": "", "digest": "old", "revision": 1, "proof": "web_session", "key_id": "k"}
    signed = house.signers["gateway"].sign(Purpose.DECISION, claims)
    told["votes"][0] |= {"decision_id": "d-0", "seen": {"digest": "old", "revision": 1}, "signed": signed}
    detail = {"outcome": "stale", "digest": told["proposal"]["digest"]}
    stale = {**row("approval", "approve", "pending", actor="person:ada", detail=detail), "from_state": "pending"}
    assert [set(), set()] == [house.wrong(told, [*rows[:-2], *order, rows[-1]]) for order in orders(stale, rows[-2])]


def test_which_of_somebody_s_decisions_counted_is_sealed(house: House) -> None:
    """Ada's stale yes and her real one, swapped with what became of them, were told as if she had approved unseen."""
    told, rows = held(house)
    early = told["votes"][0] | {"outcome": "stale", "counted": False, "decision_id": "d-0", "signed": None}
    claims: Receipt = {"tenant": "acme", "approval_id": "a", "decision_id": "d-0", "person": "person:ada"}
    claims |= {"verb": "approve", "reason": "", "digest": "old", "revision": 1, "proof": "api_key", "key_id": "k"}
    early |= {"seen": {"digest": "old", "revision": 1}}
    early["signed"] = house.signers["gateway"].sign(Purpose.DECISION, claims)
    known = rows[-2]["detail"]
    told["votes"] = [early, *told["votes"], house.vote("person:cem", "edit", known["digest"])]
    told["approval"]["edited"], edited = True, edit_of("person:cem", known)
    stale = {**rows[-2], "detail": {**known, "outcome": "stale", "revision": 1, "decision_id": "d-0"}}
    counted = {**rows[-2], "detail": {**known, "decision_id": "d-person:ada"}}
    ends = ("outcome", "counted")
    swapped = deepcopy(told)
    for at, other in ((0, 1), (1, 0)):
        swapped["votes"][at] |= {name: told["votes"][other][name] for name in ends}
    found = [house.wrong(each, [*rows[:-2], *edited, stale, counted, rows[-1]]) for each in (told, swapped)]
    assert [set(), {"votes"}] == found


def orders(one: Receipt, other: Receipt) -> list[list[Receipt]]:
    """Return both orders of two rows."""
    return [[one, other], [other, one]]


@pytest.mark.parametrize("verb", ["abstain", "claim"])
def test_the_decision_that_ended_it_is_among_those_told(house: House, verb: str) -> None:
    """Bob said something else before: that his yes was deleted is seen all the same, and also of one who was erased."""
    told, rows = held(house)
    other = house.vote("person:bob", verb, told["proposal"]["digest"]) | {"decision_id": "d-person:bob"}
    detail = {**rows[-1]["detail"], "outcome": "counted"}
    said = {**row("approval", verb, "pending", actor="person:bob", detail=detail), "from_state": "pending"}
    deleted = told | {"votes": [told["votes"][0], other]}
    erased = told | {"votes": told["votes"][1:], "permit": None}
    gone = [*rows[:2], {**rows[2], "erased": True}, *rows[3:-2], {**rows[-2], "erased": True}, rows[-1]]
    found = [
        house.wrong(deleted, [*rows[:-1], said, rows[-1]]),
        house.wrong(erased, gone),
    ]
    assert [{"votes"}, {"votes"}] == found


def test_a_row_that_was_deleted_with_its_decision_is_missed(house: House) -> None:
    """Alone in its block nothing else proves it: the changes of an approval are numbered."""
    told, rows = held(house)
    told |= {"votes": told["votes"][1:], "permit": house.permit("approval", told["proposal"]["digest"], **BY_BOB)}
    added = noted("approval", "reminded", "pending", "pending", detail={"revision": 2})
    whole = [*rows[:-2], rows[-1]]
    assert [{"votes"}, {"votes"}] == [house.wrong(told, whole), house.wrong(told, [*whole, added])]


def test_a_dissent_before_the_end_of_an_edited_call_is_missed(house: House) -> None:
    """Only an edit that ends it has a number of its own; the end of what was edited before repeats the last one."""
    told, rows = held(house)
    told["votes"].append(house.vote("person:cem", "edit", told["proposal"]["digest"]))
    told["approval"] |= {"edited": True, "revision": 3}
    last = [{**each, "detail": {**each["detail"], "revision": 3}} for each in rows[-2:]]
    whole = [*rows[:-2], *edit_of("person:cem", rows[-2]["detail"]), *last]
    permit = house.permit("approval", told["proposal"]["digest"], **BY_BOB)
    found = [
        house.wrong(told, whole),
        house.wrong(told | {"votes": told["votes"][1:], "permit": permit}, [*whole[:-2], whole[-1]]),
    ]
    assert [set(), {"votes"}] == found


def test_who_ended_it_and_was_erased_pardons_no_row_of_another(house: House) -> None:
    """An end has no number of its own: with Bob erased, Ada's yes was deleted with its row, unseen."""
    told, rows = held(house)
    gone = told["votes"][1] | {"signed": None, "person": "person:erased-1"}
    ended, rows[2] = {**rows[-1], "erased": True}, {**rows[2], "erased": True}
    told |= {"votes": [told["votes"][0], gone], "permit": None}
    told["approval"] |= {"decided_by": "person:erased-1"}
    found = [house.wrong(told, [*rows[:-1], ended]), house.wrong(told | {"votes": [gone]}, [*rows[:-2], ended])]
    assert [set(), {"votes"}] == found


def test_an_erased_refusal_pardons_no_row_of_another(house: House) -> None:
    """It had no number: beside what Cem tried in vain, Ada's yes was deleted with its row, unseen."""
    told, rows = refusals(house)
    told["votes"][2] |= {"signed": None, "person": "person:erased-1"}
    told["permit"], rows[2] = None, {**rows[2], "erased": True}
    tried = {**rows[-1], "from_state": "pending", "to_state": "pending", "erased": True}
    before = [*rows[:-3], tried, *rows[-3:-1]]
    gone = [*rows[:-3], tried, rows[-2]]
    found = [house.wrong(told, before), house.wrong(told | {"votes": told["votes"][1:]}, gone)]
    assert [set(), {"votes"}] == found


def test_who_edited_keeps_their_row_where_another_was_erased(house: House) -> None:
    """Ada's edit of redacted arguments is not signed here, and its row is hers; Bob, who approved it, was erased."""
    told, rows = redacted(house)
    edit = house.vote("person:ada", "edit", told["proposal"]["digest"]) | {"signed": None}
    gone = told["votes"][1] | {"signed": None, "person": "person:erased-1"}
    told |= {"votes": [gone, edit], "permit": None}
    told["approval"] |= {"decided_by": "person:erased-1", "edited": True}
    edited, rows[2] = edit_of("person:ada", rows[-1]["detail"]), {**rows[2], "erased": True}
    assert set() == house.wrong(told, [*rows[:-2], *edited, {**rows[-1], "erased": True}])


def test_a_late_word_of_an_older_attempt_moves_nothing(house: House) -> None:
    """It is noted with the state that it met, perhaps behind the end."""
    told, rows = free(house)
    early = noted("executor", "gave_up", "running", "running", detail={"late": True, "fence": 1})
    late = noted("executor", "gave_up", "succeeded", "succeeded", detail={"late": True, "fence": 1})
    assert set() == house.wrong(told, [*rows, early, late, {**late, "erased": True}])


@pytest.mark.parametrize(
    ("made", "changes", "forged", "part"),
    [
        (free, {"permit": None}, ("executor", "gave_up", "succeeded", "succeeded", {"late": True}), "permit"),
        (free, {"permit": None}, ("executor", "released", "staged", "running", {}), "execution"),
        (free, {"execution.state": "failed"}, ("executor", "failed", "succeeded", "failed", {}), "execution"),
        (
            held,
            {"approval.arguments": "[]"},
            ("approval", "noted", "approved", "approved", {"shown": of("[]")}),
            "votes",
        ),
        (held, {"approval.arguments": "[]"}, ("approval", "noted", "pending", "pending", {"shown": of("[]")}), "votes"),
    ],
)
def test_a_row_that_was_added_later_explains_nothing(
    house: House, made: Made, changes: Receipt, forged: tuple[str, str, str, str, Receipt], part: str
) -> None:
    """Whoever has the database can add rows, which are sealed then, and none before those that are sealed."""
    told, rows = made(house)
    for place, value in changes.items():
        at(told, place, value)
    service, event, left, to_state, detail = forged
    detail = {"digest": told["proposal"]["digest"], **detail}
    assert part in house.wrong(told, [*rows, noted(service, event, left, to_state, actor="restore", detail=detail)])


def test_what_is_shown_of_a_call_is_one_thing(house: House) -> None:
    """A row that was added while the call waited says that something else was shown of what is whole."""
    told, rows = held(house)
    told["approval"]["arguments"] = "[]"
    detail = {"digest": told["proposal"]["digest"], "shown": of("[]"), "revision": 2}
    added = noted("approval", "noted", "pending", "pending", detail=detail)
    assert {"votes"} == house.wrong(told, [*rows[:-1], added, rows[-1]])


def test_the_signature_of_an_edit_is_away_where_something_is_redacted(house: House) -> None:
    """What an editor signed has the arguments as they were typed: withheld of redacted ones, and of no others."""
    found = []
    for made in (redacted, held):
        told, rows = made(house)
        digest = told["proposal"]["digest"]
        told["votes"].insert(0, house.vote("person:cem", "edit", digest) | {"signed": None})
        told["approval"]["edited"] = True
        found.append(house.wrong(told, [*rows[:-2], *edit_of("person:cem", rows[-1]["detail"]), *rows[-2:]]))
    assert [set(), {"votes"}] == found


ALONE, COMMAND = (receipts.__file__,), ("-m", "placet.cli.main", "receipt", "verify")


@pytest.mark.parametrize(
    ("program", "shown_in", "code", "said"),
    [
        (ALONE, "ascii", 0, "in pool ?ube"),
        (COMMAND, "utf-8", 0, "in pool şube"),
        (COMMAND, "ascii", 2, "placet: cannot print in the encoding ascii: set PYTHONIOENCODING=utf-8\n"),
    ],
    ids=["alone", "command", "no screen for it"],
)
def test_a_receipt_verifies_whatever_the_locale(
    house: House, tmp_path: Path, program: tuple[str, ...], shown_in: str, code: int, said: str
) -> None:
    """JSON is UTF-8, whatever the machine has other texts in; and what it cannot show is no change of the receipt."""
    told, rows = free(house)
    named = {"rule": "r", "rulebook": "b", "reference": "w", "aud": "şube"}
    told["permit"] = house.permit("policy", told["proposal"]["digest"], **named)
    told["execution"]["pool"] = rows[2]["detail"]["pool"] = "şube"
    (file := tmp_path / "receipt.json").write_text(json.dumps(house.receipt(told, rows), ensure_ascii=False), "utf-8")
    command = [sys.executable, *program, str(file), "--keys", str(house.folder / "public.json")]
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": shown_in}
    done = subprocess.run(command, env=os.environ | locale, capture_output=True, encoding="utf-8", check=False)
    assert (code, True) == (done.returncode, said in done.stdout + done.stderr)
