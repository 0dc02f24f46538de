"""Every form of a rule from outside: whom it is for, who decides and how, what time does, what is remembered.

The rules are in `forms.py`; what they are asked about does nothing but leave a line in the ledger.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_card, is_result
from tests.support.system import System, until

DONE, NOT_DONE = "It is done.", "It is not done."


@pytest.fixture(scope="module")
def hopper(system: System) -> Caller:
    """Another of the releases group and of staff."""
    return Caller(system.url, system.key("decide", "chat", person="hopper"))


@pytest.fixture(scope="module")
def lovelace(system: System) -> Caller:
    """The lead."""
    return Caller(system.url, system.key("decide", person="lovelace"))


async def held(frontend: Caller, form: str, amount: int = 1) -> tuple[Visitor, dict[str, Any]]:
    """Return a visitor whose call waits for people, and its card."""
    visitor = await a_visitor(frontend)
    await visitor.say(f"do {form} {amount}.")
    return visitor, await visitor.see_card()


async def decided(caller: Caller, card: dict[str, Any], verb: str, reason: str = "", **more: Any) -> tuple[int, str]:
    """Decide; return the status and what the approval is then, or what is wrong."""
    answer = await caller.decide(card, verb, reason, **more)
    said = answer.json()
    return answer.status_code, said["state"] if answer.is_success else said["type"].rpartition(":")[2]


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("by-label", {"labels": {"plan": "gold"}}),
        ("by-agent", {"agent": "help-desk"}),
        ("by-requester", {"visitor": "v-1"}),
        ("by-bare-name", {"visitor": "w-1"}),
        ("by-glob", {"labels": {"plan": "silver"}}),
    ],
)
async def test_a_rule_is_for_whom_it_matches(
    frontend: Caller, operator: Caller, stage: Stage, rule: str, options: dict[str, Any]
) -> None:
    """By label, agent, requester or tool, each by a glob: the first rule that fits decides."""
    visitor = await a_visitor(frontend, **options)
    await visitor.say("do match 1.")
    call = (await visitor.see(is_result("act")))["data"]
    verdict = (await operator.get(f"/v1/tool-calls/{call['call_id']}"))["verdict"]
    assert ("refused", rule, True) == (call["kind"], verdict["rule"], f"{rule} says no." in call["error"])
    assert [] == stage.begun("act", visitor.conversation)


async def test_a_rule_is_for_its_tenant(system: System) -> None:
    """Another tenant has other rules."""
    rivals = Caller(system.url, system.key("chat", tenant="rival", person="shop"))
    visitor = await a_visitor(rivals)
    await visitor.say("do match 1.")
    assert "by-tenant says no." in (await visitor.see(is_result("act")))["data"]["error"]


async def test_a_rule_that_cannot_be_evaluated_asks_the_fallback(frontend: Caller, operator: Caller) -> None:
    """It compares an argument that was not given: the call is held, and people see why."""
    visitor, card = await held(frontend, "broken")
    assert (["operators"], True) == (card["approvers"], "broken" in card["reason"])
    assert (200, "denied") == await decided(operator, card, "deny")
    assert NOT_DONE == await visitor.see_answer()


async def test_a_named_person_decides(frontend: Caller, operator: Caller, hopper: Caller) -> None:
    """Nobody else does, whatever their key."""
    visitor, card = await held(frontend, "person")
    assert (403, "not-an-approver") == await decided(operator, card, "approve")
    assert (200, "approved") == await decided(hopper, card, "approve")
    assert DONE == await visitor.see_answer()


@pytest.mark.parametrize(("amount", "who"), [(1, "hopper"), (40, "nobody")])
async def test_a_condition_says_who_may_decide_what(
    frontend: Caller, operator: Caller, hopper: Caller, amount: int, who: str
) -> None:
    """CEL over the person and the call: only the south decides, and only about small amounts."""
    _, card = await held(frontend, "condition", amount)
    assert (403, "not-an-approver") == await decided(operator, card, "approve")
    allowed = (200, "approved") if who == "hopper" else (403, "not-an-approver")
    assert allowed == await decided(hopper, card, "approve")


async def test_one_lead_or_two_of_staff(frontend: Caller, operator: Caller, hopper: Caller, lovelace: Caller) -> None:
    """Any one way to say yes is enough."""
    _, first = await held(frontend, "alternatives")
    assert (200, "approved") == await decided(lovelace, first, "approve")
    _, other = await held(frontend, "alternatives")
    assert (200, "pending") == await decided(operator, other, "approve")
    assert (200, "pending") == await decided(operator, other, "approve")
    assert (200, "approved") == await decided(hopper, other, "approve")


async def test_two_denials_decide(frontend: Caller, operator: Caller, hopper: Caller) -> None:
    """One denial is a vote; the second one ends it."""
    visitor, card = await held(frontend, "denials")
    assert (200, "pending") == await decided(operator, card, "deny")
    assert (200, "denied") == await decided(hopper, card, "deny")
    assert NOT_DONE == await visitor.see_answer()


async def test_a_veto_decides_alone(frontend: Caller, operator: Caller, lovelace: Caller) -> None:
    """Whose veto it is needs nobody beside them."""
    _, card = await held(frontend, "veto")
    assert (200, "pending") == await decided(operator, card, "deny")
    assert (200, "denied") == await decided(lovelace, card, "deny")


async def test_four_eyes(system: System, operator: Caller) -> None:
    """Who asked does not decide, though their group may; another of the group does."""
    hopper = Caller(system.url, system.key("decide", "chat", person="hopper"))
    visitor = await a_visitor(hopper)
    await hopper.post(f"{visitor.path}/messages", {"text": "do four-eyes 1.", "author": "person"})
    card = await visitor.see_card()
    assert (403, "not-an-approver") == await decided(hopper, card, "approve")
    assert (200, "approved") == await decided(operator, card, "approve")


async def test_a_reason_is_required(frontend: Caller, operator: Caller) -> None:
    """Without one the decision is none, and the approval waits on."""
    _, card = await held(frontend, "reasons")
    assert (400, "invalid-decision") == await decided(operator, card, "approve")
    assert (200, "approved") == await decided(operator, card, "approve", "seen by two of us")


async def test_identity_must_be_strong_enough(frontend: Caller, operator: Caller) -> None:
    """The chat's own token is known too weakly; a key is not."""
    visitor, card = await held(frontend, "strength")
    assert (403, "identity-too-weak") == await decided(visitor, card, "approve")
    assert (200, "approved") == await decided(operator, card, "approve")


async def test_people_are_reminded_and_then_others_are_asked(
    frontend: Caller, operator: Caller, hopper: Caller
) -> None:
    """Nobody decides: a reminder, then an escalation, and whom it asks may decide."""
    visitor, card = await held(frontend, "escalating")
    assert ["person:grace"] == card["approvers"]
    reminded = await visitor.see(lambda item: item["type"] == "approval" and item["data"].get("kind") == "reminded")
    escalated = await visitor.see(lambda item: item["type"] == "approval" and item["data"].get("kind") == "escalated")
    assert (card["approval_id"], ["person:hopper"]) == (reminded["data"]["approval_id"], escalated["data"]["asked_too"])
    assert (200, "approved") == await decided(hopper, card, "approve")
    told = await operator.get(f"/v1/approvals/{card['approval_id']}")
    assert "person:hopper" == told["decided_by"]


async def test_a_message_may_take_the_place_of_a_call(frontend: Caller, stage: Stage) -> None:
    """`supersede`: the call that waits is withdrawn by what its asker writes next."""
    visitor, card = await held(frontend, "superseding")
    await visitor.say("never mind")
    closed = await visitor.see(lambda item: item["type"] == "approval" and item["data"].get("state") == "withdrawn")
    assert card["approval_id"] == closed["data"]["approval_id"]
    assert "As you like." == await visitor.see_answer()
    assert [] == stage.begun("act", visitor.conversation)


async def test_a_message_may_wait_for_a_call(frontend: Caller, operator: Caller) -> None:
    """`wait`: the call stays, is decided, and the message is answered after it."""
    visitor, card = await held(frontend, "waiting")
    await visitor.say("never mind")
    assert (200, "approved") == await decided(operator, card, "approve")
    assert [DONE, "As you like."] == [await visitor.see_answer(), await visitor.see_answer()]


async def test_a_denied_call_is_held_when_it_is_asked_again(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """The veto window: people see who said no, when and why; one yes now does not end the window."""
    visitor, card = await held(frontend, "window")
    assert (200, "denied") == await decided(operator, card, "deny", "not in this quarter")
    assert NOT_DONE == await visitor.see_answer()
    await visitor.say("do window 1.")
    again = await visitor.see(lambda item: is_card(item) and item["data"]["approval_id"] != card["approval_id"])
    assert all(words in again["data"]["reason"] for words in ("person:grace", "not in this quarter"))
    assert [] == stage.begun("act", visitor.conversation)
    assert (200, "approved") == await decided(operator, again["data"], "approve")
    assert DONE == await visitor.see_answer()


async def test_a_grant_lets_such_calls_through_until_it_is_revoked(
    frontend: Caller, operator: Caller, stage: Stage
) -> None:
    """Made by approving, used by the next call, named in its history, bound by arguments; revoked, calls wait again."""
    visitor, card = await held(frontend, "granting", 40)
    wish = {"scope": "conversation", "bounds": ["amount"], "uses": 3}
    assert (200, "approved") == await decided(operator, card, "approve", allow_from_now_on=wish)
    assert DONE == await visitor.see_answer()
    grant = await the_grant(operator, card["approval_id"])
    await visitor.say("do granting 1.")
    used = (await visitor.see(lambda item: is_result("act")(item) and item["data"]["call_id"] != card["call_id"]))[
        "data"
    ]
    assert DONE == await visitor.see_answer()
    told = await operator.get(f"/v1/tool-calls/{used['call_id']}")
    assert (f"grant:{grant['id']}", None) == (told["verdict"]["rule"], told["approval"])
    assert "used" in [each["event"] for each in told["history"] if each["machine"] == "grant"]
    await visitor.say("do granting 60.")
    beyond = await visitor.see(lambda item: is_card(item) and item["data"]["approval_id"] != card["approval_id"])
    assert (200, "denied") == await decided(operator, beyond["data"], "deny")
    await visitor.see_answer()
    assert 202 == (await operator.request("POST", f"/v1/grants/{grant['id']}/revoke")).status_code
    await until_revoked(operator, grant["id"])
    await visitor.say("do granting 1.")
    seen = {card["approval_id"], beyond["data"]["approval_id"]}
    assert await visitor.see(lambda item: is_card(item) and item["data"]["approval_id"] not in seen)
    assert [40, 1] == [line["amount"] for line in stage.begun("act", visitor.conversation)]


async def test_a_count_lets_so_many_calls_through(frontend: Caller, operator: Caller) -> None:
    """Two a day in each conversation; the third is held as its category says."""
    visitor = await a_visitor(frontend)
    for _ in range(2):
        await visitor.say("do counted 1.")
        assert DONE == await visitor.see_answer()
    await visitor.say("do counted 1.")
    card = await visitor.see_card()
    assert (200, "denied") == await decided(operator, card, "deny")
    assert DONE == await other_visitor_answer(frontend, "do counted 1.")


async def test_a_sum_lets_calls_through_until_it_is_reached(frontend: Caller, operator: Caller) -> None:
    """Amounts count, not calls: 60 and 40 fill a hundred, and one more is held."""
    visitor = await a_visitor(frontend)
    for amount in (60, 40):
        await visitor.say(f"do summed {amount}.")
        assert DONE == await visitor.see_answer()
    await visitor.say("do summed 1.")
    assert (200, "denied") == await decided(operator, await visitor.see_card(), "deny")


async def test_a_rule_may_look_back(frontend: Caller) -> None:
    """`history`: once a day nobody minds, the second time a rule says no."""
    visitor = await a_visitor(frontend)
    answers = []
    for _ in range(2):
        await visitor.say("do often 1.")
        answers.append(await visitor.see_answer())
    assert [DONE, NOT_DONE] == answers


async def other_visitor_answer(frontend: Caller, text: str) -> str:
    """Return what somebody in another conversation is answered."""
    visitor = await a_visitor(frontend)
    await visitor.say(text)
    return await visitor.see_answer()


async def the_grant(operator: Caller, approval_id: str) -> dict[str, Any]:
    """Return the grant that an approval gave, as soon as it is there."""
    found: list[dict[str, Any]] = []

    async def given() -> bool:
        items = (await operator.get("/v1/grants?state=active&limit=100"))["items"]
        found.extend(item for item in items if item["approval_id"] == approval_id)
        return bool(found)

    await until(given, "the grant is there")
    return found[0]


async def until_revoked(operator: Caller, grant_id: str) -> None:
    """Return when a grant covers nothing any more."""

    async def revoked() -> bool:
        return bool((await operator.get(f"/v1/grants/{grant_id}"))["state"] == "revoked")

    await until(revoked, "the grant is revoked")
