"""One delivery under every order of news, tries, lost answers and late workers, against a plain model of a surface."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from placet.notifier import rules
from placet.notifier.cards import DOUBT
from placet.notifier.rules import Delivery, Moved, Tried
from placet.notifier.states import MACHINE, Event, State
from tests.builders import NOON
from tests.support.cards import a_delivery


class Deliveries(RuleBasedStateMachine):
    """A delivery, a surface that shows one card per place, and workers that answer, fail, and come late."""

    def __init__(self) -> None:
        super().__init__()
        self.now: datetime = NOON
        self.delivery = a_delivery()
        #: Claims whose worker has not settled yet; only the newest one counts.
        self.claims: list[Delivery] = []
        #: What the surface shows: place -> version.
        self.surface: dict[str, int] = {}
        self.lost = 0
        #: Versions of which the channel said that there was nothing to show.
        self.passed_over: set[int] = set()
        self.revision = 1
        self.path: list[tuple[State, State, Event]] = []

    @initialize(asleep=st.booleans())
    def begin(self, asleep: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        """Begin due, or asleep."""
        self.delivery = a_delivery(State.ASLEEP if asleep else State.DUE)

    def _take(self, moved: Moved) -> None:
        assert self.delivery is moved.before
        self.path.append((moved.before.state, moved.after.state, moved.event))
        self.delivery = moved.after

    @precondition(lambda self: self.delivery.card.is_open)
    @rule()
    def news(self) -> None:
        """The approval moves on."""
        self.revision += 1
        card = replace(self.delivery.card, revision=self.revision)
        self._take(rules.revised(self.delivery, card, self.now))

    @precondition(lambda self: self.delivery.card.is_open)
    @rule()
    def end(self) -> None:
        """The approval is over."""
        self.revision += 1
        card = replace(self.delivery.card, revision=self.revision, state="approved")
        self._take(rules.revised(self.delivery, card, self.now))

    @precondition(lambda self: not self.delivery.card.is_open and not self.delivery.card.ended)
    @rule()
    def ran(self) -> None:
        """The call itself ended."""
        self._take(rules.revised(self.delivery, replace(self.delivery.card, ended="succeeded"), self.now))

    @rule(event=st.sampled_from([Event.ESCALATED, Event.FELL_BACK]))
    def wake(self, event: Event) -> None:
        """Its place is to be told too."""
        if event is Event.FELL_BACK and self.delivery.state is not State.ASLEEP:
            return
        self._take(rules.woken(self.delivery, event, self.now))

    @rule()
    def retry(self) -> None:
        """An operator wants another try."""
        self._take(rules.retried(self.delivery, self.now))

    @precondition(lambda self: self.delivery.state is State.DUE)
    @rule()
    def claim(self) -> None:
        """A worker takes it; the lease of any other one has run out, as the database says."""
        self.now = max(self.now, self.delivery.due_at)
        claimed = replace(self.delivery, fence=self.delivery.fence + 1, attempt=self.delivery.attempt + 1)
        self.claims.append(claimed)
        self.delivery = replace(claimed, reference={**(claimed.reference or {}), DOUBT: "yes"})

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 10), reached=st.booleans(), heard=st.booleans(), permanent=st.booleans())
    def settle(self, which: int, reached: bool, heard: bool, permanent: bool) -> None:  # noqa: FBT001 - see begin
        """A worker comes back: its card arrived or not, and it heard of that or not."""
        claimed = self.claims.pop(which % len(self.claims))
        place = (claimed.reference or {}).get("place", "")
        if reached:
            place = place or f"place-{len(self.surface)}"
            self.surface[place] = max(self.surface.get(place, 0), claimed.version)
        told = reached and heard
        if reached and not heard:
            self.lost += 1
        if claimed.fence != self.delivery.fence:
            # Another worker has claimed it since: what this one knows is lost.
            self.lost += 1 if told else 0
            return
        reference = {"place": place} if told else None
        error = "" if told else "no answer"
        # A surface that says no has nothing of it.
        tried = Tried(claimed, reference, error, permanent=permanent and not told, refused=heard and not reached)
        self._take(rules.settled(self.delivery, tried, self.now))

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 10))
    def settle_untold(self, which: int) -> None:
        """A worker comes back: its channel had nothing to show of this card."""
        claimed = self.claims.pop(which % len(self.claims))
        if claimed.fence == self.delivery.fence:
            self.passed_over.add(claimed.version)
            self._take(rules.settled(self.delivery, Tried(claimed, claimed.reference, shown=False), self.now))

    @invariant()
    def cards_are_no_more_than_one_and_the_lost_answers(self) -> None:
        """At most one card per place, and one more for each answer that nobody heard."""
        assert len(self.surface) <= 1 + self.lost

    @invariant()
    def what_counts_as_sent_is_shown(self) -> None:
        """What a delivery says was shown stands at the place that its reference names; what is spared, nowhere."""
        if self.delivery.was_shown:
            assert self.surface[(self.delivery.reference or {})["place"]] >= self.delivery.sent_version
        if self.delivery.state is State.SENT and self.delivery.version not in self.passed_over:
            assert (self.delivery.version, self.delivery.revision) == (
                self.delivery.sent_version,
                self.delivery.sent_revision,
            )
        if self.delivery.state is State.SPARED:
            assert (0, 0) == (self.delivery.sent_version, self.delivery.sent_revision)

    @invariant()
    def what_may_be_shown_is_never_forgotten(self) -> None:
        """Who has a card may have it by what the delivery says too, whatever was lost or refused."""
        if self.surface:
            assert self.delivery.may_be_shown

    @invariant()
    def nothing_is_sent_ahead(self) -> None:
        """The surface shows what there was."""
        assert self.delivery.sent_version <= self.delivery.version
        assert self.delivery.sent_revision <= self.delivery.revision

    @invariant()
    def a_shown_card_never_stays_pending_behind_the_end(self) -> None:
        """What was shown and is over is put right, or was tried to the end."""
        delivery = self.delivery
        if delivery.version in self.passed_over:
            return
        if delivery.was_shown and not delivery.card.is_open and delivery.sent_revision < delivery.revision:
            assert delivery.state in {State.DUE, State.GIVEN_UP}

    @invariant()
    def every_move_is_in_the_table(self) -> None:
        """A state changes only as the table says."""
        for before, after, event in self.path:
            if before is not after:
                assert after is MACHINE.next_state(before, event)

    @invariant()
    def telling_never_decides(self) -> None:
        """Whatever fails, the card is pending until the approval's own news says otherwise."""
        assert self.delivery.card.is_open == (self.delivery.card.state == "pending")


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
