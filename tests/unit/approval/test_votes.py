"""Votes: who counts, when that decides, and what a disabled person takes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from placet.approval import notices, rules
from placet.approval.rules import Answer, Approval, Vote
from placet.approval.rules.verbs import with_voters
from placet.approval.states import State
from placet.contracts.messages import DecisionClaims, Demand, Panel
from placet.contracts.messages.approvals import Verb
from placet.domain.deciders import Delegation, Voter
from placet.domain.directory import Directory
from placet.domain.votes import last_votes, tally
from tests.builders import NOON, an_approval_rule
from tests.support.approval_builders import a_directory, an_approval, claims_of, some_claims

TWO_OF_FINANCE: dict[str, Any] = {"approvers": ["group:finance", "person:dora"], "approvals": 2}


def held_by(**rule: Any) -> Approval:
    """Return a pending approval under a rule."""
    return an_approval(approval_rule=an_approval_rule(**rule))


def vote(name: str, verb: Any = "approve") -> Vote:
    """Return what a named person said before."""
    return Vote(Voter(f"person:{name}", (), "api_key"), verb)


def decide(approval: Approval, claims: DecisionClaims, *others: Vote, directory: Directory | None = None) -> Answer:
    """Return what a decision comes to after others' votes."""
    votes: Sequence[Vote] = others
    return rules.decide(approval, claims, NOON, directory or a_directory(), votes)


def outcome(answer: Answer) -> tuple[str, str]:
    """Return an answer's outcome and the approval's state after it."""
    return answer.outcome, answer.after.state if answer.after else ""


def test_the_first_of_two_approvals_counts_and_waits() -> None:
    """The card gets a new revision, and its digest stays good for the next voter."""
    approval = held_by(**TWO_OF_FINANCE)
    answer = decide(approval, claims_of(approval, "ada", "approve"))
    assert answer.after is not None
    assert ("accepted", State.PENDING, "voted", 2) == (*outcome(answer), answer.progress, answer.after.revision)
    assert "1 of 2 approvals" in answer.detail


def test_the_second_of_two_approvals_decides_though_its_card_is_older() -> None:
    """A vote in between makes no card stale: the digest binds, the card's number does not."""
    approval = held_by(**TWO_OF_FINANCE)
    seen = claims_of(approval, "bob", "approve", revision=1)
    after = decide(approval, claims_of(approval, "ada", "approve")).after
    assert after is not None
    assert ("accepted", State.APPROVED) == outcome(decide(after, seen, vote("ada")))


def test_one_person_counts_once() -> None:
    """Approving twice, over whatever channel, is one approval."""
    approval = held_by(**TWO_OF_FINANCE)
    again = claims_of(approval, "ada", "approve", proof="slack")
    assert ("accepted", State.PENDING) == outcome(decide(approval, again, vote("ada")))


@pytest.mark.parametrize("verb", ["deny", "abstain"])
def test_a_changed_mind_replaces_the_vote(verb: Any) -> None:
    """Who approved and then did not, is no approval for the next."""
    approval = held_by(**TWO_OF_FINANCE, denials=2)
    assert ("accepted", State.PENDING) == outcome(
        decide(approval, claims_of(approval, "bob", "approve"), vote("ada"), vote("ada", verb))
    )


@pytest.mark.parametrize("verb", ["approve", "deny", "abstain", "delegate"])
def test_what_was_signed_before_ones_last_word_does_not_replace_it(verb: Any) -> None:
    """A broker may bring an older decision behind a newer one: the one that was signed last stands."""
    approval = held_by(**TWO_OF_FINANCE, denials=2)
    older = claims_of(approval, "ada", verb, at=1.0, to="person:dora" if verb == "delegate" else "")
    late = rules.decide(approval, older, NOON, a_directory(), [vote("ada", "abstain")], 2.0)
    again = rules.decide(approval, older, NOON, a_directory(), [vote("ada", "abstain")], 1.0)
    assert ("stale", approval, "accepted") == (late.outcome, late.after, again.outcome)
    assert "You have decided again since" in late.detail


def test_a_disabled_person_takes_their_vote_with_them() -> None:
    """The deciding vote recounts: what was enough yesterday waits for somebody else."""
    approval = held_by(**TWO_OF_FINANCE)
    second = claims_of(approval, "bob", "approve")
    assert ("accepted", State.PENDING) == outcome(decide(approval, second, vote("ada"), directory=a_directory("ada")))


def test_who_left_the_group_counts_no_more() -> None:
    """Membership is the directory's as it is now, not as it was at the vote."""
    approval = held_by(**TWO_OF_FINANCE)
    groups = {"finance": frozenset({"bob"})}
    second = claims_of(approval, "bob", "approve")
    assert ("accepted", State.PENDING) == outcome(
        decide(approval, second, vote("ada"), directory=a_directory(groups=groups))
    )


@pytest.mark.parametrize(
    ("key_id", "operators", "after"),
    [
        (None, {"ada", "bob"}, State.APPROVED),
        (None, {"bob"}, State.PENDING),
        ("key-ada", {"bob"}, State.APPROVED),
    ],
)
def test_who_left_the_operators_counts_as_one_by_a_key_alone(
    key_id: str | None, operators: set[str], after: State
) -> None:
    """Whoever votes without a key is an operator as long as the group of that name has them."""
    approval = held_by(approvers=["operators"], approvals=2)
    directory = a_directory(groups={"operators": frozenset(operators)})
    first = Vote(Voter("person:ada", ("operators",), "web_session", key_id=key_id), "approve")
    second = some_claims(approval, proof="slack")
    assert ("accepted", after) == outcome(decide(approval, second, first, directory=directory))


def test_a_disabled_person_decides_nothing() -> None:
    """Nor do they learn whether there was anything to decide."""
    approval = held_by(approvers=["person:ada"])
    answer = decide(approval, claims_of(approval, "ada", "approve"), directory=a_directory("ada"))
    assert ("not_allowed", State.PENDING) == outcome(answer)


@pytest.mark.parametrize(
    ("votes", "last", "state"),
    [
        ([], "carl", State.APPROVED),
        ([], "ada", State.PENDING),
        (["ada"], "bob", State.APPROVED),
        (["ada"], "dora", None),
    ],
)
def test_any_one_panel_is_enough(votes: list[str], last: str, state: State | None) -> None:
    """One lead, or two from finance; who is in no panel is not asked."""
    rule = {"approvers": ["group:leads"], "alternatives": [Panel(approvers=["group:finance"], approvals=2)]}
    approval = held_by(**rule)
    answer = decide(approval, claims_of(approval, last, "approve"), *map(vote, votes))
    expected = ("accepted", state) if state else ("not_allowed", State.PENDING)
    assert expected == outcome(answer)


LEADS_TOO = [Demand(panels=[Panel(approvers=["group:leads"])])]


@pytest.mark.parametrize(
    ("votes", "last", "state"),
    [
        ([], "ada", State.PENDING),
        (["ada"], "bob", State.PENDING),
        (["ada"], "carl", State.APPROVED),
        (["carl"], "ada", State.APPROVED),
    ],
)
def test_every_demand_must_be_met(votes: list[str], last: str, state: State) -> None:
    """Finance and the leads must both say yes, in whatever order; two of finance are no lead."""
    approval = held_by(approvers=["group:finance"], also=LEADS_TOO)
    assert ("accepted", state) == outcome(decide(approval, claims_of(approval, last, "approve"), *map(vote, votes)))


def test_one_person_may_meet_every_demand() -> None:
    """Who belongs to a panel of each says yes to all of it with one approval."""
    demand = Demand(panels=[Panel(approvers=["person:ada"])])
    approval = held_by(approvers=["group:finance"], also=[demand])
    assert ("accepted", State.APPROVED) == outcome(decide(approval, claims_of(approval, "ada", "approve")))


def test_a_demands_condition_is_asked_of_its_places_alone() -> None:
    """Ada may decide for finance; the demand that wants another one than her is not met by her."""
    demand = Demand(panels=[Panel(approvers=["group:finance"])], condition="person.id != 'person:ada'")
    approval = held_by(approvers=["group:finance"], also=[demand])
    first = decide(approval, claims_of(approval, "ada", "approve"))
    second = decide(approval, claims_of(approval, "bob", "approve"))
    assert [("accepted", State.PENDING), ("accepted", State.APPROVED)] == [outcome(first), outcome(second)]
    assert "1 of 1 and 0 of 1 approvals" in first.detail


def test_a_denial_for_one_demand_decides_for_all() -> None:
    """Who may say no to a part says no to the whole."""
    approval = held_by(approvers=["group:finance"], also=LEADS_TOO)
    assert ("accepted", State.DENIED) == outcome(decide(approval, claims_of(approval, "carl", "deny")))


def test_two_of_different_panels_are_not_two_of_one() -> None:
    """A quorum is counted panel by panel."""
    panel = Panel(approvers=["group:finance"], approvals=2)
    approval = held_by(approvers=["group:leads", "person:dora"], approvals=2, alternatives=[panel])
    answer = decide(approval, claims_of(approval, "carl", "approve"), vote("ada"))
    assert ("accepted", State.PENDING) == outcome(answer)


@pytest.mark.parametrize(("before", "state"), [([], State.PENDING), ([("ada", "deny")], State.DENIED)])
def test_so_many_denials_decide(before: list[tuple[str, str]], state: State) -> None:
    """One denial of two waits for another."""
    approval = held_by(**TWO_OF_FINANCE, denials=2)
    answer = decide(approval, claims_of(approval, "bob", "deny"), *[vote(*each) for each in before])
    assert ("accepted", state) == outcome(answer)


def test_a_lone_approval_comes_too_late_where_denials_decide() -> None:
    """Who denied and counts again since goes before the one whose yes would be enough; nobody denies by approving."""
    lone = Panel(approvers=["group:leads"], approvals=1)
    approval = held_by(**TWO_OF_FINANCE, denials=2, alternatives=[lone])
    denials = [vote("ada", "deny"), vote("bob", "deny")]
    assert ("accepted", State.PENDING) == outcome(decide(approval, claims_of(approval, "carl", "approve"), *denials))


def test_an_abstention_decides_nothing() -> None:
    """Votes that count again since are enough, and still nobody has approved by abstaining."""
    approval = held_by(**TWO_OF_FINANCE)
    answer = decide(approval, claims_of(approval, "dora", "abstain"), vote("ada"), vote("bob"))
    assert ("accepted", State.PENDING, "voted") == (*outcome(answer), answer.progress)


def test_a_veto_decides_alone() -> None:
    """Who may veto needs nobody else, and need not be an approver."""
    approval = held_by(**TWO_OF_FINANCE, denials=2, veto=["group:leads"])
    assert ("accepted", State.DENIED) == outcome(decide(approval, claims_of(approval, "carl", "deny")))
    assert "not_allowed" == decide(approval, claims_of(approval, "carl", "approve")).outcome


def test_a_veto_that_stands_among_the_votes_decides() -> None:
    """Also as one of several votes that are counted: it needs no second denial, and no yes goes before it."""
    approval = held_by(**TWO_OF_FINANCE, denials=2, veto=["group:leads"])
    assert "deny" == tally(approval, [vote("ada"), vote("bob"), vote("carl", "deny")], a_directory()).way


@pytest.mark.parametrize(
    ("exclude", "who", "allowed"),
    [
        ([], "carl", "accepted"),
        (["agent_owner"], "carl", "not_allowed"),
        (["requester"], "carl", "accepted"),
        (["requester"], "dora", "not_allowed"),
        (["requester", "agent_owner"], "ada", "accepted"),
    ],
)
def test_four_eyes_exclude_whatever_groups_say(exclude: list[Any], who: str, allowed: str) -> None:
    """Requester and agent's owner cannot approve where the rule excludes them."""
    everybody = ["operators", "requester", *(f"person:{name}" for name in ("ada", "carl", "dora"))]
    approval = held_by(approvers=everybody, exclude=exclude)
    call = approval.call.model_copy(update={"requester": "person:dora"})
    approval = rules.Approval(**{name: getattr(approval, name) for name in Approval.__slots__} | {"call": call})
    claims = claims_of(approval, who, "approve")
    claims = claims.model_copy(update={"roles": ["operators", "requester"]})
    assert allowed == decide(approval, claims).outcome


@pytest.mark.parametrize(
    ("needed", "proof", "expected"),
    [
        ("link", "link", "accepted"),
        ("slack", "link", "too_weak"),
        ("slack", "slack", "accepted"),
        ("web", "slack", "too_weak"),
        ("web", "web_session", "accepted"),
        ("web", "api_key", "accepted"),
    ],
)
def test_a_weak_proof_does_not_decide(needed: Any, proof: Any, expected: str) -> None:
    """A mailed link is weaker than Slack, and Slack is weaker than a web login."""
    approval = held_by(approvers=["person:ada"], min_strength=needed)
    assert expected == decide(approval, claims_of(approval, "ada", "approve", proof=proof)).outcome


@pytest.mark.parametrize(
    ("rule", "proof", "expected"),
    [
        ({"by_message": True}, "conversation_token", "not_allowed"),
        ({"by_message": True}, "api_key", "accepted"),
        ({"by_message": True}, "link", "accepted"),
        ({"by_message": True, "min_strength": "chat"}, "web_session", "accepted"),
        ({"by_message": True, "min_strength": "chat"}, "link", "too_weak"),
        ({"by_message": True, "min_strength": "slack"}, "api_key", "too_weak"),
        ({}, "api_key", "invalid"),
    ],
)
def test_what_is_said_in_the_chat_is_known_by_the_chat_at_most(rule: Any, proof: Any, expected: str) -> None:
    """A rule must allow it, whatever the gateway signs; and no proof makes a message stronger than the chat."""
    approval = held_by(approvers=["person:ada"], **rule)
    assert expected == decide(approval, claims_of(approval, "ada", "approve", proof=proof, said="yes")).outcome


@pytest.mark.parametrize(
    ("required", "verb", "reason", "expected"),
    [
        ("never", "deny", "", "accepted"),
        ("deny", "deny", " ", "invalid"),
        ("deny", "deny", "too much", "accepted"),
        ("deny", "approve", "", "accepted"),
        ("always", "approve", "", "invalid"),
        ("always", "approve", "fine", "accepted"),
    ],
)
def test_a_reason_is_given_where_the_rule_wants_one(required: Any, verb: str, reason: str, expected: str) -> None:
    """Blanks are no reason."""
    approval = held_by(approvers=["person:ada"], reason_required=required)
    assert expected == decide(approval, claims_of(approval, "ada", verb, reason=reason)).outcome


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('"finance" in person.groups', "accepted"),
        ('"leads" in person.groups', "not_allowed"),
        ("call.arguments.amount < 300", "accepted"),
        ("call.arguments.missing < 300", "not_allowed"),
        ("this is no CEL", "not_allowed"),
    ],
)
def test_a_condition_without_a_yes_is_a_no(condition: str, expected: str) -> None:
    """False, an error and nonsense all mean that this person may not decide."""
    approval = held_by(approvers=["person:ada"], condition=condition)
    assert expected == decide(approval, claims_of(approval, "ada", "approve")).outcome


def test_a_visitor_called_like_a_person_is_not_that_person() -> None:
    """A visitor's id is chosen by the frontend: it neither replaces a named person's vote nor has their groups."""
    rule = an_approval_rule(approvers=["requester", "person:ada"], approvals=2, denials=2)
    approval = an_approval(approval_rule=rule)
    call = approval.call.model_copy(update={"requester": "person:ada"})
    approval = rules.Approval(**{name: getattr(approval, name) for name in Approval.__slots__} | {"call": call})
    visitor = some_claims(
        approval,
        person="person:ada",
        roles=["requester"],
        proof="conversation_token",
        conversation_id="conversation-1",
    )
    assert ("accepted", State.APPROVED) == outcome(decide(approval, visitor, vote("ada")))


def test_who_opened_the_conversation_is_its_visitor_for_four_eyes() -> None:
    """Ada asked with the token of a conversation that she opened with a key that may decide: two pairs of eyes."""
    approval = held_by(approvers=["group:finance"], exclude=["requester"])
    asker = claims_of(approval, "ada", "approve", opened_by="person:ada")
    other = claims_of(approval, "bob", "approve", opened_by="person:ada")
    assert ("not_allowed", "accepted") == (decide(approval, asker).outcome, decide(approval, other).outcome)
    place = claims_of(approval, "bob", "delegate", to="person:ada", opened_by="person:ada")
    assert "invalid" == decide(approval, place).outcome


def test_who_made_the_requesters_key_may_have_asked_for_four_eyes() -> None:
    """Ada and carl each made bob a key that he has not taken over: either may have asked in his name."""
    approval = held_by(approvers=["group:finance"], exclude=["requester"])
    call = approval.call.model_copy(update={"requester": "person:bob"})
    approval = rules.Approval(**{name: getattr(approval, name) for name in Approval.__slots__} | {"call": call})
    made = {"opened_by": "person:ada person:carl"}
    assert ["not_allowed", "not_allowed", "not_allowed", "accepted"] == [
        decide(approval, claims_of(approval, name, "approve", **more)).outcome
        for name, more in (("ada", made), ("carl", made), ("bob", {}), ("ada", {}))
    ]


def test_a_token_and_the_key_that_opened_its_conversation_count_once() -> None:
    """One human with two proofs fills one place; a token whose opener only relays is somebody else."""
    approval = held_by(approvers=["requester", "person:ada"], approvals=2)
    asker = Voter(approval.call.requester, ("requester",), "conversation_token", approval.call.conversation_id)
    hers = Vote(replace(asker, opened_by="person:ada"), "approve")
    key = claims_of(approval, "ada", "approve", opened_by="person:ada")
    assert ("accepted", State.PENDING) == outcome(decide(approval, key, hers))
    relayed = claims_of(approval, "ada", "approve")
    assert ("accepted", State.APPROVED) == outcome(decide(approval, relayed, Vote(asker, "approve")))


def test_a_token_that_several_people_hold_counts_once_with_any_of_them() -> None:
    """Bob took dee's token and dee took it after him: a vote with it and one with bob's key may both be bob's."""
    approval = held_by(approvers=["requester", "person:ada", "person:bob", "person:carl"], approvals=2)
    asker = Voter(approval.call.requester, ("requester",), "conversation_token", approval.call.conversation_id)
    keys = {name: claims_of(approval, name, "approve") for name in ("ada", "bob", "carl")}
    for opened_by in ("person:ada person:bob", "person:bob person:ada", "- person:front person:bob person:ada"):
        token = Vote(replace(asker, opened_by=opened_by), "approve")
        mine = some_claims(
            approval,
            person=asker.person,
            roles=["requester"],
            proof="conversation_token",
            conversation_id=asker.conversation_id,
            opened_by=opened_by,
        )
        for holder in ("ada", "bob"):
            assert ("accepted", State.PENDING) == outcome(decide(approval, keys[holder], token))
            assert "invalid" == decide(approval, mine, vote(holder)).outcome
        assert ("accepted", State.APPROVED) == outcome(decide(approval, keys["carl"], token))
        assert ("accepted", State.APPROVED) == outcome(decide(approval, keys["ada"], token, vote("bob")))


def test_an_operator_who_wrote_in_a_conversation_may_have_asked_and_holds_no_token() -> None:
    """Under four eyes they approve nothing of it; else their yes and the visitor's are two people's."""
    barred = held_by(approvers=["operators"], exclude=["requester"])
    theirs = some_claims(barred, person="person:ada", roles=["operators"], opened_by="- person:front ~person:ada")
    assert "not_allowed" == decide(barred, theirs).outcome
    approval = held_by(approvers=["requester", "person:ada"], approvals=2)
    asker = Voter(approval.call.requester, ("requester",), "conversation_token", approval.call.conversation_id)
    token = Vote(replace(asker, opened_by="- person:front ~person:ada"), "approve")
    assert ("accepted", State.APPROVED) == outcome(decide(approval, claims_of(approval, "ada", "approve"), token))


def test_a_token_counts_once_whoever_took_it_between_two_votes() -> None:
    """It spoke when nobody held it, and again when bob did: one visitor, and perhaps bob."""
    approval = held_by(approvers=["requester", "person:bob", "person:carl"], approvals=3)
    asker = Voter(approval.call.requester, ("requester",), "conversation_token", approval.call.conversation_id)
    said = [Vote(asker, "approve"), Vote(replace(asker, opened_by="person:bob"), "approve")]
    assert [said[1]] == list(last_votes(said).values())
    assert ["person:bob"] == list(last_votes([*said, vote("bob")]))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_token_replaces_nobodys_own_vote(order: tuple[int, ...]) -> None:
    """Ada and bob hold it and have voted themselves: whatever it says, and whenever, what they said stands."""
    asker = Voter("v-42", ("requester",), "conversation_token", "conversation-1", None, "person:ada person:bob")
    for own in ("approve", "deny", "abstain"):
        for said in ("approve", "deny", "abstain"):
            cast = [vote("ada"), replace(vote("bob"), verb=own), Vote(asker, said)]
            found = last_votes([cast[at] for at in order])
            assert ("approve", own) == (found["person:ada"].verb, found["person:bob"].verb)
            alone = said == "deny" and own != "deny"
            assert alone == (asker.identity in found)
            assert found == last_votes(found.values())


def test_a_token_never_stands_in_a_place_that_was_given_to_its_opener() -> None:
    """Counting as a person gives none of their rights."""
    approval = delegated(held_by(approvers=["person:carl"]), "carl", "ada")
    token = some_claims(
        approval,
        person=approval.call.requester,
        roles=["requester"],
        proof="conversation_token",
        conversation_id=approval.call.conversation_id,
        opened_by="person:ada",
    )
    assert "not_allowed" == decide(approval, token).outcome


def test_nobody_unlisted_is_given_a_place() -> None:
    """Where the directory lists people, a place given to anybody else would be lost."""
    approval = held_by(approvers=["person:ada"])
    claims = claims_of(approval, "ada", "delegate", to="person:nobody")
    assert "invalid" == decide(approval, claims).outcome
    assert "accepted" == decide(approval, claims, directory=Directory()).outcome


def delegated(approval: Approval, by: str, to: str) -> Approval:
    """Return the approval after one person let another decide in their place."""
    after = decide(approval, claims_of(approval, by, "delegate", to=f"person:{to}")).after
    assert after is not None
    return after


def test_a_delegate_decides_in_somebodys_place() -> None:
    """Dora is not asked until ada lets her."""
    approval = held_by(approvers=["person:ada"])
    assert "not_allowed" == decide(approval, claims_of(approval, "dora", "approve")).outcome
    after = delegated(approval, "ada", "dora")
    assert ("accepted", State.APPROVED) == outcome(decide(after, claims_of(after, "dora", "approve")))


def test_nobody_gives_a_place_away_over_another_call() -> None:
    """A place is given for the call that was shown, like a vote."""
    approval = held_by(**TWO_OF_FINANCE)
    stale = claims_of(approval, "ada", "delegate", to="person:dora", digest="0" * 64)
    assert "stale" == decide(approval, stale).outcome


def test_a_place_is_filled_once() -> None:
    """Ada and her delegate together are one approval, in whichever order they vote."""
    approval = delegated(held_by(**TWO_OF_FINANCE), "ada", "carl")
    assert ("accepted", State.PENDING) == outcome(decide(approval, claims_of(approval, "ada", "approve"), vote("carl")))


@pytest.mark.parametrize("verb", ["approve", "deny", "abstain"])
def test_what_would_count_for_nothing_is_refused(verb: Verb) -> None:
    """A delegate whose place was filled by who gave it is told so, and nobody takes their denial for heard."""
    approval = delegated(held_by(**TWO_OF_FINANCE), "ada", "carl")
    answer = decide(approval, claims_of(approval, "carl", verb), vote("ada"))
    told = "Whoever let you decide in their place has voted: your vote adds nothing."
    assert ("invalid", told) == (answer.outcome, answer.detail)


@pytest.mark.parametrize(
    ("denials", "before", "expected"), [(1, [], "accepted"), (1, ["ada"], "invalid"), (2, [], "invalid")]
)
def test_a_delegate_answers_instead_of_the_tool_where_their_denial_would_decide(
    denials: int, before: list[str], expected: str
) -> None:
    """Not in a place that is filled, and not where it takes a second denial."""
    approval = delegated(held_by(**TWO_OF_FINANCE, denials=denials), "ada", "carl")
    said = claims_of(approval, "carl", "respond", response="Ask first.")
    answer = decide(approval, said, *map(vote, before))
    state = State.ANSWERED if expected == "accepted" else State.PENDING
    assert (expected, state) == outcome(answer)


def test_a_second_delegation_replaces_the_first() -> None:
    """Nobody makes two voters out of one place."""
    approval = delegated(delegated(held_by(**TWO_OF_FINANCE), "ada", "carl"), "ada", "dora")
    assert "not_allowed" == decide(approval, claims_of(approval, "carl", "approve")).outcome
    assert 1 == len(approval.delegations)


def test_a_delegation_of_a_disabled_person_is_void() -> None:
    """A delegate has no more right than who let them."""
    approval = delegated(held_by(approvers=["person:ada"]), "ada", "dora")
    answer = decide(approval, claims_of(approval, "dora", "approve"), directory=a_directory("ada"))
    assert "not_allowed" == answer.outcome


@pytest.mark.parametrize("to", ["ada", "carl"])
def test_nobody_excluded_becomes_a_delegate(to: str) -> None:
    """Not the agent's owner where four eyes exclude them, and not oneself."""
    approval = held_by(approvers=["person:ada"], exclude=["agent_owner"])
    answer = decide(approval, claims_of(approval, "ada", "delegate", to=f"person:{to}"))
    assert ("invalid", State.PENDING) == outcome(answer)


@pytest.mark.parametrize(
    ("said", "kind"),
    [({}, "instruction"), ({"response_kind": "instruction"}, "instruction"), ({"response_kind": "result"}, "result")],
)
def test_an_answer_instead_of_running_ends_the_call(said: dict[str, Any], kind: str) -> None:
    """The model gets the person's words, typed as an answer, and as what kind of one; nobody need say which."""
    approval = held_by(approvers=["person:ada"])
    answer = decide(approval, claims_of(approval, "ada", "respond", response="Use the other shop.", **said))
    assert answer.after is not None
    assert (State.ANSWERED, "answered", kind, "Use the other shop.") == (
        answer.after.state,
        answer.after.result_kind,
        answer.after.answer_kind,
        answer.after.decision_reason,
    )


def test_nobody_answers_alone_where_one_denial_is_not_enough() -> None:
    """An answer keeps a call from running, so it takes as much as a denial does."""
    approval = held_by(**TWO_OF_FINANCE, denials=2)
    assert "invalid" == decide(approval, claims_of(approval, "ada", "respond", response="No.")).outcome


def test_a_claim_is_seen_times_out_and_binds_nobody() -> None:
    """Others are told who is on it, cannot take it over meanwhile, and may decide all the same."""
    approval = held_by(approvers=["group:finance"])
    claimed = decide(approval, claims_of(approval, "ada", "claim", seconds=60)).after
    assert claimed is not None
    assert ("person:ada", 60.0) == (claimed.claimed_by, ((claimed.claimed_until or NOON) - NOON).total_seconds())
    assert "invalid" == decide(claimed, claims_of(approval, "bob", "claim")).outcome
    later = claimed.claimed_until or NOON
    taken = rules.decide(claimed, claims_of(approval, "bob", "claim"), later, a_directory())
    assert ("accepted", "claimed") == (taken.outcome, taken.progress)
    assert ("accepted", State.APPROVED) == outcome(decide(claimed, claims_of(approval, "bob", "approve")))


@pytest.mark.parametrize("who", ["requester", "operators"])
def test_requester_and_operators_may_cancel(who: Any) -> None:
    """What waits is withdrawn, and the model hears who cancelled it."""
    approval = held_by(approvers=["person:ada"])
    person = "visitor-1" if who == "requester" else "person:dora"
    claims = some_claims(approval, verb="cancel", person=person, roles=[who], reason="wrong size")
    answer = decide(approval, claims)
    assert answer.after is not None
    assert (State.WITHDRAWN, "cancelled", True) == (
        answer.after.state,
        answer.after.result_kind,
        f"{person} cancelled it: wrong size" in (answer.after.decision_reason or ""),
    )


def test_a_cancel_after_the_approval_says_that_it_may_have_run() -> None:
    """It changes nothing and claims nothing."""
    approval = held_by(approvers=["person:ada"])
    over = decide(approval, claims_of(approval, "ada", "approve")).after
    assert over is not None
    answer = decide(over, some_claims(over, verb="cancel"))
    assert ("already_decided", True) == (answer.outcome, "may be running or done" in answer.detail)


def test_rights_come_before_everything_else() -> None:
    """A stranger hears the same of an approval that waits and of one that is over."""
    approval = held_by(approvers=["person:ada"])
    over = decide(approval, claims_of(approval, "ada", "approve")).after
    assert over is not None
    answers = {decide(each, claims_of(each, "dora", "deny")).detail for each in (approval, over)}
    assert 1 == len(answers)


@pytest.mark.parametrize(
    "reason", ["", " ", "\u200b", "\u2060 \ufeff", "\u00a0", "\u3164", "\u2800", "\u034f\ufe0f", "\u0301"]
)
def test_a_reason_without_anything_to_read_is_none(reason: str) -> None:
    """Characters without a shape say nothing, neither as a reason nor as an answer."""
    approval = held_by(approvers=["person:ada"], reason_required="always")
    assert "invalid" == decide(approval, claims_of(approval, "ada", "approve", reason=reason)).outcome
    assert "invalid" == decide(approval, claims_of(approval, "ada", "respond", response=reason)).outcome
    assert "accepted" == decide(approval, claims_of(approval, "ada", "approve", reason="\u200b好")).outcome


@pytest.mark.parametrize(
    ("seats", "place", "closed"),
    [
        ({"person:ada": []}, False, False),
        ({"person:ada": [0]}, False, True),
        (None, False, True),
        ({"person:ada": [0]}, True, False),
        ({"person:ada": [0, 1]}, True, True),
    ],
    ids=["void", "counts", "never kept", "new place", "old place"],
)
def test_a_vote_closes_an_approval_to_its_maker_as_long_as_it_counts(
    seats: dict[str, list[int]] | None,
    place: bool,  # noqa: FBT001
    closed: bool,  # noqa: FBT001
) -> None:
    """Not where it counts for nothing, and not where a place came to its maker that counts for more."""
    lead = Panel(approvers=["person:bob"])
    approval = held_by(approvers=["person:ada"], approvals=2, alternatives=[lead], exclude=["requester"])
    given = Delegation(Voter("person:bob", (), "api_key"), "person:ada")
    kept = None if seats is None else {name: frozenset(numbers) for name, numbers in seats.items()}
    approval = replace(approval, seats=kept, delegations=(given,) if place else ())
    after = with_voters(approval, [Vote(Voter("person:ada", (), "api_key", key_id="k"), "approve")], a_directory())
    requester = {approval.call.requester: None}
    assert ({"person:ada": "k"}, requester | ({"person:ada": "k"} if closed else {})) == (after.voters, after.closed_to)


def test_a_vote_of_which_no_place_was_kept_fills_none() -> None:
    """Only what a vote counted for when it was made can count later; where none was kept, people of now say."""
    approval = held_by(approvers=["person:ada"])
    kept = replace(approval, seats={})
    assert [None, "approve"] == [tally(each, [vote("ada")], a_directory()).way for each in (kept, approval)]


def test_an_approval_is_published_as_closed_to_whom_voted_and_whom_four_eyes_exclude() -> None:
    """From its opening on, with every vote, and anew with every edit."""
    approval = held_by(**TWO_OF_FINANCE)
    after = decide(approval, claims_of(approval, "ada", "approve")).after
    assert after is not None
    assert ({}, {"person:ada": None}, {"person:ada": None}) == (approval.closed_to, after.closed_to, after.voters)


@pytest.mark.parametrize(("rule", "state", "ends"), [({}, State.DENIED, True), ({"denials": 2}, State.PENDING, False)])
def test_a_denial_that_decides_may_end_the_turn(rule: dict[str, Any], state: State, *, ends: bool) -> None:
    """The turn ends with the vote that closes the approval; one that only counts ends nothing."""
    approval = held_by(**TWO_OF_FINANCE, **rule)
    after = decide(approval, claims_of(approval, "ada", "deny", end_turn=True)).after
    assert after is not None
    assert (state, ends) == (after.state, after.ends_turn)
    assert not ends or notices.refused(after).ends_turn


def test_an_approval_ends_no_turn() -> None:
    """Whatever a decision says beside it, only a denial ends the turn."""
    approval = held_by(approvers=["person:ada"])
    after = decide(approval, claims_of(approval, "ada", "approve", end_turn=True)).after
    assert after is not None
    assert (State.APPROVED, False) == (after.state, after.ends_turn)
