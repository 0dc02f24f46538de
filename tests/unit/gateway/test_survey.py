"""What fits a filter, looked over: orders, groups, pages and counts."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest

from placet.gateway.approvals.survey import ARGUMENTS_MAX, Counted, Order, Survey, amount_of, in_groups
from tests.builders import NOON


def a_row(name: str, minute: int, **changes: Any) -> dict[str, Any]:
    """Return a row that was opened so many minutes before noon."""
    row: dict[str, Any] = {"tool": "pay", "category": "unsafe_api", "requester": "person:lin", "rule": "r"}
    row |= {
        "agent": "default",
        "arguments": "{}",
        "state": "pending",
        "decided_by": None,
        "conversation_id": f"c-{minute % 2}",
    }
    at = NOON - timedelta(minutes=minute)
    return {**row, "approval_id": name, "created_at": at, "expires_at": at + timedelta(hours=1), **changes}


ROWS = [
    a_row("a", 1, arguments='{"amount": 5}', expires_at=NOON + timedelta(minutes=9)),
    a_row("b", 2, category="unsafe_exec", tool="run"),
    a_row("c", 3, arguments='{"total_price": "120.50"}', category="unsafe_write"),
    a_row("d", 1500, requester="person:ada", arguments='{"order": 10482}'),
]


def names(rows: Any) -> str:
    """Return the ids of rows in their order."""
    return "".join(row["approval_id"] for row in rows)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("newest", "abcd"), ("oldest", "dcba"), ("deadline", "dacb"), ("risk", "badc"), ("amount", "cabd")],
)
def test_each_order_is_what_it_says(order: Order, expected: str) -> None:
    """What is equal stays as it stood; what has no amount comes last, and an order number is none."""
    assert expected == names(Survey(ROWS, complete=True).ordered(order))


def test_what_shares_a_group_stands_where_its_first_would() -> None:
    """By tool, and by conversation: odd minutes and even ones."""
    survey = Survey(ROWS, complete=True)
    assert ["acdb", "acbd"] == [names(survey.ordered("newest", group)) for group in ("tool", "conversation")]
    assert ["acd", "b"] == [names(each) for each in in_groups(ROWS, "tool")]


@pytest.mark.parametrize("order", ["newest", "oldest", "deadline", "risk", "amount"])
@pytest.mark.parametrize("group", ["", "tool", "conversation", "requester"])
def test_pages_have_everything_once(order: Order, group: str) -> None:
    """In the order of the whole list, however it is grouped."""
    survey, found, after = Survey(ROWS, complete=True), "", None
    while True:
        rows, after = survey.page(order, group, after, 2)
        found += names(rows)
        if after is None:
            break
    assert names(survey.ordered(order, group)) == found


@pytest.mark.parametrize("order", ["newest", "oldest", "deadline", "risk", "amount"])
@pytest.mark.parametrize("is_oldest_first", [False, True])
def test_pages_of_what_is_equal_have_everything_once(order: Order, *, is_oldest_first: bool) -> None:
    """Calls of one answer run out at the same moment; the next page goes on where the one before ended."""
    rows = [a_row(f"{number:02}", number, expires_at=NOON) for number in range(12)]
    survey = Survey(rows[::-1] if is_oldest_first else rows, complete=True)
    pages, last = [], None
    for _ in range(12):
        page, last = survey.page(order, "", last, 5)
        pages += page
        if last is None:
            break
    assert pages == survey.ordered(order)


@pytest.mark.parametrize("order", ["newest", "oldest", "deadline", "risk", "amount"])
def test_a_page_goes_on_after_a_row_that_fits_no_more(order: Order) -> None:
    """What was decided on the page before is still where the next one begins."""
    whole = Survey(ROWS, complete=True).ordered(order)
    left = Survey([row for row in ROWS if row is not whole[1]], complete=True)
    rows, _ = left.page(order, "", whole[1], 9)
    assert names(whole[2:]) == names(rows)


def test_values_are_counted_the_most_frequent_first() -> None:
    """What has no value is not counted; ages and days are."""
    survey = Survey(ROWS, complete=True)
    assert (Counted("pay", 3), Counted("run", 1)) == survey.facet("tool")
    assert () == survey.facet("decided_by")
    assert (Counted("600", 1), Counted("3600", 1), Counted("86400", 1)) == survey.ages(NOON)
    assert (NOON.date().isoformat(), 3) == (survey.days(UTC)[0].value, survey.days(UTC)[0].count)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"amount": 3, "total": 4.5}', 4.5),
        ('{"unit_price": {"amount": 7, "currency": "EUR"}}', 7.0),
        ('{"amount": true}', None),
        ('{"amount": "soon"}', None),
        ('{"costume": 5}', None),
        ("[]", None),
        ("{", None),
        ('{"amount": 3, "note": "%s"}' % ("x" * ARGUMENTS_MAX), None),
    ],
)
def test_an_amount_is_a_number_that_is_named_like_one(arguments: str, expected: float | None) -> None:
    """The largest of several; a name that only begins so is none."""
    assert expected == amount_of(arguments)
