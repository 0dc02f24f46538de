"""`placet rulebook`: checking and trying rules before they decide anything."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.client import call as ask
from placet.cli.output import Json, fail, out, progress, show_json, show_table, spoken
from placet.cli.resources import LIMIT, After, Limit, tell_next

if TYPE_CHECKING:
    from placet.domain.trials import Report
    from placet.domain.yaml_source import Problem
    from placet.policy.rules import Rulebook

app = typer.Typer(no_args_is_help=True, help="Check and try rulebooks.")

#: Longest wait for the answer of a simulation, in seconds; it replays many calls.
SIMULATION_SECONDS = 60.0
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

RulebookFile = Annotated[
    Path | None, typer.Option("--rulebook", help="The rulebook; by default the one at PLACET_RULEBOOK.")
]


@app.callback()
def rulebook() -> None:
    """Check and try rulebooks."""


#: Why a whole group is asked, as `duty` says it; nothing where somebody in particular is.
_WHOLE = {"no_plan": "", "nobody": "nobody is on duty", "unreadable": "the calendar cannot be read"}


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rulebook.")],
    tools: Annotated[
        Path | None, typer.Option(envvar="PLACET_TOOLS", help="With --import: the folder of your own tools.")
    ] = None,
    *,
    imports: Annotated[
        bool, typer.Option("--import", help="Import the tools too: is each function there, and does it fit?")
    ] = False,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Do not ask whether the channels and calendars that are named are here.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a rulebook; problems are printed as FILE:LINE:COLUMN: what is wrong."""
    from placet.policy.rulebook.check import check as check_file

    report = check_file(file)
    if report.valid and not anywhere:
        problems = sorted([*_not_set_up(file), *_bad_calendars(file)])
        report = report.model_copy(update={"valid": not problems, "problems": problems})
    if imports and report.valid:
        problems = _unfit(file, tools)
        report = report.model_copy(update={"valid": not problems, "problems": problems})
    _show(report, str(file), json=json)
    if report.problems:
        raise typer.Exit(1)


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(metavar="CALL.json", help='The call: {"tool", "arguments", …}.')],
    rules: RulebookFile = None,
    *,
    json: Json = False,
) -> None:
    """Tell which rule decides a call, why none above it did, and who may approve; 2 where nobody could propose it."""
    from placet.contracts.canonical import NotStrictJson, parse_strictly
    from placet.domain.yaml_source import RulebookInvalid
    from placet.policy.rules.explain import call_from
    from placet.policy.rules.explain import explain as explain_call

    try:
        value = parse_strictly(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}", code=2)
    except (NotStrictJson, UnicodeDecodeError) as error:
        fail(f"{file}: not JSON: {error}", code=2)
    rulebook = _load(rules)
    try:
        explanation = explain_call(call_from(value, rulebook, str(file)), rulebook)
    except RulebookInvalid as error:
        fail(f"{file}: {'; '.join(each.problem for each in error.problems)}", code=2)
    _show(explanation, str(file), json=json)


@app.command("test")
def try_cases(
    file: Annotated[Path, typer.Argument(metavar="CASES.yaml", help="Calls with the verdicts they should get.")],
    rules: RulebookFile = None,
    *,
    json: Json = False,
) -> None:
    """Try the cases of a file; it ends with 1 where one of them fails."""
    from placet.domain.yaml_source import RulebookInvalid, read_yaml
    from placet.policy.rules.cases import cases_from, run_cases

    try:
        named, cases = cases_from(read_yaml(file))
    except RulebookInvalid as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from None
    report = run_cases(cases, _load(rules or (file.parent / named if named else None)))
    _show(report, str(file), json=json)
    if report.failed:
        raise typer.Exit(1)


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(metavar="NEW.yaml", help="The rulebook to try.")],
    since: Annotated[str, typer.Option(help="How far to go back: 30d, 12h, 90m.")] = "30d",
    *,
    json: Json = False,
) -> None:
    """Replay past proposals of your tenant against another rulebook, and tell what would have been different."""
    from placet.domain.trials import Simulation

    match = _SPAN.fullmatch(since)
    if match is None:
        fail("--since is a number with s, m, h or d behind it, such as 30d", code=2)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: {error}", code=2)
    body = {"rulebook": text, "since_seconds": int(match[1]) * _UNITS[match[2]]}
    with progress("replaying", quiet=json):
        report = ask("POST", "/v1/rulebook/simulate", json=body, timeout=SIMULATION_SECONDS)
    _show(Simulation.model_validate(report), str(file), json=json)


@app.command()
def activations(
    limit: Limit = LIMIT,
    cursor: After = "",
    *,
    diff: Annotated[bool, typer.Option("--diff", help="Print what changed too.")] = False,
    json: Json = False,
) -> None:
    """List which rulebook and which people were active since when, newest first."""
    page = ask("GET", "/v1/rulebook/activations", params={"limit": limit} | ({"cursor": cursor} if cursor else {}))
    if json:
        show_json(page)
        return
    if diff:
        for each in page["items"]:
            out.print(f"{each['activated_at']}  {each['kind']}  {each['digest']}", style="bold")
            out.print(spoken(each["diff"]) + "\n")
    else:
        show_table(page["items"], ["id", "kind", "activated_at", "activated_by", "digest"])
    tell_next(page)


@app.command()
def duty(
    rules: RulebookFile = None,
    at: Annotated[str, typer.Option(help="The moment, such as 2026-12-24T18:00+01:00; by default now.")] = "",
    *,
    json: Json = False,
) -> None:
    """List who of each group is on duty, until when, and when its next working hours begin or began."""
    from datetime import MAXYEAR, MINYEAR, UTC, datetime

    from placet.domain.directory_file import directory_from, with_calendars
    from placet.domain.duty import opens_at
    from placet.domain.duty_calendar import read_calendar
    from placet.domain.yaml_source import RulebookInvalid, read_yaml
    from placet.runtime.settings import Settings

    try:
        moment = datetime.fromisoformat(at).astimezone(UTC) if at else datetime.now(UTC)
    except (ValueError, OverflowError):
        moment = datetime.min.replace(tzinfo=UTC)
    # Plans are looked through from a year before to a year behind it.
    if not MINYEAR + 1 < moment.year < MAXYEAR - 1:
        fail("--at is a moment such as 2026-12-24T18:00+01:00", code=2)
    try:
        source = read_yaml(rules or Settings().rulebook)
        directory = with_calendars(directory_from(source), read_calendar)
        source.check()
    except RulebookInvalid as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from None
    rows = []
    for group in sorted(directory.groups):
        found, opens = directory.on_duty(group, moment), opens_at(directory.duty.get(group), moment, None)
        rows.append(
            {
                "group": group,
                "asked_first": sorted(found.people),
                "until": found.until.isoformat() if found.until else None,
                "whole_group": _WHOLE.get(found.why_all),
                "closed_until": opens.isoformat() if opens > moment else None,
            }
        )
    if json:
        show_json(rows)
    else:
        show_table(rows, ["group", "asked_first", "until", "whole_group", "closed_until"])


def _show(report: Report, file: str, *, json: bool) -> None:
    """Print a report as the API would answer it, or in words; what is wrong goes to standard error."""
    from placet.cli.trials import complaints, lines

    if json:
        show_json(report.as_json())
        return
    sys.stderr.write("".join(f"{line}\n" for line in complaints(report, file)))
    for line in lines(report, file):
        out.print(line)


def _not_set_up(file: Path) -> list[Problem]:
    """Return the channels that a valid rulebook names and that the notifier of this environment would not have."""
    from placet.contracts.errors import PlacetError
    from placet.domain.channels import not_set_up
    from placet.domain.yaml_source import read_yaml
    from placet.notifier.channel_settings import ChannelSettings

    source = read_yaml(file)
    try:
        channels = ChannelSettings().channels()
    except PlacetError as error:
        fail(str(error), code=2)
    for steps, name in not_set_up(source.data, channels):
        source.report(steps, f"channel {name!r} is not set up here, so nobody would be told (--anywhere: do not ask)")
    return sorted(source.problems)


def _bad_calendars(file: Path) -> list[Problem]:
    """Return the on-call calendars of a valid rulebook that cannot be used, or that name nobody of their group."""
    from datetime import UTC, datetime

    from placet.domain.directory import Person
    from placet.domain.directory_file import directory_from
    from placet.domain.duty import CalendarFile
    from placet.domain.yaml_source import read_yaml

    source = read_yaml(file)
    directory, named = directory_from(source), source.data.get("directory")
    if not any(isinstance(each.plan, CalendarFile) for each in directory.duty.values()):
        return []
    from placet.domain.duty_calendar import CHECKED_DAYS, names_anybody, read_calendar

    told = read_yaml(file.parent / named) if isinstance(named, str) else source
    for group, duty in directory.duty.items():
        if not isinstance(duty.plan, CalendarFile):
            continue
        steps, calendar = ("groups", group, "on_call", "calendar"), read_calendar(duty.plan)
        people = [directory.people.get(each) or Person(each) for each in directory.members(group)]
        if calendar.problem:
            told.report(steps, f"the calendar is of no use, so the whole group would be told: {calendar.problem}")
        elif not names_anybody(calendar, people, datetime.now(UTC)):
            told.report(steps, f"the calendar names nobody of the group within {CHECKED_DAYS} days")
    return sorted(told.problems)


def _unfit(file: Path, tools: Path | None) -> list[Problem]:
    """Return what is wrong with the functions that a valid rulebook names."""
    from placet.contracts.errors import PlacetError
    from placet.domain.yaml_source import read_yaml
    from placet.runtime.settings import Settings
    from placet.tools.registry import report_unfit

    try:
        Settings(tools=tools).add_own_code()
    except PlacetError as error:
        fail(str(error), code=2)
    source = read_yaml(file)
    report_unfit(source)
    return sorted(source.problems)


def _load(path: Path | None) -> Rulebook:
    from placet.domain.yaml_source import RulebookInvalid
    from placet.policy.rulebook import load_rulebook
    from placet.runtime.settings import Settings

    try:
        return load_rulebook(path or Settings().rulebook)
    except RulebookInvalid as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from None
