"""Approvals that nobody was told of: when somebody is told after all, and when operators are alarmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.notifier import rules, undelivered
from placet.notifier.rules import RESERVE_MAX, Delivery, tell_by
from placet.notifier.states import State
from placet.notifier.undelivered import Step, next_step
from tests.builders import NOON
from tests.support.cards import a_delivery

HOUR = timedelta(hours=1)
#: When the last quarter of an hour that began at noon begins.
LATE = NOON + HOUR * 3 / 4


def one(state: State = State.DUE, number: int = 1, *, shown: bool = False, due: datetime = NOON) -> Delivery:
    """Return one of several deliveries of an approval that waits from noon for an hour."""
    there = {"sent_version": 1, "sent_revision": 1} if shown else {}
    ids = {"delivery_id": f"delivery-{number}", "rank": number}
    return replace(a_delivery(state), tell_by=LATE, due_at=due, **ids, **there)  # type: ignore[arg-type]


def done(step: Step) -> list[tuple[str, State, bool]]:
    """Return what a step makes of the deliveries that it changes in state or due: id, state, urgent."""
    return [(each.after.delivery_id, each.after.state, each.after.urgent) for each in step.moved]


@pytest.mark.parametrize(
    ("seconds", "left"), [(60, 15), (3600, 900), (7200, 1800), (24 * 3600, RESERVE_MAX.total_seconds()), (0, 0)]
)
def test_the_last_quarter_and_half_an_hour_at_most_is_for_telling(seconds: int, left: float) -> None:
    """However long an approval may wait; one without a deadline has no such moment."""
    deadline = NOON + timedelta(seconds=seconds)
    assert deadline - timedelta(seconds=left) == tell_by(NOON, deadline)
    assert tell_by(NOON, None) is None


@pytest.mark.parametrize(
    "deliveries",
    [
        [one(State.DUE)],
        [one(State.KEPT)],
        [one(State.SENT, shown=True), one(State.GIVEN_UP, 2)],
        [one(State.DUE, shown=True), one(State.KEPT, 2)],
        [one(State.DUE, due=NOON + HOUR / 2), one(State.ASLEEP, 2)],
    ],
)
def test_nothing_is_done_while_somebody_is_told_in_time(deliveries: list[Delivery]) -> None:
    """A card that is shown, on its way, or kept back while there is time."""
    step = next_step(deliveries, NOON)
    assert ([], "") == (done(step), step.alarm)


def test_what_was_kept_back_from_everybody_is_told_in_time_and_alarms() -> None:
    """Caps yield in the last quarter, everywhere at once, and operators hear that it came to that."""
    step = next_step([one(State.KEPT, 1), one(State.KEPT, 2), one(State.ASLEEP, 3)], LATE)
    assert {(f"delivery-{number}", State.DUE, True) for number in (1, 2, 3)} == set(done(step))
    assert ("its cards were kept back", {(True, None)}) == (
        step.alarm,
        {(each.after.alerted, each.after.tell_by) for each in step.moved},
    )


def test_a_channel_that_rests_until_it_is_late_alarms() -> None:
    """Its tries go on, all other places are told, and the alarm says what the channel said."""
    resting = replace(one(State.DUE, due=LATE + HOUR / 8), error="no answer within 20 s")
    step = next_step([resting, one(State.ASLEEP, 2)], LATE)
    assert ([("delivery-2", State.DUE), ("delivery-1", State.DUE)], "no answer within 20 s") == (
        sorted(((id_, state) for id_, state, _ in done(step)), reverse=True),
        step.alarm,
    )


def test_caps_hold_while_another_place_shows_the_card() -> None:
    """Somebody knows of it: what is kept back stays kept back, and is not looked at each second."""
    step = next_step([one(State.SENT, shown=True), one(State.KEPT, 2)], LATE)
    assert ([("delivery-2", State.KEPT, False)], "", [None]) == (
        done(step),
        step.alarm,
        [each.after.tell_by for each in step.moved],
    )


def test_what_is_kept_back_comes_when_the_place_that_showed_it_is_lost() -> None:
    """The mail that told somebody came back, after all: the other place does not wait for room any more."""
    kept = replace(one(State.KEPT, 2), tell_by=None)
    step = next_step([one(State.GIVEN_UP, shown=True), kept], LATE)
    assert ([("delivery-2", State.DUE, True)], "") == (done(step), step.alarm)


def test_the_next_in_line_is_told_before_a_sleeper() -> None:
    """Whom the rule wants first, where quiet hours leave too little time; without anybody else the sleeper."""
    hushed = one(State.DUE, due=LATE)
    second, first = one(State.ASLEEP, 3), one(State.ASLEEP, 2)
    assert [("delivery-2", State.DUE, True)] == done(next_step([second, hushed, first], NOON))
    assert [("delivery-1", State.DUE, True)] == done(next_step([hushed], NOON))


def test_nobody_left_alarms_and_changes_no_state() -> None:
    """Everything was given up; the approval waits."""
    gone = replace(one(State.GIVEN_UP), error="no such mailbox")
    step = next_step([gone], NOON)
    assert ([("delivery-1", State.GIVEN_UP, False)], "no such mailbox") == (done(step), step.alarm)


def test_whom_a_later_escalation_asks_is_not_told_before_it() -> None:
    """They could not decide: operators are alarmed, and in the last quarter only the others are told."""
    gone, asked_later = replace(one(State.GIVEN_UP), error="no such mailbox"), one(State.ASLEEP, 2, due=LATE + HOUR / 8)
    step = next_step([gone, asked_later], NOON)
    assert ([State.GIVEN_UP, State.ASLEEP], "no such mailbox") == ([state for _, state, _ in done(step)], step.alarm)
    assert {"delivery-1": State.DUE, "delivery-2": State.ASLEEP} == {
        name: state for name, state, _ in done(next_step([one(State.KEPT), asked_later], LATE))
    }


@pytest.mark.parametrize("state", list(State))
def test_a_closed_approval_is_no_longer_told_of(state: State) -> None:
    """Where it is over, nobody is missed."""
    over = replace(one(state), card=replace(a_delivery().card, state="expired"))
    assert Step() == next_step([over], LATE)


def test_more_time_leaves_more_time_to_tell() -> None:
    """Somebody gave the approval another hour: the last moment to tell moves with its deadline."""
    before = one(State.KEPT)
    later = replace(before.card, revision=2, deadline=NOON + 2 * HOUR)
    assert LATE + HOUR == rules.revised(before, later, NOON).after.tell_by


@given(
    st.lists(
        st.builds(
            one,
            st.sampled_from([State.ASLEEP, State.DUE, State.KEPT, State.SENT, State.GIVEN_UP]),
            shown=st.booleans(),
            due=st.sampled_from([NOON, LATE, NOON + 2 * HOUR]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_nothing_runs_out_of_time_without_a_card_or_an_alarm(drawn: Sequence[Delivery]) -> None:
    """Whatever holds the cards up: in the last quarter one is shown or due at once, or operators are alarmed."""
    deliveries = [replace(each, delivery_id=f"d{number}") for number, each in enumerate(drawn)]
    step = undelivered.next_step(deliveries, LATE)
    after = {each.delivery_id: each for each in deliveries}
    after |= {each.after.delivery_id: each.after for each in step.moved}
    told = any(each.state is State.SENT or (each.state is State.DUE and each.was_shown) for each in deliveries)
    comes = any(each.state is State.DUE and each.due_at <= LATE and each.urgent for each in after.values())
    assert told or comes or step.alarm
    if step.alarm:
        assert all(each.alerted for each in after.values())
