"""An outage is two lines, however much failed meanwhile."""

from __future__ import annotations

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
