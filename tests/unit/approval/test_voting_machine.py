"""Votes, edits, delegations and the clock in any order, against a plain model that counts by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.approval import rules
from services.approval.rules import Answer, Approval, Vote, timers
from services.approval.states import State
from shared.canonical import canonical_text
from shared.deciders import Voter
from shared.directory import Directory
from shared.messages import DecisionClaims, Escalation, Panel
from tests.builders import NOON, an_approval_rule
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
        "exclude": st.sampled_from([[], ["agent_owner"]]),
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
        #: What the database would give back: every counted vote on the arguments as they are, oldest first.
        self.kept: list[Vote] = []
        self.escalated = False
        self.deadline = NOON
        self.ends: list[State] = []
        self.amount = 1

    @initialize(rule=terms)
    def open(self, rule: dict[str, Any]) -> None:
        """Hold the call."""
        made = an_approval_rule(approvers=["group:finance"], edits=True, **rule)
        self.approval: Approval = an_approval(approval_rule=made, next_step_at=timers.first_step_at(made, NOON))
        self.deadline = self.approval.expires_at

    @property
    def directory(self) -> Directory:
        """Who is who now."""
        return a_directory(*self.inactive)

    def excluded(self, name: str) -> bool:
        """Tell whether somebody may do nothing, in the model's words."""
        return name in self.inactive or (name == "carl" and "agent_owner" in self.approval.approval_rule.exclude)

    def panels(self) -> list[tuple[set[str], int]]:
        """Return who may approve and how many must, in the model's words."""
        terms = self.approval.approval_rule
        found = [(FINANCE, terms.approvals), *([(LEADS, 1)] if terms.alternatives else [])]
        more = {"dora"} if self.escalated else set()
        return [({name for name in people | more if not self.excluded(name)}, needed) for people, needed in found]

    def may(self, name: str, verb: str) -> bool:
        """Tell whether somebody's vote could count."""
        veto = verb == "deny" and name == "dora" and bool(self.approval.approval_rule.veto) and not self.excluded(name)
        return veto or any(name in people for people, _ in self.panels())

    def expected_end(self) -> State:
        """Count by hand."""
        terms, panels = self.approval.approval_rule, self.panels()
        everybody = set().union(*(people for people, _ in panels))
        denials = {name for name, verb in self.votes.items() if verb == "deny"}
        if len(denials & everybody) >= terms.denials or (
            terms.veto and "dora" in denials and not self.excluded("dora")
        ):
            return State.DENIED
        approvals = {name for name, verb in self.votes.items() if verb == "approve"}
        return State.APPROVED if any(len(approvals & who) >= least for who, least in panels) else State.PENDING

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
            expected = ("accepted", self.expected_end())
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
        return self.kept if rules.needs_votes(self.approval, claims, self.directory) else []

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

    @rule(name=names)
    def edit(self, name: str) -> None:
        """Somebody changes the amount, and policy has nothing against it."""
        self.amount += 1
        arguments = canonical_text({"amount": self.amount, "currency": "TRY"})
        claims = claims_of(self.approval, name, "edit", arguments=arguments)
        answer = rules.decide(self.approval, claims, self.now, self.directory)
        if answer.proposal is not None:
            edit = an_edit(self.approval, claims)
            self.votes, self.kept = {}, []
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

    @rule(name=names)
    def come_or_go(self, name: str) -> None:
        """Somebody is disabled, or comes back: their vote goes and comes with them."""
        self.inactive ^= {name}

    @rule(seconds=st.integers(1, 1_500))
    def wait(self, seconds: int) -> None:
        """Time goes by; the clock does what is due."""
        self.now += timedelta(seconds=seconds)
        due = self.approval.next_step_at
        if self.approval.state is State.PENDING and due is not None and due <= self.now < self.deadline:
            self.approval, _ = timers.take_step(self.approval)
            self.escalated = True

    @rule(verb=st.sampled_from(["pause", "resume", "extend"]))
    def move_the_clock(self, verb: str) -> None:
        """An operator stops the clock, lets it go on, or gives an hour more."""
        claims = some_claims(self.approval, person="person:eve", verb=verb, seconds=60)
        before = self.approval
        answer = rules.decide(before, claims, self.now, self.directory)
        assert answer.after is not None
        if answer.outcome == "accepted":
            stood = self.now - before.paused_at if before.paused_at else timedelta()
            gone = {"pause": timers.WAIT_MAX, "resume": stood - timers.WAIT_MAX, "extend": timedelta(minutes=1)}
            self.deadline += gone[verb]
        self.move(answer.after)

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
