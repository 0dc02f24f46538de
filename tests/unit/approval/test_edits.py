"""Edits: other arguments, other digest, no votes; proposed and approved arguments stay apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.approval import rules
from placet.approval.rules import Approval, edits
from placet.approval.states import State
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import DecisionClaims
from placet.contracts.permit import digest_of
from placet.domain.card_text import REDACTED
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import LATER, a_directory, an_approval, an_edit, an_edit_judged, claims_of

CHEAPER = canonical_text({"amount": 199, "currency": "TRY"})


def an_editable(**rule: Any) -> Approval:
    """Return a pending approval whose arguments ada and bob may change."""
    return an_approval(approval_rule=an_approval_rule(**({"approvers": ["group:finance"], "edits": True} | rule)))


def an_edit_of(approval: Approval, name: str = "ada", arguments: str = CHEAPER) -> DecisionClaims:
    """Return a wish to change the arguments."""
    return claims_of(approval, name, "edit", arguments=arguments, reason="a discount")


def settled(approval: Approval, claims: DecisionClaims, now: Any = NOON, **judged: Any) -> rules.Answer:
    """Return what an edit comes to once policy has judged it, `approval` being as it is by then."""
    edit = an_edit(an_editable(), claims) if approval.closed_at else an_edit(approval, claims)
    return rules.judge_edit(approval, edit, claims, an_edit_judged(edit, **judged), now, a_directory())


def test_an_edit_waits_for_policy() -> None:
    """Nothing changes until the rulebook was asked; the question names the changed call with a digest of its own."""
    approval = an_editable()
    answer = rules.decide(approval, an_edit_of(approval), NOON, a_directory())
    assert answer.proposal is not None
    assert (approval, CHEAPER, digest_of(answer.proposal)) == (
        answer.after,
        answer.proposal.arguments,
        answer.proposal.digest,
    )


def test_an_edit_that_policy_accepts_is_its_makers_approval() -> None:
    """One approver is enough: the changed call is approved, and keeps what was proposed beside it."""
    approval = an_editable()
    answer = settled(approval, an_edit_of(approval))
    assert answer.after is not None
    call = answer.after.call
    assert (State.APPROVED, "edited", 2, CHEAPER) == (
        answer.after.state,
        answer.progress,
        answer.after.arguments_revision,
        call.arguments,
    )
    assert call.edited is not None
    assert ("person:ada", "a discount", approval.call.arguments, approval.call.digest) == (
        call.edited.person,
        call.edited.reason,
        call.edited.proposed,
        call.edited.proposed_digest,
    )


def test_every_edit_that_counted_is_kept_in_its_order() -> None:
    """Whoever edits last does not take the others' place; who brings the proposed arguments back is told as that."""
    approval = an_editable(approvals=2)
    first = settled(approval, an_edit_of(approval)).after
    assert first is not None
    back = claims_of(first, "bob", "edit", arguments=approval.call.arguments, reason="no discount")
    last = settled(first, back).after
    assert last is not None
    kept = [each.call.edited for each in (first, last) if each.call.edited is not None]
    ada = ("person:ada", "a discount", CHEAPER)
    assert [[ada], [ada, ("person:bob", "no discount", approval.call.arguments)]] == [
        [(each.person, each.reason, each.arguments) for each in edited.changes] for edited in kept
    ]
    assert [False, True] == [edited.restored for edited in kept]


def test_an_edit_of_an_approval_from_before_keeps_the_one_edit_that_is_known() -> None:
    """Until then only the last edit was kept."""
    approval = an_editable(approvals=2)
    first = settled(approval, an_edit_of(approval)).after
    assert first is not None
    assert first.call.edited is not None
    older = replace(
        first, call=first.call.model_copy(update={"edited": first.call.edited.model_copy(update={"changes": []})})
    )
    last = settled(older, claims_of(older, "bob", "edit", arguments=approval.call.arguments)).after
    assert last is not None
    assert last.call.edited is not None
    assert ["person:ada", "person:bob"] == [each.person for each in last.call.edited.changes]


def test_an_edit_needs_the_same_quorum_and_voids_what_was_voted_before() -> None:
    """Where two must approve, the editor is the first."""
    approval = an_editable(approvals=2)
    answer = settled(approval, an_edit_of(approval))
    assert answer.after is not None
    assert (State.PENDING, None, 2, 2) == (
        answer.after.state,
        answer.event,
        answer.after.revision,
        answer.after.arguments_revision,
    )


def test_a_decision_on_the_card_before_an_edit_is_stale() -> None:
    """Nobody approves arguments that they did not see."""
    approval = an_editable(approvals=2)
    seen = claims_of(approval, "bob", "approve")
    after = settled(approval, an_edit_of(approval)).after
    assert "stale" == rules.decide(after, seen, NOON, a_directory()).outcome


def test_the_second_edit_of_the_same_arguments_is_stale() -> None:
    """Two people edit at once: the first one judged is made, the other one is told to look again."""
    approval = an_editable(approvals=2)
    second = an_edit_of(approval, "bob", canonical_text({"amount": 99, "currency": "TRY"}))
    edit = an_edit(approval, second)
    after = settled(approval, an_edit_of(approval)).after
    assert after is not None
    answer = rules.judge_edit(after, edit, second, an_edit_judged(edit), NOON, a_directory())
    assert ("stale", after) == (answer.outcome, answer.after)


def test_an_edit_counts_for_nobody_who_abstained_meanwhile() -> None:
    """Its maker voted while policy had not judged it yet: that was their last word."""
    approval = an_editable()
    claims = an_edit_of(approval).model_copy(update={"at": 1.0})
    edit = an_edit(approval, claims)
    answer = rules.judge_edit(approval, edit, claims, an_edit_judged(edit), NOON, a_directory(), 2.0)
    assert ("stale", approval) == (answer.outcome, answer.after)


def test_an_edit_back_and_forth_keeps_what_was_proposed() -> None:
    """The first proposal stays the proposal, also when an edit brings its arguments back."""
    approval = an_editable(approvals=2)
    original = approval.call.arguments
    once = settled(approval, an_edit_of(approval)).after
    assert once is not None
    twice = settled(once, an_edit_of(once, "bob", original)).after
    assert twice is not None
    assert twice.call.edited is not None
    assert (original, original, approval.call.digest, 3) == (
        twice.call.arguments,
        twice.call.edited.proposed,
        twice.call.digest,
        twice.arguments_revision,
    )


@pytest.mark.parametrize(
    ("rule", "arguments", "says"),
    [
        ({"edits": False}, CHEAPER, "does not allow changing"),
        ({}, '{"currency":"TRY","amount":1}', "canonical form"),
        ({}, '{"amount":1,"amount":2}', "strict JSON"),
        ({}, "[]", "strict JSON"),
        ({}, "", "says what to change"),
        ({}, canonical_text({"amount": 299, "currency": "TRY"}), "Nothing was changed"),
    ],
)
def test_what_is_no_edit_is_refused_at_once(rule: dict[str, Any], arguments: str, says: str) -> None:
    """Policy is not asked about it."""
    approval = an_editable(**rule)
    answer = rules.decide(approval, an_edit_of(approval, arguments=arguments), NOON, a_directory())
    assert ("invalid", None, True) == (answer.outcome, answer.proposal, says in answer.detail)


def test_an_edit_that_policy_refuses_changes_nothing() -> None:
    """Its maker hears why."""
    approval = an_editable()
    answer = settled(approval, an_edit_of(approval), accepted=False, detail="The amount is too high.")
    assert ("invalid", approval, "The amount is too high.") == (answer.outcome, answer.after, answer.detail)


def test_a_judgement_of_another_call_changes_nothing() -> None:
    """What policy said yes to must be what would run."""
    approval = an_editable()
    assert "invalid" == settled(approval, an_edit_of(approval), digest="f" * 64).outcome


def test_an_edit_after_the_deadline_expires_the_approval() -> None:
    """The time that policy took counts."""
    approval = an_editable()
    answer = settled(approval, an_edit_of(approval), LATER)
    assert answer.after is not None
    assert ("already_decided", State.EXPIRED) == (answer.outcome, answer.after.state)


def test_an_edit_of_somebody_disabled_meanwhile_does_not_count() -> None:
    """Who may decide is asked again when policy has answered."""
    approval = an_editable()
    claims = an_edit_of(approval)
    edit = an_edit(approval, claims)
    answer = rules.judge_edit(approval, edit, claims, an_edit_judged(edit), NOON, a_directory("ada"))
    assert "not_allowed" == answer.outcome


def a_masked(arguments: dict[str, Any], shown: dict[str, Any], **rule: Any) -> Approval:
    """Return a pending approval of which some arguments may not be seen."""
    return replace(an_editable(**rule), call=a_call(arguments=arguments, shown_arguments=canonical_text(shown)))


CARD = {"amount": 299, "card": {"holder": "ada", "number": "4111"}, "pins": ["1", "2"]}
SHOWN_CARD = {"amount": 299, "card": {"holder": "ada", "number": REDACTED}, "pins": REDACTED}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({**SHOWN_CARD, "amount": 199}, {**CARD, "amount": 199}),
        (
            {**SHOWN_CARD, "card": {"holder": "bob", "number": "42"}},
            {**CARD, "card": {"holder": "bob", "number": "42"}},
        ),
        ({**SHOWN_CARD, "pins": ["3"]}, {**CARD, "pins": ["3"]}),
        ({"amount": 299, "pins": REDACTED}, {"amount": 299, "pins": ["1", "2"]}),
    ],
    ids=["left", "replaced", "replaced whole", "removed"],
)
def test_a_mask_that_an_editor_leaves_keeps_the_value(wanted: dict[str, Any], expected: dict[str, Any]) -> None:
    """What they see and leave stays; what they write there takes its place; nothing is shown until policy spoke."""
    approval = a_masked(CARD, SHOWN_CARD)
    answer = rules.decide(approval, an_edit_of(approval, arguments=canonical_text(wanted)), NOON, a_directory())
    assert answer.proposal is not None
    assert (canonical_text(expected), "", canonical_text(SHOWN_CARD)) == (
        answer.proposal.arguments,
        answer.proposal.shown_arguments,
        answer.proposal.edited.proposed if answer.proposal.edited else "",
    )


@pytest.mark.parametrize(
    "wanted",
    [
        {**SHOWN_CARD, "amount": REDACTED},
        {**SHOWN_CARD, "card": {"holder": REDACTED, "number": "1"}},
        {**SHOWN_CARD, "note": REDACTED},
        {**SHOWN_CARD, "pins": [REDACTED, "2"]},
        {**SHOWN_CARD, "card": {"holder": {"number": REDACTED}}},
    ],
)
def test_a_mask_where_nothing_is_hidden_is_refused(wanted: dict[str, Any]) -> None:
    """No edit moves a hidden value to where it would be seen."""
    approval = a_masked(CARD, SHOWN_CARD)
    answer = rules.decide(approval, an_edit_of(approval, arguments=canonical_text(wanted)), NOON, a_directory())
    assert ("invalid", None, True) == (
        answer.outcome,
        answer.proposal,
        "write the value itself" in answer.detail,
    )


def test_a_mask_in_a_list_of_another_length_is_refused() -> None:
    """Which of the hidden values is meant cannot be told."""
    approval = a_masked({"pins": ["1", "2"]}, {"pins": [REDACTED, "2"]})
    answer = rules.decide(
        approval, an_edit_of(approval, arguments=canonical_text({"pins": [REDACTED]})), NOON, a_directory()
    )
    assert "invalid" == answer.outcome


@pytest.mark.parametrize("shown", ["", "{}", canonical_text({**SHOWN_CARD, "amount": 1}), "no JSON"])
def test_an_edit_is_not_made_where_policy_says_other_arguments_are_seen(shown: str) -> None:
    """People must see what runs, with nothing but values masked."""
    approval = a_masked(CARD, SHOWN_CARD)
    claims = an_edit_of(approval, arguments=canonical_text({**SHOWN_CARD, "amount": 199}))
    answer = settled(approval, claims, shown_arguments=shown)
    assert ("invalid", approval) == (answer.outcome, answer.after)


def test_differences_tell_of_a_hidden_value_only_that_it_changed() -> None:
    """Also where all of an object is hidden, or it was not there before."""
    before = a_call(arguments=CARD | {"box": {"a": 1}}, shown_arguments=canonical_text(SHOWN_CARD | {"box": REDACTED}))
    after = a_call(
        arguments={"amount": 299, "card": {"holder": "ada", "number": "42"}, "box": {"a": 2}, "key": "k"},
        shown_arguments=canonical_text(
            {"amount": 299, "card": {"holder": "ada", "number": REDACTED}, "box": REDACTED, "key": REDACTED}
        ),
    )
    assert [
        {"at": "/box", "before": REDACTED, "after": REDACTED},
        {"at": "/card/number", "before": REDACTED, "after": REDACTED},
        {"at": "/key", "after": REDACTED},
        {"at": "/pins", "before": REDACTED},
    ] == edits.differences(before, after)


def test_differences_name_each_place() -> None:
    """Added, changed and removed values by JSON pointer; lists are compared as wholes."""
    before = a_call(arguments={"a": 1, "b": {"c": [1, 2], "d": True}, "e": "x"})
    after = a_call(arguments={"a": 1.5, "b": {"c": [2], "d": True}, "f/g": None})
    assert [
        {"at": "/a", "before": 1, "after": 1.5},
        {"at": "/b/c", "before": [1, 2], "after": [2]},
        {"at": "/e", "before": "x"},
        {"at": "/f~1g", "after": None},
    ] == edits.differences(before, after)


@pytest.mark.parametrize(("was", "now"), [([0, {"force": 1}], [0, {"force": True}]), ([False], [0]), (1, True)])
def test_a_number_in_place_of_a_truth_value_is_a_difference(was: Any, now: Any) -> None:
    """The digests differ, and so what is told: an editor who made a 1 of true changed it, however deep it stands."""
    before, after = a_call(arguments={"flags": was, "a": [1, None]}), a_call(arguments={"flags": now, "a": [1, None]})
    assert [canonical_text([{"at": "/flags", "before": was, "after": now}])] == [
        canonical_text([each]) for each in edits.differences(before, after)
    ]


def test_edited_value_keeps_no_evidence_of_where_it_stood() -> None:
    """What the editor wrote stood nowhere before the call; what they left as it was keeps where it stood."""
    texts = canonical_text({"to": "eve@evil.example", "cc": "bob@shop.example"})
    origins = {"/to": ["tool:read_inbox"], "/cc": ["user"]}
    call = a_call(arguments=texts, shown_arguments=texts, origins=origins)
    approval = replace(an_editable(), call=call)
    wanted = canonical_text({"to": "ada@shop.example", "cc": "bob@shop.example"})
    proposal, _ = edits.revised(approval, an_edit_of(approval, arguments=wanted))
    assert proposal is not None
    assert {"/cc": ["user"]} == proposal.origins
