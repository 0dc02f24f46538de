"""What the history keeps of people and groups: a line for each thing that may change."""

from __future__ import annotations

from placet.domain.directory_file import directory_from
from placet.domain.yaml_source import parse_yaml
from placet.policy.rules.people import outline

DUTY = """\
groups:
  ops:
    people: [ada, bob]
    hours: {time: "09:00-17:00", days: [mon, tue], time_zone: Europe/Berlin, holidays: [2026-12-25]}
    on_call: {people: [bob, ada], starts_at: 2026-01-05 09:00, turn: 1 week}
  late: {people: [ada], on_call: {calendar: late.ics}}
"""


def test_a_change_of_hours_or_plan_shows_as_a_line() -> None:
    """Nobody is judged by them, and yet they decide who hears of a call; no path of this machine is kept."""
    expected = """\
group late: ada
group ops: ada, bob
on call in late: calendar late.ics UTC
hours of ops: mon tue 09:00-17:00 Europe/Berlin, not on 2026-12-25
on call in ops: bob, ada, 7 days each from 2026-01-05 09:00:00 UTC
"""
    assert expected == outline(directory_from(parse_yaml("/etc/placet/rulebook.yaml", DUTY.encode())))
