"""People said yes, and the rulebook has changed since the call was held: policy is asked once more."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import (
    ApprovalOpened,
    CallApproved,
    DecideApproval,
    Demand,
    EditProposed,
    Message,
    Panel,
    ToolCallPermitted,
)
from placet.contracts.permit import Permit, verify_permit
from placet.contracts.signing import Signer, Verifier
from placet.domain.directory import Directory, Person
from tests.builders import an_approval_rule
from tests.integration.approval.test_handlers import opened_by
from tests.support.approval_builders import RULEBOOK_DIGEST, Register, a_decision, an_edit_judged, some_claims
from tests.support.approval_keys import add_keys, judge_by
from tests.support.house import Replica

PAIR = {"approvers": ["person:ada", "person:bob"], "approvals": 2}


async def approved(
    replica: Replica, gateway: Signer, *people: str, roles: dict[str, list[str]] | None = None, **rule: Any
) -> list[Message]:
    """Have a call held and approved by people, each with a key of their own; return what the last yes sends."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, *(f"key-{name}" for name in people))
    people_digest = rule.pop("directory_digest", "")
    card = await opened_by(replica, approval=an_approval_rule(**(PAIR | rule)), directory_digest=people_digest)
    sent: list[Message] = []
    for name in people:
        proof = {
            "person": f"person:{name}",
            "roles": (roles or {}).get(name, []),
            "proof": "api_key",
            "key_id": f"key-{name}",
        }
        sent = await replica.send(a_decision(gateway, some_claims(card, **proof)))
    return sent


def ends(sent: list[Message]) -> list[type[Message]]:
    """Return the types of messages that let a call run, or may."""
    return [type(message) for message in sent if isinstance(message, ToolCallPermitted | CallApproved)]


async def test_the_same_rulebook_needs_no_second_judgement(replica: Replica, gateway: Signer) -> None:
    """Neither where policy judges by it still, nor where nobody knows what it judges by."""
    unknown = await approved(replica, gateway, "ada", "bob")
    (row,) = await replica.rows("SELECT DISTINCT rulebook_digest FROM approval.approvals")
    await judge_by(replica, row["rulebook_digest"])
    same = await approved(replica, gateway, "ada", "bob")
    assert ([ToolCallPermitted], [ToolCallPermitted]) == (ends(unknown), ends(same))


@pytest.mark.parametrize(("again", "expected"), [(True, CallApproved), (False, ToolCallPermitted)])
async def test_another_rulebook_is_asked_unless_the_rule_says_otherwise(
    replica: Replica, gateway: Signer, verifier: Verifier, *, again: bool, expected: type[Message]
) -> None:
    """The permit goes to policy, which hands it on; no executor has it before."""
    await judge_by(replica, "f" * 64)
    sent = await approved(replica, gateway, "ada", "bob", judged_again=again)
    (end,) = [message for message in sent if isinstance(message, ToolCallPermitted | CallApproved)]
    assert expected is type(end)
    assert "approval" == verify_permit(verifier, end.permit, end.call, pool=end.pool).iss


async def test_other_people_are_asked_about_as_other_rules_are(replica: Replica, gateway: Signer) -> None:
    """A rule may deny whoever left a group: policy judges anew where the directory changed since, and only there."""
    found: list[type[Message]] = []
    others = "c" * 64
    for held_with, now, since in (
        ("a" * 64, "a" * 64, True),
        ("a" * 64, others, True),
        # Also where the rulebook that it was held by took over once more.
        ("a" * 64, others, False),
        ("", others, True),
        ("", others, False),
        # The people of the rulebook are back after others, and those others were not.
        ("a" * 64, RULEBOOK_DIGEST, True),
        ("", RULEBOOK_DIGEST, True),
        ("a" * 64, None, False),
    ):
        await judge_by(replica, RULEBOOK_DIGEST, now, since=since)
        found += ends(await approved(replica, gateway, "ada", "bob", directory_digest=held_with))
    asked, runs = "CallApproved", "ToolCallPermitted"
    assert [runs, asked, asked, asked, runs, asked, runs, runs] == [each.__name__ for each in found]


async def test_a_permit_says_whose_yes_is_behind_it(replica: Replica, gateway: Signer, verifier: Verifier) -> None:
    """All who count, with the keys that they said it with: an executor asks once more whether they work."""
    sent = await approved(replica, gateway, "ada", "bob")
    (end,) = [message for message in sent if isinstance(message, ToolCallPermitted)]
    permit = verify_permit(verifier, end.permit, end.call, pool=end.pool)
    assert ({"person:ada", "person:bob"}, {"key-ada", "key-bob"}) == (set(permit.by), set(permit.keys))


async def test_a_permit_says_who_showed_no_key(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register
) -> None:
    """Of them the directory alone said who they are, whether they voted or gave their place to somebody who did."""
    register.directory = Directory(people={name: Person(name) for name in ("ada", "bob", "cem")})
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, "key-cem")
    also = [{"panels": [{"approvers": [f"person:{name}"]}]} for name in ("bob", "cem")]
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], also=also))

    def decision(name: str, **more: Any) -> DecideApproval:
        proof = {"person": f"person:{name}", "roles": [], "proof": "slack"} | more
        return a_decision(gateway, some_claims(card, **proof))

    await replica.send(decision("bob", verb="delegate", to="person:ada"))
    await replica.send(decision("cem", proof="web_session", key_id="key-cem"))
    (end,) = [each for each in await replica.send(decision("ada")) if isinstance(each, ToolCallPermitted)]
    permit = verify_permit(verifier, end.permit, end.call, pool=end.pool)
    assert ({"person:ada", "person:cem"}, {"person:ada", "person:bob"}) == (set(permit.by), set(permit.listed))


PANELS = {
    "approvers": ["group:finance"],
    "also": [{"panels": [{"approvers": ["group:leads"], "approvals": 1}]}],
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"approvers": ["group:finance", "group:leads"]},
            {"person:ada": [["finance", "leads"]], "person:bob": [["finance", "leads"]]},
        ),
        ({"approvers": ["group:finance", "person:bob"]}, {"person:ada": [["finance"]]}),
        ({"approvers": ["group:finance", "operators"]}, {"person:ada": [["finance"]]}),
        (PANELS, {"person:ada": [["finance"]], "person:bob": [["finance"], ["leads"]]}),
    ],
    ids=["groups", "a person too", "operators too", "two panels"],
)
async def test_a_permit_says_which_groups_let_somebody_decide(
    replica: Replica,
    gateway: Signer,
    verifier: Verifier,
    register: Register,
    rule: dict[str, Any],
    expected: dict[str, list[list[str]]],
) -> None:
    """By panel, of those alone whom nothing else lets decide: an executor asks whether they are in one still."""
    register.directory = Directory(groups={"finance": frozenset({"ada", "bob"}), "leads": frozenset({"bob"})})
    sent = await approved(replica, gateway, "ada", "bob", roles={"bob": ["operators"]}, **rule)
    (end,) = [message for message in sent if isinstance(message, ToolCallPermitted)]
    assert expected == verify_permit(verifier, end.permit, end.call, pool=end.pool).groups


@pytest.mark.parametrize(
    ("proof", "approvers", "expected"),
    [
        ({"proof": "slack"}, ["operators", "group:finance"], {"person:ada": [["finance", "operators"]]}),
        ({"proof": "slack"}, ["operators", "person:ada"], {}),
        ({"proof": "api_key", "key_id": "key-ada"}, ["operators", "group:finance"], {}),
    ],
)
async def test_a_permit_says_who_is_an_operator_by_the_group_alone(
    replica: Replica,
    gateway: Signer,
    verifier: Verifier,
    register: Register,
    proof: dict[str, Any],
    approvers: list[str],
    expected: dict[str, list[list[str]]],
) -> None:
    """An executor asks whether they are one still, where no key of theirs says so."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, "key-ada")
    register.directory = Directory(people={"ada": Person("ada")}, groups={"operators": frozenset({"ada"})})
    card = await opened_by(replica, approval=an_approval_rule(approvers=approvers))
    sent = await replica.send(a_decision(gateway, some_claims(card, person="person:ada", **proof)))
    (end,) = [message for message in sent if isinstance(message, ToolCallPermitted)]
    assert expected == verify_permit(verifier, end.permit, end.call, pool=end.pool).groups


async def test_who_may_decide_no_more_is_not_behind_the_permit(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register
) -> None:
    """Their yes was void when the others' were counted: the call runs by these alone."""
    await replica.execute('DELETE FROM "read".api_keys')
    names = ("rob", "ada", "bob")
    await add_keys(replica, *(f"key-{name}" for name in names))
    rule = {"approvers": [f"person:{name}" for name in names], "approvals": 2}
    card = await opened_by(replica, approval=an_approval_rule(**rule))
    sent: list[Message] = []
    for name in names:
        proof = {"person": f"person:{name}", "roles": [], "proof": "api_key", "key_id": f"key-{name}"}
        sent = await replica.send(a_decision(gateway, some_claims(card, **proof)))
        register.directory = Directory(people={"rob": Person("rob", active=False)})
    (end,) = [message for message in sent if isinstance(message, ToolCallPermitted)]
    permit = verify_permit(verifier, end.permit, end.call, pool=end.pool)
    assert ({"person:ada", "person:bob"}, {"key-ada", "key-bob"}) == (set(permit.by), set(permit.keys))


@pytest.mark.parametrize("first", [False, True], ids=["delegated first", "voted before"])
async def test_who_gave_their_place_is_behind_the_permit_too(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register, *, first: bool
) -> None:
    """Ada votes for herself and in the places of bob, whom the rule names, and of cem, who is in a group.

    Whether or not a yes of hers counted before without them.
    """
    register.directory = Directory(groups={"leads": frozenset({"cem"})})
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, *(f"key-{name}" for name in ("ada", "bob", "cem")))
    also = [{"panels": [{"approvers": ["person:bob"]}]}, {"panels": [{"approvers": ["group:leads"]}]}]
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], also=also))
    decision = partial(_by_key, gateway, card)
    if first:
        await replica.send(decision("ada"))
    for name in ("bob", "cem"):
        await replica.send(decision(name, verb="delegate", to="person:ada"))
    permit = _permit(await replica.send(decision("ada")), verifier)
    assert (["person:ada"], {"key-ada", "key-bob", "key-cem"}) == (list(permit.by), set(permit.keys))
    assert {"person:bob": [], "person:cem": [["leads"]]} == permit.groups


@pytest.mark.parametrize("first", [False, True], ids=["once", "voted before"])
async def test_a_group_joined_after_a_vote_is_behind_the_permit_too(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register, *, first: bool
) -> None:
    """Ada may decide alone as soon as she is among the leads: an executor asks whether she is still."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, "key-ada")
    also = [{"panels": [{"approvers": ["group:leads"]}]}]
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], also=also))
    register.directory = Directory(groups={"leads": frozenset()})
    if first:
        await replica.send(_by_key(gateway, card, "ada"))
    register.directory = Directory(groups={"leads": frozenset({"ada"})})
    permit = _permit(await replica.send(_by_key(gateway, card, "ada")), verifier)
    assert {"person:ada": [["leads"]]} == permit.groups


async def test_the_conditions_that_people_met_are_behind_the_permit(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register
) -> None:
    """The rule's for everybody, a demand's for who sits in it, here bob by ada: an executor asks whether they do still.

    Where a rule has none the permit is as it was.
    """
    register.directory = Directory(people={name: Person(name, attributes={"a": "1"}) for name in ("ada", "bob")})
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, "key-ada", "key-bob")
    every, his = '"a" in person.attributes', 'person.id == "person:bob"'
    found = []
    for condition, own in ((every, his), ("", "")):
        also = [Demand(panels=[Panel(approvers=["person:bob"])], condition=own)]
        rule = an_approval_rule(approvers=["person:ada"], also=also, condition=condition)
        decision = partial(_by_key, gateway, await opened_by(replica, approval=rule))
        await replica.send(decision("bob", verb="delegate", to="person:ada"))
        found.append(_permit(await replica.send(decision("ada")), verifier).conditions)
    assert [{every: ["person:ada", "person:bob"], his: ["person:bob"]}, {}] == found


async def test_who_voted_themselves_is_not_behind_their_place(
    replica: Replica, gateway: Signer, verifier: Verifier
) -> None:
    """Bob gave ada his place and denied all the same: her yes counts without him, and so does the call."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, *(f"key-{name}" for name in ("ada", "bob", "cem")))
    rule = an_approval_rule(
        approvers=["person:ada", "person:cem"], approvals=2, alternatives=[Panel(approvers=["person:bob"], approvals=2)]
    )
    card = await opened_by(replica, approval=rule.model_copy(update={"denials": 2}))
    decision = partial(_by_key, gateway, card)
    await replica.send(decision("bob", verb="delegate", to="person:ada"))
    await replica.send(decision("bob", verb="deny"))
    await replica.send(decision("cem"))
    permit = _permit(await replica.send(decision("ada")), verifier)
    assert ({"key-ada", "key-cem"}, {}) == (set(permit.keys), permit.groups)


async def test_a_yes_to_other_arguments_is_not_behind_the_permit(
    replica: Replica, gateway: Signer, verifier: Verifier
) -> None:
    """Ada approved what was proposed; carl's edit decides alone, and only he has said yes to what runs."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, "key-ada", "key-carl")
    rule = an_approval_rule(
        approvers=["person:ada", "person:bob"],
        approvals=2,
        alternatives=[Panel(approvers=["person:carl"], approvals=1)],
        edits=True,
    )
    card = await opened_by(replica, approval=rule)
    await replica.send(_by_key(gateway, card, "ada"))
    cheaper = canonical_text({"amount": 199, "currency": "TRY"})
    (asked,) = await replica.send(_by_key(gateway, card, "carl", verb="edit", arguments=cheaper))
    assert isinstance(asked, EditProposed)
    permit = _permit(await replica.send(an_edit_judged(asked)), verifier)
    assert (["person:carl"], ["key-carl"]) == (list(permit.by), list(permit.keys))


@pytest.mark.parametrize("word", ["abstain", "deny"])
async def test_of_two_places_the_one_that_was_filled_is_behind_the_permit(
    replica: Replica, gateway: Signer, verifier: Verifier, word: str
) -> None:
    """Bob and cem let ada vote for them, and bob votes himself: she sits in cem's place of their panel."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, *(f"key-{name}" for name in ("ada", "bob", "cem")))
    both = Demand(panels=[Panel(approvers=["person:bob", "person:cem"])])
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], also=[both], denials=2))
    decision = partial(_by_key, gateway, card)
    for name, verb, more in (("bob", "delegate", "person:ada"), ("cem", "delegate", "person:ada"), ("bob", word, "")):
        await replica.send(decision(name, verb=verb, to=more))
    permit = _permit(await replica.send(decision("ada")), verifier)
    assert ({"key-ada", "key-cem"}, ["person:cem"]) == (set(permit.keys), list(permit.groups))


async def test_a_yes_that_was_not_counted_is_not_behind_the_permit(
    replica: Replica, gateway: Signer, verifier: Verifier, register: Register
) -> None:
    """Ada was away when bob's yes was counted, and hers is void until she votes again: cem's is the second."""
    await replica.execute('DELETE FROM "read".api_keys')
    await add_keys(replica, *(f"key-{name}" for name in ("ada", "bob", "cem")))
    people = ["person:ada", "person:bob", "person:cem"]
    card = await opened_by(replica, approval=an_approval_rule(approvers=people, approvals=2))
    await replica.send(_by_key(gateway, card, "ada"))
    register.directory = Directory(people={"ada": Person("ada", active=False)})
    await replica.send(_by_key(gateway, card, "bob"))
    register.directory = Directory(people={"ada": Person("ada")})
    permit = _permit(await replica.send(_by_key(gateway, card, "cem")), verifier)
    assert {"person:bob", "person:cem"} == set(permit.by)


def _by_key(gateway: Signer, card: ApprovalOpened, name: str, **more: Any) -> DecideApproval:
    proof = {"person": f"person:{name}", "roles": [], "proof": "api_key", "key_id": f"key-{name}"}
    return a_decision(gateway, some_claims(card, **proof, **more))


def _permit(sent: list[Message], verifier: Verifier) -> Permit:
    (end,) = [each for each in sent if isinstance(each, ToolCallPermitted)]
    return verify_permit(verifier, end.permit, end.call, pool=end.pool)
