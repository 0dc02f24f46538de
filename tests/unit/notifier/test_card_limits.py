"""How many cards wait at one address, how fast a channel is used, and when people are left in peace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.notifier import card_limits
from placet.notifier.card_limits import Limits
from placet.notifier.cards import Address
from placet.notifier.quiet_hours import quiet_hours
from placet.notifier.rules import Delivery
from placet.notifier.settings import NotifierSettings
from placet.notifier.states import State
from tests.builders import NOON
from tests.support.cards import a_delivery


def waiting(number: int, topic: str = "", state: State = State.DUE) -> Delivery:
    """Return a delivery of one of several approvals; one that is shown was claimed once."""
    shown = {"fence": 1, "sent_version": 1, "sent_revision": 1} if state is State.SENT else {}
    ids = {"delivery_id": f"d{number:03}", "approval_id": f"a{number:03}", "topic": topic}
    return replace(a_delivery(state), **ids, **shown)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 6), st.integers(0, 4))
def test_no_address_gets_more_than_its_limits(topics: list[str], most: int, same: int) -> None:
    """Whatever comes in whatever order; and what is kept back is kept only where there was no room."""
    limits = Limits(most, same)
    due = [waiting(number, topic) for number, topic in enumerate(topics)]
    kept = {each.before.delivery_id for each in card_limits.keep_back(due, {}, limits)}
    shown = Counter(each.topic for each in due if each.delivery_id not in kept)
    assert not most or shown.total() <= most
    assert not same or all(count <= same for count in shown.values())
    if not most and not same:
        assert set() == kept


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=30), st.integers(1, 5), st.integers(0, 3))
def test_counts_on_cards_come_to_what_is_kept_back(rows: list[tuple[str, bool]], most: int, same: int) -> None:
    """Every kept approval is counted on one shown card, as long as one is shown; a second recount changes nothing."""
    limits = Limits(most, same)
    before = [waiting(number, topic, State.SENT if shown else State.KEPT) for number, (topic, shown) in enumerate(rows)]
    after = {each.delivery_id: each for each in before}
    after |= {moved.after.delivery_id: moved.after for moved in card_limits.recount(before, limits, NOON)}
    shown = [each for each in after.values() if each.fence]
    kept = [each for each in after.values() if each.state is State.KEPT]
    if shown:
        assert len(kept) == sum(each.card.similar + each.card.held_back for each in shown)
    claimed = [replace(each, fence=1) if each.state is State.DUE else each for each in after.values()]
    settled = [each.event for each in card_limits.recount(claimed, limits, NOON) if each.after.state is State.DUE]
    assert "let_through" not in settled


def test_what_is_urgent_risky_or_shown_is_never_kept_back() -> None:
    """An escalation, a call that stands alone, an update, and what programs get."""
    plain = waiting(1)
    others = [
        replace(plain, urgent=True),
        replace(plain, card=replace(plain.card, risk="high")),
        replace(plain, fence=1, sent_version=1, sent_revision=1, reference={}),
        replace(plain, address=Address("log")),
        replace(plain, address=Address("webhook:crm", "crm")),
    ]
    full = {card_limits.place_of(each): Counter({"": 9}) for each in [plain, *others]}
    kept = [card_limits.keep_back([each], full, Limits(waiting=1)) for each in [plain, *others]]
    assert [1, 0, 0, 0, 0, 0] == [len(each) for each in kept]


@given(st.integers(1, 600), st.integers(0, 30))
def test_a_minute_never_sends_more_than_its_pace(per_minute: int, cards: int) -> None:
    """Asked every second for a minute, a channel sends its pace and at most the burst beside it."""
    until, sent = {("acme", "wall"): NOON}, 0
    for second in range(60):
        due = [waiting(number) for number in range(cards)]
        now, changed = card_limits.in_pace(due, until, {"wall": per_minute}, NOON + timedelta(seconds=second))
        until |= changed
        sent += len(now)
    assert sent <= per_minute + per_minute * card_limits.BURST_SECONDS / 60 + 1


@pytest.mark.parametrize(
    ("words", "hour", "ends"),
    [
        ("22:00-07:00", 23, 7 + 24),
        ("22:00-07:00", 3, 7),
        ("22:00-07:00", 12, None),
        ("22:00-07:00", 7, None),
        ("12:00-13:00", 12, 13),
        ("22:00-07:00 Europe/Istanbul", 20, 4 + 24),
        ("22:00-07:00 Europe/Istanbul", 18, None),
    ],
)
def test_quiet_hours_end_when_they_say(words: str, hour: int, ends: int | None) -> None:
    """Over midnight too, in the time zone that they name."""
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    hours = quiet_hours(words)
    assert hours is not None
    expected = None if ends is None else midnight + timedelta(hours=ends)
    assert expected == hours.until(midnight + timedelta(hours=hour))


@pytest.mark.parametrize(("hour", "ends"), [(0, 0), (1, 1)])
def test_quiet_hours_that_end_in_a_repeated_hour_never_end_in_the_past(hour: int, ends: int) -> None:
    """At 02:15 of summer or winter time they end at 02:30 of the same; a card would be put off for ever."""
    hours = quiet_hours("22:00-02:30 Europe/Berlin")
    assert hours is not None
    assert datetime(2026, 10, 25, ends, 30, tzinfo=UTC) == hours.until(datetime(2026, 10, 25, hour, 15, tzinfo=UTC))


@pytest.mark.parametrize("words", ["22-7", "25:00-07:00", "22:00-07:00 Middle/Earth", "always"])
def test_quiet_hours_that_make_no_sense_stop_the_start(words: str) -> None:
    """The setting says what is wrong."""
    with pytest.raises(ValueError, match=r"quiet hours|time zone"):
        NotifierSettings(notifier_quiet_hours={"*": words})
