"""Votes, edits, delegations and the clock in any order, against a plain model that counts by hand."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from placet.approval import rules
from placet.approval.rules import Answer, Approval, Vote, take_step
from placet.approval.rules.approval import first_step_at
from placet.approval.states import State
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import DecisionClaims, Escalation, Panel
from placet.domain import votes
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import a_directory, an_approval, an_edit, an_edit_judged, claims_of, some_claims

NAMES = ("ada", "bob", "carl", "dora")
names = st.sampled_from(NAMES)
LEADS, FINANCE = {"carl"}, {"ada", "bob"}

terms = st.fixed_dictionaries(
    {
        "approvals": st.integers(1, 2),
        "alternatives": st.sampled_from([[], [Panel(approvers=["group:leads"])]]),
        "denials": st.integers(1, 2),
        "veto": st.sampled_from([[], ["person:dora"]]),
        "exclude": st.sampled_from([[], ["agent_owner"], ["requester"]]),
        "escalations": st.sampled_from([[], [Escalation(after_seconds=300, approvers=["person:dora"])]]),
    }
)


class Voting(RuleBasedStateMachine):
    """One approval of finance, with every wish that people can have."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.inactive: set[str] = set()
        #: Of the model: person -> verb for the arguments as they are.
        self.votes: dict[str, str] = {}
        #: Of the model: person -> panels that their vote filled when votes were last counted, and "veto".
        self.filled: dict[str, set[int | str]] = {}
        #: What the database would give back: every counted vote on the arguments as they are, oldest first.
        self.kept: list[Vote] = []
        #: Of the model: who gave their place -> to whom.
        self.places: dict[str, str] = {}
        self.escalated = False
        self.deadline = NOON
        self.ends: list[State] = []
        self.amount = 1

    @initialize(rule=terms)
    def open(self, rule: dict[str, Any]) -> None:
        """Hold the call."""
        made = an_approval_rule(approvers=["group:finance"], edits=True, **rule)
        call = a_call(requester="person:bob")
        self.approval: Approval = an_approval(call=call, approval_rule=made, next_step_at=first_step_at(made, NOON))
        self.deadline = self.approval.expires_at

    @property
    def directory(self) -> Directory:
        """Who is who now."""
        return a_directory(*self.inactive)

    def excluded(self, name: str) -> bool:
        """Tell whether somebody may do nothing, in the model's words."""
        four_eyes = {"carl": "agent_owner", "bob": "requester"}
        return name in self.inactive or four_eyes.get(name) in self.approval.approval_rule.exclude

    def panels(self) -> list[tuple[set[str], int]]:
        """Return who may approve and how many must, in the model's words."""
        terms = self.approval.approval_rule
        found = [(FINANCE, terms.approvals), *([(LEADS, 1)] if terms.alternatives else [])]
        more = {"dora"} if self.escalated else set()
        return [({name for name in people | more if not self.excluded(name)}, needed) for people, needed in found]

    def may(self, name: str, verb: str) -> bool:
        """Tell whether somebody's vote could count."""
        return bool(self.seats(name)) or (verb == "deny" and self.may_veto(name))

    def may_veto(self, name: str) -> bool:
        """Tell whether somebody's denial decides alone."""
        return name == "dora" and bool(self.approval.approval_rule.veto) and not self.excluded(name)

    def own(self, name: str) -> set[int]:
        """Return the panels of which somebody is."""
        return {number for number, (people, _) in enumerate(self.panels()) if name in people}

    def seats(self, name: str, voted: Collection[str] = ()) -> set[int]:
        """Return the panels in which somebody votes, also in the place of others who have not."""
        if self.excluded(name):
            return set()
        given = (giver for giver, to in self.places.items() if to == name and giver not in voted)
        return self.own(name).union(*map(self.own, given))

    def is_over(self) -> bool:
        """Tell whether it is too late for anything."""
        return self.approval.state is not State.PENDING or self.now >= self.deadline

    def count_again(self, newest: str) -> None:
        """Count by hand: whoever cannot decide now has voted in vain, and only the newest vote may count for more."""
        filled = {name: self.fills(name) for name in self.votes}
        self.filled = {
            name: now if name == newest else now & self.filled.get(name, set()) for name, now in filled.items()
        }

    def fills(self, name: str) -> set[int | str]:
        """Return what somebody's vote is good for by people and places as they are."""
        veto = {"veto"} if self.votes[name] == "deny" and self.may_veto(name) else set[str]()
        return {*self.seats(name, self.votes.keys() - {name}), *veto}

    def counted_end(self) -> State:
        """Return what all votes that count now are enough for."""
        terms, panels = self.approval.approval_rule, self.panels()
        seats = {name: self.fills(name) & self.filled[name] for name in self.votes}
        denials = [seats[name] for name, verb in self.votes.items() if verb == "deny"]
        if sum(1 for numbers in denials if numbers - {"veto"}) >= terms.denials or any("veto" in n for n in denials):
            return State.DENIED
        approvals = [seats[name] for name, verb in self.votes.items() if verb == "approve"]
        counted = [sum(1 for numbers in approvals if number in numbers) for number in range(len(panels))]
        enough = any(count >= least for count, (_, least) in zip(counted, panels, strict=True))
        return State.APPROVED if enough else State.PENDING

    def take(self, answer: Answer, claims: DecisionClaims, name: str, verb: str) -> None:
        """Check a vote's answer against the model, and go on from there."""
        late = self.now >= self.deadline
        if not self.may(name, verb):
            expected = ("not_allowed", self.approval.state)
        elif self.approval.state is not State.PENDING or late:
            over = self.approval.state if self.approval.state is not State.PENDING else State.EXPIRED
            expected = ("already_decided", over)
        else:
            self.votes[name] = verb
            self.count_again(name)
            expected = ("accepted", self.counted_end())
        assert answer.after is not None
        assert expected == (answer.outcome, answer.after.state)
        if answer.outcome == "accepted":
            self.kept.append(Vote(Voter.of(claims), verb))  # type: ignore[arg-type]
        self.move(answer.after)

    def move(self, after: Approval) -> None:
        """Take over what an answer left, and note an end."""
        if after.state is not self.approval.state:
            self.ends.append(after.state)
        assert after.revision >= self.approval.revision
        self.approval = after

    def others(self, claims: DecisionClaims) -> list[Vote]:
        """Return the votes that the store would load for this decision."""
        del claims
        return self.kept

    @rule(name=names, verb=st.sampled_from(["approve", "deny", "abstain"]))
    def vote(self, name: str, verb: str) -> None:
        """Somebody votes on the card as it is."""
        claims = claims_of(self.approval, name, verb)
        answer = rules.decide(self.approval, claims, self.now, self.directory, self.others(claims))
        self.take(answer, claims, name, verb)

    @rule(verbs=st.lists(st.sampled_from(["approve", "deny"]), min_size=2, max_size=2))
    def vote_together(self, verbs: list[str]) -> None:
        """All of finance vote, one after the other: what only chance would bring together otherwise."""
        for name, verb in zip(sorted(FINANCE), verbs, strict=True):
            self.vote(name, verb)

    @rule(verb=st.sampled_from(["approve", "deny"]))
    def vote_while_another_is_away(self, verb: str) -> None:
        """The other had voted, and comes back: by then two have said the same."""
        first, second = sorted(FINANCE)
        self.vote(first, verb)
        self.come_or_go(first)
        self.vote(second, verb)
        self.come_or_go(first)

    @rule(name=names, to=names)
    def give_a_place_to_a_voter(self, name: str, to: str) -> None:
        """Who has voted already gets another's place, and perhaps a panel with it."""
        self.vote(to, "approve")
        self.delegate(name, to)

    @rule(name=names)
    def edit(self, name: str) -> None:
        """Somebody changes the amount, and policy has nothing against it."""
        self.amount += 1
        arguments = canonical_text({"amount": self.amount, "currency": "TRY"})
        claims = claims_of(self.approval, name, "edit", arguments=arguments)
        answer = rules.decide(self.approval, claims, self.now, self.directory)
        if answer.proposal is not None:
            edit = an_edit(self.approval, claims)
            self.votes, self.kept, self.filled = {}, [], {}
            judged = an_edit_judged(edit)
            answer = rules.judge_edit(self.approval, edit, claims, judged, self.now, self.directory)
        self.take(answer, claims, name, "approve")

    @rule(name=names)
    def see_an_old_card(self, name: str) -> None:
        """A vote with another digest never counts."""
        claims = claims_of(self.approval, name, "approve", digest="f" * 64)
        answer = rules.decide(self.approval, claims, self.now, self.directory, self.kept)
        assert "accepted" != answer.outcome
        if answer.after is not None:
            self.move(answer.after)

    @rule(name=names, to=names)
    def delegate(self, name: str, to: str) -> None:
        """Somebody gives their place to another, who may vote in it until they do."""
        answer = self.ask(claims_of(self.approval, name, "delegate", to=f"person:{to}"))
        if not self.own(name):
            expected = "not_allowed"
        elif self.is_over():
            expected = "already_decided"
        else:
            expected = "invalid" if name == to or self.excluded(to) else "accepted"
        assert expected == answer.outcome
        if answer.outcome == "accepted":
            self.places[name] = to
        self.close(answer)

    @rule(name=names)
    def respond(self, name: str) -> None:
        """Somebody answers instead of the tool, who could deny alone."""
        answer = self.ask(claims_of(self.approval, name, "respond", response="Ask for the order first."))
        seats = self.seats(name, self.votes.keys() - {name})
        alone = self.may_veto(name) or (seats and self.approval.approval_rule.denials == 1)
        if not self.may(name, "deny"):
            expected = "not_allowed"
        elif self.is_over():
            expected = "already_decided"
        else:
            expected = "accepted" if alone else "invalid"
        assert expected == answer.outcome
        self.close(answer, State.ANSWERED)

    @rule(name=names)
    def cancel(self, name: str) -> None:
        """Bob, who asked for the call, takes it back; four eyes keep nobody from that."""
        roles = ["requester"] if name == "bob" else []
        claims = some_claims(self.approval, person=f"person:{name}", roles=roles, verb="cancel")
        answer = self.ask(claims)
        if name != "bob" or name in self.inactive:
            expected = "not_allowed"
        else:
            expected = "already_decided" if self.is_over() else "accepted"
        assert expected == answer.outcome
        self.close(answer, State.WITHDRAWN)

    def ask(self, claims: DecisionClaims) -> Answer:
        """Return what a wish comes to that is no vote."""
        return rules.decide(self.approval, claims, self.now, self.directory, self.kept)

    def close(self, answer: Answer, state: State = State.PENDING) -> None:
        """Check that an accepted wish left the state that it is for, and go on from there."""
        assert answer.after is not None
        assert answer.outcome != "accepted" or state is answer.after.state
        self.move(answer.after)

    @rule(name=names)
    def come_or_go(self, name: str) -> None:
        """Somebody is disabled, or comes back: their vote too, unless others voted meanwhile."""
        self.inactive ^= {name}

    @rule(seconds=st.integers(1, 1_500))
    def wait(self, seconds: int) -> None:
        """Time goes by; the clock does what is due."""
        self.now += timedelta(seconds=seconds)
        due = self.approval.next_step_at
        if self.approval.state is State.PENDING and due is not None and due <= self.now < self.deadline:
            self.approval, _ = take_step(self.approval)
            self.escalated = True

    @invariant()
    def what_is_enough_is_decided(self) -> None:
        """Whoever comes back, gets a place or is asked too: nothing waits for ever with all the votes that it takes."""
        waits = hasattr(self, "approval") and self.approval.state is State.PENDING
        assert not waits or votes.tally(self.approval, self.kept, self.directory).way is None
        assert not waits or self.counted_end() is State.PENDING

    @invariant()
    def it_ends_at_most_once(self) -> None:
        """A final state never changes, and what was decided was decided in time."""
        assert len(self.ends) <= 1
        if self.ends and self.ends[0] in {State.APPROVED, State.DENIED}:
            assert self.approval.closed_at is not None
            assert self.approval.closed_at < self.approval.expires_at
        assert not self.ends or self.approval.state is self.ends[0]

    @invariant()
    def the_deadline_is_the_models(self) -> None:
        """Nothing but people moves it."""
        assert not hasattr(self, "approval") or self.deadline == self.approval.expires_at


TestVoting = Voting.TestCase
TestVoting.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
