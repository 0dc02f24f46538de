"""Grants: never wider than what was approved once, and only as wide as the rule lets people give them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placet.contracts.ids import job_conversation_id
from placet.contracts.messages import COMMIT_TOOL, ApprovalRule, GrantTerms
from placet.contracts.permit import Consent
from placet.domain.directory import Directory, Person
from placet.domain.yaml_source import parse_yaml
from placet.policy import records
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import CallFacts, Effect, Rulebook, grants, judge
from placet.policy.rules.grants import Grant, within
from placet.policy.rules.watched import Watched
from tests.builders import NOON
from tests.support.policy_builders import LIMITED, a_grant_request, a_proposal

TERMS = GrantTerms(scope="agent", bounds=["amount"], uses=3, expires_after_seconds=3600)
GONE = Directory(people={"ada": Person("ada", active=False)})
ANYBODY = ApprovalRule(approvers=["operators"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 2.0]) | st.text(max_size=2),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), below, max_size=2),
    max_leaves=4,
)
some_arguments = st.dictionaries(st.sampled_from(["amount", "to", "order"]), json_values)


@pytest.fixture
def rulebook() -> Rulebook:
    """The rulebook with limits and grants."""
    return rulebook_from(parse_yaml("rulebook.yaml", LIMITED.encode()))


def a_grant(**changes: Any) -> Grant:
    """Return a grant to ship up to 100 to bob, given at noon for an hour."""
    fields: dict[str, Any] = {
        "grant_id": "g",
        "owner": "person:ada",
        "key_id": "key-1",
        "scope": "agent",
        "bounds": ["amount"],
        "uses": 3,
        "arguments": {"amount": 100, "to": "bob"},
        "given_at": NOON,
        "expires_at": NOON + timedelta(hours=1),
    }
    return Grant(**(fields | changes))


@pytest.mark.parametrize(
    ("approved", "asked", "covered"),
    [
        ({"amount": 100, "to": "bob"}, {"to": "bob", "amount": 100.0}, True),
        ({"amount": 100}, {"amount": 0}, True),
        ({"amount": 100}, {"amount": 100.5}, False),
        ({"amount": 100}, {"amount": -1}, False),
        ({"amount": -5}, {"amount": -5}, True),
        ({"amount": -5}, {"amount": -6}, False),
        ({"amount": 100}, {"amount": "50"}, False),
        ({"amount": 100}, {"amount": True}, False),
        ({"amount": 100}, {}, False),
        ({"amount": 100}, {"amount": 50, "to": "eve"}, False),
        ({"amount": "all"}, {"amount": "all"}, True),
        ({"amount": "all"}, {"amount": "some"}, False),
        ({}, {"amount": 1}, False),
        ({}, {}, True),
    ],
)
def test_bound_is_the_most_for_numbers_and_the_only_value_for_the_rest(
    approved: dict[str, Any],
    asked: dict[str, Any],
    covered: bool,  # noqa: FBT001
) -> None:
    """Numbers may be smaller, down to zero; everything else must be equal."""
    assert covered == within(approved, asked, ["amount"])


def test_bound_may_lie_inside_an_argument() -> None:
    """`order.total` may be smaller; its neighbours must be equal."""
    approved = {"order": {"total": 10, "item": "a"}}
    asked = [{"order": {"total": 9, "item": item}} for item in ("a", "b")]
    assert [True, False] == [within(approved, each, ["order.total"]) for each in asked]


@pytest.mark.parametrize(
    ("bound", "covered"),
    [
        ("to=*@example.org", ["bob@example.org", "eve@example.org"]),
        ("to=bob@*", ["bob@example.org", "bob@example.com", "bob@example.org.evil"]),
        ("to=bob@example.com", ["bob@example.org", "bob@example.com"]),
        ("to", ["bob@example.org"]),
        ("cc=*", ["bob@example.org"]),
    ],
)
def test_texts_may_vary_as_far_as_a_glob_says(bound: str, covered: list[str]) -> None:
    """And the approved one is always covered; numbers and whatever else are no texts."""
    approved = {"to": "bob@example.org", "amount": 5}
    asked = ["bob@example.org", "eve@example.org", "bob@example.com", "bob@example.org.evil"]

    assert covered == [each for each in asked if within(approved, {**approved, "to": each}, [bound])]
    assert not within(approved, {**approved, "to": 5}, [bound])


@given(some_arguments)
def test_approved_call_is_always_covered(arguments: dict[str, Any]) -> None:
    """The same call again is what was allowed."""
    assert within(arguments, arguments, ["amount", "order.a"])


@given(some_arguments, some_arguments)
def test_without_bounds_only_the_same_arguments_are_covered(one: dict[str, Any], other: dict[str, Any]) -> None:
    """No bound, no room: neither for other keys nor for another value of the same one."""
    assume(one != other)
    assert not within(one, other, [])


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"scope": "conversation"}, True),
        ({"scope": "tenant"}, False),
        ({"bounds": []}, True),
        ({"bounds": ["amount", "to"]}, False),
        ({"uses": 4}, False),
        ({"expires_at": NOON + timedelta(hours=2)}, False),
    ],
)
def test_grant_loses_what_the_rule_no_longer_lets_people_give(
    changes: dict[str, Any],
    fits: bool,  # noqa: FBT001
) -> None:
    """An author who narrows the terms narrows what was given before too."""
    assert fits == a_grant(**changes).fits(TERMS)


def test_grant_of_somebody_who_left_covers_nothing(rulebook: Rulebook) -> None:
    """A person who is disabled takes their grants with them; whom the directory does not list stays with their key."""
    assert [True, False] == [covers(rulebook, ANYBODY, directory) for directory in (Directory(), GONE)]
    assert not covers(rulebook, ANYBODY, Directory(), key_id=None)


@pytest.mark.parametrize(("key_id", "covered"), [("key-1", True), (None, False)])
def test_who_left_the_operators_keeps_no_grant_without_a_key(
    rulebook: Rulebook, key_id: str | None, *, covered: bool
) -> None:
    """Of who showed a key nobody here knows whether it may decide; of the others the directory says it."""
    directory = Directory(people={"ada": Person("ada"), "bob": Person("bob")}, groups={"operators": frozenset({"bob"})})
    assert covered == covers(rulebook, ANYBODY, directory, key_id=key_id)


@pytest.mark.parametrize(
    ("approval", "owner", "covered"),
    [
        ({"approvers": ["group:ops"]}, "person:ada", True),
        ({"approvers": ["group:ops"]}, "person:bob", False),
        ({"approvers": ["group:ops"], "approvals": 2}, "person:ada", False),
        (
            {"approvers": ["group:ops"], "approvals": 2, "alternatives": [{"approvers": ["person:ada"]}]},
            "person:ada",
            True,
        ),
        ({"approvers": ["group:ops"], "condition": "call.arguments.amount > 5"}, "person:ada", False),
        ({"approvers": ["group:ops"], "exclude": ["agent_owner"]}, "person:ada", False),
        ({"approvers": ["requester"]}, "visitor:1", True),
        ({"approvers": ["requester"]}, "visitor:2", False),
        ({"approvers": ["requester"], "min_strength": "web"}, "visitor:1", False),
        ({"approvers": ["operators"]}, "person:bob", True),
        ({"approvers": ["operators"]}, "visitor:1", False),
    ],
)
def test_grant_covers_only_what_its_owner_could_approve_alone(
    rulebook: Rulebook,
    approval: dict[str, Any],
    owner: str,
    covered: bool,  # noqa: FBT001
) -> None:
    """By the rule and the directory of today, and this very call: nobody's grant outlives their right."""
    rule = ApprovalRule.model_validate(approval)
    people = {name: Person(name) for name in ("ada", "bob")}
    directory = Directory(people=people, groups={"ops": frozenset({"ada"})}, owners={"default": frozenset({"ada"})})
    assert covered == covers(rulebook, rule, directory, owner=owner)


def covers(rulebook: Rulebook, approval: ApprovalRule, directory: Directory, **changes: Any) -> bool:
    """Tell whether a grant covers a call that visitor 1 asked of the default agent, held under `approval`."""
    asked = {"requester": "visitor:1", "agent": "default"}
    call = CallFacts.of(a_proposal(rulebook, "ship", arguments={"amount": 1, "to": "bob"}, **asked).call)
    return bool(grants.covering([a_grant(**changes)], call, approval, TERMS, directory))


IN_OPS = "'ops' in person.groups"


@pytest.mark.parametrize(
    ("approval", "changes", "asked"),
    [
        ({"approvers": ["person:ada"]}, {}, Consent(keys=("key-1",), groups={"person:ada": []})),
        ({"approvers": ["group:ops"]}, {}, Consent(keys=("key-1",), groups={"person:ada": [["ops"]]})),
        (
            {"approvers": ["operators"], "condition": IN_OPS},
            {"key_id": None},
            Consent(
                groups={"person:ada": [["operators"]]}, listed=("person:ada",), conditions={IN_OPS: ["person:ada"]}
            ),
        ),
        ({"approvers": ["requester"]}, {"owner": "visitor:1"}, Consent()),
    ],
)
def test_a_grants_owner_is_asked_about_again_when_the_call_begins(
    rulebook: Rulebook, approval: dict[str, Any], changes: dict[str, Any], asked: Consent
) -> None:
    """As if they had approved it just now: their key, their group and the condition; a visitor has none of these."""
    groups = {"ops": frozenset({"ada"}), "operators": frozenset({"ada"})}
    directory = Directory(people={"ada": Person("ada")}, groups=groups)
    call = CallFacts.of(a_proposal(rulebook, "ship", requester="visitor:1", agent="default").call)
    rule = ApprovalRule.model_validate(approval)
    assert asked == grants.standing_behind(a_grant(**changes), call, rule, directory)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"conversation_id": job_conversation_id("acme", "attempt-conversation", "attempt-1")}, False),
        ({"conversation_id": job_conversation_id("acme", "job-conversation", "job-1")}, False),
        ({"tool": COMMIT_TOOL}, False),
    ],
)
def test_under_four_eyes_no_grant_covers_what_nobody_knows_all_askers_of(
    rulebook: Rulebook,
    changes: dict[str, Any],
    counts: bool,  # noqa: FBT001
) -> None:
    """What a job asks, and a commit: policy does not look for who began the job or asked for its entries."""
    call = CallFacts.of(a_proposal(rulebook, **({"tool": "ship", "tenant": "acme"} | changes)).call)
    assert counts == bool(grants.of_others([a_grant()], call, frozenset()))


def test_grant_cannot_be_given_by_somebody_who_left(rulebook: Rulebook) -> None:
    """Policy looks again, after approval did."""
    until = NOON + timedelta(minutes=1)
    asked = a_grant_request(a_proposal(rulebook, "ship").call, expires_at=until, key_id="key-1")
    said = [grants.refusal(asked, rulebook, directory, NOON, {}) for directory in (Directory(), GONE)]
    assert ["", "person:ada is not active any more"] == said


def test_grant_cannot_be_given_from_an_approval_that_an_error_held() -> None:
    """Those of the fallback allow nothing of the rule that failed, whose name such a card has."""
    text = LIMITED.replace(
        "    match: {tool: ship}\n", "    match: {tool: ship}\n    when: conversation.labels.x == 'y'\n"
    )
    rulebook = rulebook_from(parse_yaml("rulebook.yaml", text.encode()))
    calls = [a_proposal(rulebook, "ship", labels=labels).call for labels in ({}, {"x": "z"}, {"x": "y"})]
    asked = [a_grant_request(call, expires_at=NOON + timedelta(minutes=1)) for call in calls]
    said = [grants.refusal(each, rulebook, GONE, NOON, {}) for each in asked]
    held = "the rule 'shipping' does not hold such a call"
    assert [held, held, "person:ada is not active any more"] == said


def test_grant_cannot_be_given_by_somebody_who_does_not_decide_alone() -> None:
    """Who only an escalation or somebody else's place let decide has no right of their own to such calls."""
    text = LIMITED.replace("approvers: [requester, operators]\n      grants", "approvers: ['person:bob']\n      grants")
    rulebook = rulebook_from(parse_yaml("rulebook.yaml", text.encode()))
    asked = a_grant_request(a_proposal(rulebook, "ship").call, expires_at=NOON + timedelta(minutes=1))
    assert "person:ada cannot approve such a call alone" == grants.refusal(asked, rulebook, Directory(), NOON, {})


def test_call_held_by_an_error_has_no_terms(rulebook: Rulebook) -> None:
    """A grant never takes the place of people where a rule could not be evaluated, nor of a rule that denies."""
    verdicts = [
        judge(CallFacts.of(a_proposal(rulebook, tool, arguments=arguments).call), rulebook)
        for tool, arguments in (("pay", {"amount": -1}), ("look", {}), ("ship", {}))
    ]
    terms = GrantTerms(scope="agent", bounds=["amount"], uses=3, expires_after_seconds=3600)
    assert [None, None, terms] == [grants.usable_terms(verdict) for verdict in verdicts]


def test_call_held_by_an_error_lets_nobody_grant(rulebook: Rulebook) -> None:
    """Whatever the fallback says: the card offers it to nobody, and no grant takes the place of its people."""
    fallback = ApprovalRule(approvers=["operators"], grants=GrantTerms(scope="tenant"))
    failing = a_proposal(rulebook, "pay", arguments={"amount": -1}).call
    held = judge(CallFacts.of(failing), replace(rulebook, fallback=fallback))
    assert ("small", None, None) == (held.rule, held.approval and held.approval.grants, grants.usable_terms(held))


def test_allowed_verdict_names_the_grant_and_asks_nobody(rulebook: Rulebook) -> None:
    """The rule's name stays in the reason."""
    held = judge(CallFacts.of(a_proposal(rulebook, "ship").call), rulebook)
    consent = Consent(keys=["key-1"])
    allowed = grants.allowed_by(a_grant(), held, consent)
    assert (Effect.ALLOW, "grant:g", None, consent, True) == (
        allowed.effect,
        allowed.rule,
        allowed.approval,
        allowed.consent,
        "'shipping'" in allowed.reason,
    )


def test_entry_digest_changes_with_anything_in_the_tools_entry(rulebook: Rulebook) -> None:
    """Another pool is another tool as far as grants are concerned; the same entry is the same."""
    spec = rulebook.tools["ship"]
    same, other = spec.model_copy(), spec.model_copy(update={"pool": "elsewhere"})
    assert (True, False) == tuple(grants.entry_digest(spec) == grants.entry_digest(each) for each in (same, other))


def test_a_use_and_a_second_asking_are_told_with_their_conversation(rulebook: Rulebook) -> None:
    """Whoever looks for a conversation in the log finds what grants and watched calls had to do with it."""
    call = CallFacts.of(a_proposal(rulebook, "ship", arguments={"amount": 1, "to": "bob"}).call)
    verdict = judge(call, rulebook)
    used = records.grant_used(call, a_grant(), rule="r", uses_left=1)
    again = records.asked_again(call, verdict, Watched("earlier", ANYBODY))
    assert [call.conversation_id] * 2 == [each.line("")["conversation_id"] for each in (used, again)]
