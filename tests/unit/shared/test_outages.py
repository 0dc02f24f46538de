"""An outage is two lines, however much failed meanwhile."""

from __future__ import annotations

from time import monotonic

from structlog.testing import capture_logs

from placet.runtime.outages import Outages


def test_an_outage_is_told_when_it_begins_and_when_it_is_over() -> None:
    """The first failure says why, and the end how many there were; the next outage is told again."""
    outages = Outages("x.away", "x.back")
    with capture_logs() as lines:
        outages.meet()
        for number in range(3):
            outages.miss(error=f"no {number}")
        outages.meet()
        outages.meet()
        outages.miss(error="again")
    assert [
        ("x.away", "warning", "no 0", None),
        ("x.back", "warning", None, 3),
        ("x.away", "warning", "again", None),
    ] == [(line["event"], line["log_level"], line.get("error"), line.get("missed")) for line in lines]


def test_what_an_outage_ends_late_is_no_outage_of_its_own() -> None:
    """Who began to wait before it was over may give up behind that; who begins later and gives up is told."""
    outages = Outages("x.away", "x.back")
    with capture_logs() as lines:
        before = monotonic()
        outages.miss(before)
        outages.meet()
        outages.miss(before)
        assert not outages.on
        outages.miss(monotonic())
    assert ["x.away", "x.back", "x.away"] == [line["event"] for line in lines]
