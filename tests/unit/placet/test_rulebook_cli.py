"""`placet rulebook`: what its commands print, and the codes that they end with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from placet.cli.rulebook import app

SHOP = Path(__file__).parents[3] / "deploy" / "rulebook.yaml"
HELD = {"tool": "create_pay_link", "arguments": {"amount": 299, "currency": "TRY"}}
CASE = """\
cases:
  - name: links wait
    call: {tool: create_pay_link, arguments: {amount: 299, currency: TRY}}
    expect: {effect: EFFECT}
"""


def placet_rulebook(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def call(tmp_path: Path) -> Path:
    """A file with a call that is held."""
    path = tmp_path / "call.json"
    path.write_text(json.dumps(HELD))
    return path


def a_file_of_cases(folder: Path, effect: str, head: str = "") -> Path:
    """Return a file with one case that expects this effect."""
    path = folder / "cases.yaml"
    path.write_text(head + CASE.replace("EFFECT", effect))
    return path


def rules_beside_tools(folder: Path, module: str, code: str, rules: str) -> Path:
    """Return a file of rules whose functions, `FILE:…`, are in a module of the same folder."""
    (folder / f"{module}.py").write_text(code)
    path = folder / "rules.yaml"
    path.write_text(rules.replace("FILE", module))
    return path


def test_good_rulebook_is_counted() -> None:
    """One line, and code 0."""
    result = placet_rulebook("check", SHOP)
    assert (0, f"{SHOP}: 5 tools, 4 rules, no problems\n") == (result.exit_code, result.stdout)


def test_bad_rulebook_is_told_line_by_line(tmp_path: Path) -> None:
    """Problems go to standard error, as FILE:LINE:COLUMN."""
    path = tmp_path / "bad.yaml"
    path.write_text("tools: {}\nruls: []\n")
    result = placet_rulebook("check", path)
    assert (1, True) == (result.exit_code, f"{path}:2:1: unknown key 'ruls'\n" in result.stderr)


OWN = """\
tools:
  good:
    description: Good.
    category: safe_compute
    function: FILE:good
    parameters: {type: object, properties: {a: {type: integer}}, required: [a]}
  lost:
    description: Lost.
    category: safe_compute
    function: FILE:lost
    parameters: {type: object}
  unfit:
    description: Unfit.
    category: safe_compute
    function: FILE:good
    verify: FILE:probe
    parameters: {type: object, properties: {b: {type: integer}}}
rules: []
"""


def test_functions_that_are_missing_or_do_not_fit_are_told_line_by_line(tmp_path: Path) -> None:
    """With --import each own tool is imported from the folder of tools."""
    module = "own_tools_of_a_check"
    path = rules_beside_tools(tmp_path, module, "def good(a: int) -> int:\n    return a\n\n\nprobe = 1\n", OWN)
    result = placet_rulebook("check", path, "--import", "--tools", tmp_path)
    told = [
        f"{path}:10:15: tool 'lost': module '{module}' has no function 'lost'",
        f"{path}:15:15: tool 'unfit': function '{module}:good' lacks the parameter 'b' of the schema",
        f"{path}:16:13: tool 'unfit': module '{module}' has no function 'probe'",
    ]
    assert (1, told) == (result.exit_code, result.stderr.splitlines())
    assert 0 == placet_rulebook("check", path).exit_code


def test_a_type_that_takes_nothing_of_its_schema_is_told(tmp_path: Path) -> None:
    """Every call of the tool would be refused."""
    module = "own_types_of_a_check"
    rules = OWN[: OWN.index("  lost:")] + "rules: []\n"
    path = rules_beside_tools(tmp_path, module, "def good(a: dict[str, int]) -> int:\n    return len(a)\n", rules)
    result = placet_rulebook("check", path, "--import", "--tools", tmp_path)
    told = [
        f"{path}:5:15: tool 'good': function '{module}:good' takes 'a' as dict, but the schema says integer",
    ]
    assert (1, told) == (result.exit_code, result.stderr.splitlines())


RESOURCES = """\
tools:
  one: {description: One., category: safe_compute, function: FILE:f, parameters: {type: object}}
  two: {description: Two., category: safe_compute, function: FILE:f, verify: FILE:f, parameters: {type: object}}
rules: []
"""


def test_resources_that_cannot_be_opened_are_told_once(tmp_path: Path) -> None:
    """They are their module's, whose first tool names it."""
    module = "own_resources_of_a_check"
    code = "def f() -> int:\n    return 1\n\n\ndef open_resources():\n    return {}\n"
    path = rules_beside_tools(tmp_path, module, code, RESOURCES)
    result = placet_rulebook("check", path, "--import", "--tools", tmp_path)
    told = [f"{path}:2:62: module '{module}': open_resources must take one argument, the settings"]
    assert (1, told) == (result.exit_code, result.stderr.splitlines())


def test_a_folder_of_tools_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """Nothing is imported then."""
    folder = tmp_path / "none"
    result = placet_rulebook("check", SHOP, "--import", "--tools", folder)
    assert 2 == result.exit_code
    assert result.stderr.endswith(f"PLACET_TOOLS: {folder} is not a folder\n")


def test_explanation_names_the_rules_and_the_people(call: Path) -> None:
    """Each rule that was tried is a line, and so is each way to say yes."""
    result = placet_rulebook("explain", call, "--rulebook", SHOP)
    told = [
        "require_approval by payment-links: A payment link asks the customer for money.",
        "  large-payment-links  passed over  its condition is false",
        "  payment-links        decided",
        "may approve: 1 of requester, operators (now operators, visitor:x)",
    ]
    assert (0, told) == (result.exit_code, result.stdout.splitlines())


def test_explanation_as_json_has_the_whole_approval(call: Path) -> None:
    """For programs there is everything, defaults included."""
    told = json.loads(placet_rulebook("explain", call, "--rulebook", SHOP, "--json").stdout)
    assert ("payment-links", 3600, "never") == (
        told["rule"],
        told["approval"]["expires_after_seconds"],
        told["approval"]["reason_required"],
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "not JSON"),
        ("[]", "should be a mapping"),
        ('{"arguments": {}}', "key 'tool' is missing"),
        ('{"tool": "look"}', "no agent could propose it: unknown tool 'look'"),
        (
            '{"tool": "create_pay_link", "arguments": {"amount": "many"}}',
            "'create_pay_link': /amount",
        ),
        ('{"tool": "a", "tool": "b"}', "not JSON"),
    ],
)
def test_call_that_is_none_is_one_line_and_code_2(tmp_path: Path, text: str, line: str) -> None:
    """Nothing is guessed about a call."""
    path = tmp_path / "call.json"
    path.write_text(text)
    result = placet_rulebook("explain", path, "--rulebook", SHOP)
    assert (2, 1, True) == (result.exit_code, result.stderr.count("\n"), line in result.stderr)


def test_cases_that_pass_end_with_0(tmp_path: Path) -> None:
    """How many there were is the last line."""
    cases = a_file_of_cases(tmp_path, "require_approval")
    result = placet_rulebook("test", cases, "--rulebook", SHOP)
    assert (0, f"{cases}: 1 of 1 cases pass\n") == (result.exit_code, result.stdout)


def test_case_that_fails_ends_with_1_and_says_what_differs(tmp_path: Path) -> None:
    """File and line first, so that an editor can jump there."""
    cases = a_file_of_cases(tmp_path, "allow")
    result = placet_rulebook("test", cases, "--rulebook", SHOP)
    told = f"{cases}:2: links wait\n  effect: expected allow, found require_approval\n"
    assert (1, told, f"{cases}: 0 of 1 cases pass\n") == (result.exit_code, result.stderr, result.stdout)


def test_cases_name_their_rulebook_beside_themselves(tmp_path: Path) -> None:
    """A file of cases needs no option."""
    (tmp_path / "shop.yaml").write_text(SHOP.read_text())
    result = placet_rulebook("test", a_file_of_cases(tmp_path, "require_approval", "rulebook: shop.yaml\n"))
    assert (0, "") == (result.exit_code, result.stderr)


def test_bad_rulebook_or_cases_end_with_2(tmp_path: Path) -> None:
    """A test that could not be run is no test that failed."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("cases: 5\n")
    cases = a_file_of_cases(tmp_path, "allow")
    codes = [placet_rulebook("test", bad).exit_code, placet_rulebook("test", cases, "--rulebook", bad).exit_code]
    assert [2, 2] == codes


@pytest.mark.parametrize("since", ["30", "0d", "-5d", "1w"])
def test_simulation_wants_a_span(since: str) -> None:
    """A number without its unit is asked for again, before anything is sent."""
    result = placet_rulebook("simulate", SHOP, "--since", since)
    assert (2, "placet: --since is a number with s, m, h or d behind it, such as 30d\n") == (
        result.exit_code,
        result.stderr,
    )


NAMES_A_CHANNEL = """\
tools:
  mail: {category: unsafe_api, parameters: {type: object}, description: Send a mail.}
rules:
  - name: mails
    match: {tool: mail}
    effect: require_approval
    reason: Customers read it.
    approval: {approvers: [operators], channels: [email]}
"""


def test_a_channel_that_nobody_has_set_up_is_an_error(tmp_path: Path) -> None:
    """Nobody would be told: it is said where it stands, and not where it is asked elsewhere or the channel is there."""
    file = tmp_path / "rules.yaml"
    file.write_text(NAMES_A_CHANNEL)
    there = {"PLACET_EMAIL_HOST": "mail.example.org", "PLACET_EMAIL_FROM": "placet@example.org"}
    without, elsewhere = placet_rulebook("check", file), placet_rulebook("check", file, "--anywhere")
    with_mail = CliRunner().invoke(app, ["check", str(file)], env=there)
    assert (1, 0, 0) == (without.exit_code, elsewhere.exit_code, with_mail.exit_code)
    assert f"{file}:8:51: channel 'email' is not set up here" in without.stderr


ON_DUTY = """\
tools:
  send_email: {description: Sends an email., category: safe_read, parameters: {type: object}}
groups:
  ops: {people: [ada, bob], on_call: {people: [ada, bob], starts_at: 2026-01-05 09:00, turn: 1 week}}
  late:
    people: [bob]
    on_call: {calendar: late.ics}
"""
BOB_S_YEARS = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:test
BEGIN:VEVENT
UID:1
DTSTAMP:20260101T000000Z
DTSTART:20260101T000000Z
DTEND:20360101T000000Z
SUMMARY:bob
END:VEVENT
END:VCALENDAR
"""


def test_a_calendar_of_no_use_is_an_error_where_it_is_named(tmp_path: Path) -> None:
    """One that is missing, broken, or names strangers; not where it is asked elsewhere."""
    file, calendar = tmp_path / "rules.yaml", tmp_path / "late.ics"
    file.write_text(ON_DUTY)
    missing, elsewhere = placet_rulebook("check", file), placet_rulebook("check", file, "--anywhere")
    calendar.write_text("no calendar")
    broken = placet_rulebook("check", file)
    calendar.write_text(BOB_S_YEARS.replace("bob", "zoe"))
    strange = placet_rulebook("check", file)
    calendar.write_text(BOB_S_YEARS)
    good = placet_rulebook("check", file)
    assert [1, 0, 1, 1, 0] == [each.exit_code for each in (missing, elsewhere, broken, strange, good)]
    head = f"{file}:7:25: the calendar "
    assert missing.stderr.startswith(f"{head}is of no use, so the whole group would be told: cannot be read")
    assert broken.stderr.startswith(f"{head}is of no use, so the whole group would be told: it is no iCalendar file")
    assert strange.stderr.startswith(f"{head}names nobody of the group within 28 days")


def test_who_is_on_duty_is_listed(tmp_path: Path) -> None:
    """Now, or at a moment; where nobody in particular is, all of the group, and why."""
    file = tmp_path / "rules.yaml"
    file.write_text(ON_DUTY)
    at = ("--rulebook", file, "--at", "2026-01-13T00:00+00:00", "--json")
    late, ops = json.loads(placet_rulebook("duty", *at).stdout)
    assert (["bob"], "2026-01-19T09:00:00+00:00", None) == (ops["asked_first"], ops["until"], ops["whole_group"])
    assert (["bob"], None, "the calendar cannot be read") == (late["asked_first"], late["until"], late["whole_group"])
    odd = ("noon", "0001-01-01T00:00+00:00", "9999-12-31T23:59+00:00")
    moments: list[tuple[str, ...]] = [*(("--at", each) for each in odd), ()]
    assert [2, 2, 2, 0] == [placet_rulebook("duty", "--rulebook", file, *more).exit_code for more in moments]
