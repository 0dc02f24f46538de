"""Staged calls and their commit: what a rulebook may say, and that a commit asks no less than its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text
from placet.contracts.ids import call_id
from placet.contracts.messages import ApprovalRule, Demand, EditJudged, EditProposed, Panel, StagedCall, StagePlan
from placet.contracts.messages.tool_calls import Category, Edited
from placet.domain.house_tools import ACCOMPLISH_SPEC, COMMIT_SPEC
from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rulebook.check import check_source
from placet.policy.rules import CallFacts, Effect, Rulebook, judge
from placet.policy.rules.cases import cases_from, run_cases
from placet.policy.rules.edits import Held, judged_commit, proposed_entries
from placet.policy.rules.explain import call_from, explain
from placet.policy.rules.simulate import Past, Replay
from placet.policy.rules.staging import (
    StagedEntry,
    StageTerms,
    category_of,
    pool_of,
    problem,
    staged_before,
    while_it_waits,
)
from tests.builders import NOON, a_call

RULEBOOK = """\
tools:
  write: {description: Write., category: unsafe_write, stage: "packs:files", pool: files, parameters: {type: object}}
  note: {description: Note., category: unsafe_write, parameters: {type: object}}
  book: {description: Book., category: unsafe_api, pool: rooms, parameters: {type: object}}
  look: {description: Look., category: safe_read, parameters: {type: object}}
rules:
  - name: bookings
    match: {tool: book}
    effect: stage
    stage: {decide: each, expires_after: 2h, on_failure: go_on}
    reason: They wait together.
    approval: {approvers: ["group:office"], approvals: 2}
groups: {office: [ada, bob]}
people: {ada: {}, bob: {}}
"""
FINANCE, REQUESTER = ApprovalRule(approvers=["group:finance"]), ApprovalRule(approvers=["requester"])
TREE = "b" * 64


def rulebook(more: str = "") -> Rulebook:
    """Return the rulebook, with more rules."""
    return rulebook_from(parse_yaml("rulebook", (RULEBOOK.replace("groups:", f"{more}groups:")).encode()))


def facts(tool: str, **changes: Any) -> CallFacts:
    """Return a call of a tool as the agent proposes it."""
    schema = rulebook().tools.get(tool, COMMIT_SPEC)
    return CallFacts.of(a_call(**{"tool": tool, "schema_digest": schema.schema_digest, "arguments": {}} | changes))


def an_entry(call_id: str, approval: ApprovalRule | None = None, **terms: Any) -> StagedEntry:
    """Return a staged call of `book`; `changes` makes it one whose changes wait."""
    kept = {"pool": "rooms", "message_id": "m1", "changes": False, "on_failure": "stop", "category": "unsafe_api"}
    return StagedEntry(call_id, "book", "visitor-1", "c" * 64, StageTerms(**(kept | terms)), approval)


def a_commit(entries: Sequence[str], staged: Sequence[StagedEntry], **changes: Any) -> CallFacts:
    """Return the commit of entries of which policy knows some."""
    arguments = {"workspace_id": "w1", "tree_digest": TREE, "entries": list(entries)}
    return replace(facts(COMMIT_SPEC.name, **{"arguments": arguments} | changes), staged=tuple(staged))


@pytest.mark.parametrize(
    ("tool", "effect", "rule"),
    [
        ("write", Effect.STAGE, "default:unsafe_write"),
        ("note", Effect.REQUIRE_APPROVAL, "default:unsafe_write"),
        ("book", Effect.STAGE, "bookings"),
        ("look", Effect.ALLOW, "default:safe_read"),
    ],
)
def test_what_can_be_staged_is_staged_by_default(tool: str, effect: Effect, rule: str) -> None:
    """A tool that writes and has no pack that stages it waits for people; a rule stages any other tool."""
    verdict = judge(facts(tool), rulebook())
    assert (effect, rule) == (verdict.effect, verdict.rule)


def test_a_rule_says_how_its_calls_are_staged() -> None:
    """Its plan and its people stand in the verdict; the model is told nothing but what the executor says."""
    verdict = judge(facts("book"), rulebook())
    assert (StagePlan(decide="each", expires_after_seconds=7200, on_failure="go_on"), 2, "") == (
        verdict.plan,
        verdict.approval and verdict.approval.approvals,
        verdict.model_reason,
    )


def test_a_default_of_the_file_stages_every_write() -> None:
    """Who writes the default down means it, also for tools whose whole call must wait."""
    own = rulebook_from(parse_yaml("rulebook", f"defaults: {{unsafe_write: {{effect: stage}}}}\n{RULEBOOK}".encode()))
    assert (Effect.STAGE, StagePlan()) == (judge(facts("note"), own).effect, judge(facts("note"), own).plan)


def test_a_commit_asks_what_its_entries_ask() -> None:
    """Each rule's people must say yes; nobody may allow commits from now on, and entries may be left out."""
    office = ApprovalRule(approvers=["group:office"], grants={"uses": 3}, veto_window_seconds=60)
    verdict = judge(a_commit(["a", "b"], [an_entry("a", office), an_entry("b", FINANCE)]), rulebook())
    asked = verdict.approval
    assert asked is not None
    assert (Effect.REQUIRE_APPROVAL, "default:commit_changes") == (verdict.effect, verdict.rule)
    assert (["group:office"], [Demand(panels=[Panel(approvers=["group:finance"])])]) == (asked.approvers, asked.also)
    assert (None, True, 0) == (asked.grants, asked.edits, asked.veto_window_seconds)


def test_a_commit_tells_why_its_entries_ask() -> None:
    """Behind its own reason those of the rules that name somebody, each once; the defaults' say nothing new."""
    reasons = [("a", FINANCE, "Money goes out."), ("b", REQUESTER, "It is yours."), ("c", FINANCE, "Money goes out.")]
    entries = [replace(an_entry(name, approval), reason=reason) for name, approval, reason in reasons]
    entries.append(replace(an_entry("d"), reason="The tool changes data."))
    verdict = judge(a_commit("abcd", entries), rulebook())
    assert "Staged work takes effect when it is approved. Money goes out. It is yours." == verdict.reason


def test_a_commit_of_nobodys_entries_asks_operators() -> None:
    """Where no rule names anybody, somebody still decides."""
    approval = judge(a_commit(["a"], [an_entry("a")]), rulebook()).approval
    assert ["operators"] == (approval and approval.approvers)


def test_an_entry_that_names_nobody_asks_operators_beside_the_others() -> None:
    """Nobody decides alone about what stands beside their own entry."""
    approval = judge(a_commit(["a", "b"], [an_entry("a", REQUESTER), an_entry("b")]), rulebook()).approval
    assert approval is not None
    assert (["requester"], [Demand(panels=[Panel(approvers=["operators"])])]) == (approval.approvers, approval.also)


def test_a_rule_for_commits_takes_no_operators_away() -> None:
    """It asks somebody more, as everywhere else."""
    own = rulebook(
        _ALLOWED.replace("effect: allow", "effect: require_approval\n    approval: {approvers: [requester]}")
    )
    approvals = [judge(a_commit(["a"], [an_entry("a")]), own).approval]
    approvals.append(judge(a_commit(["a", "b"], [an_entry("a"), an_entry("b", FINANCE)]), rulebook(_ALLOWED)).approval)
    people = [
        {*approval.approvers, *(name for demand in approval.also for name in demand.panels[0].approvers)}
        for approval in approvals
        if approval
    ]
    assert [{"requester", "operators"}, {"operators", "group:finance"}] == people


_ALLOWED = """\
  - name: commits
    match: {tool: commit_changes}
    effect: allow
    reason: They are small.
"""


@pytest.mark.parametrize(("approval", "effect"), [(None, Effect.ALLOW), (FINANCE, Effect.REQUIRE_APPROVAL)])
def test_a_rule_lets_a_commit_through_only_where_no_entry_asks_anybody(
    approval: ApprovalRule | None, effect: Effect
) -> None:
    """What one entry's rule asks, no rule for the commit takes away."""
    verdict = judge(a_commit(["a", "b"], [an_entry("a"), an_entry("b", approval)]), rulebook(_ALLOWED))
    assert (effect, "commits") == (verdict.effect, verdict.rule)


def test_a_rule_for_every_tool_is_none_for_the_commit() -> None:
    """A glob never means it, so no rule lets a workspace through by accident."""
    everything = _ALLOWED.replace("match: {tool: commit_changes}", 'match: {tool: "*"}')
    assert Effect.REQUIRE_APPROVAL is judge(a_commit(["a"], [an_entry("a")]), rulebook(everything)).effect


def test_a_rule_may_refuse_a_commit_by_its_size() -> None:
    """Its condition sees the arguments of the commit."""
    large = _ALLOWED.replace("effect: allow", "effect: deny").replace(
        "  - ", "  - when: size(arguments.entries) > 1\n    "
    )
    book = rulebook(large)
    verdicts = [judge(a_commit(ids, [an_entry(each) for each in ids]), book) for ids in (["a"], ["a", "b"])]
    assert [Effect.REQUIRE_APPROVAL, Effect.DENY] == [each.effect for each in verdicts]


def test_a_commit_rule_and_the_entries_ask_together() -> None:
    """Four eyes on the commit are beside what its entries ask."""
    own = _ALLOWED.replace(
        "effect: allow", "effect: require_approval\n    approval: {approvers: [operators], exclude: [requester]}"
    )
    asked = judge(a_commit(["a"], [an_entry("a", FINANCE)]), rulebook(own)).approval
    assert asked is not None
    assert (["operators"], ["requester"], 1) == (asked.approvers, asked.exclude, len(asked.also))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [(["a", "x"], "call x was never staged in this conversation"), (["a", "a"], "an entry stands in it twice")],
)
def test_a_commit_of_what_was_not_staged_is_refused(entries: list[str], reason: str) -> None:
    """Whatever the agent says: policy knows what it let whom stage."""
    verdict = judge(a_commit(entries, [an_entry("a")]), rulebook(_ALLOWED))
    assert (Effect.DENY, "commit-refused", f"The call did not run: {reason}.") == (
        verdict.effect,
        verdict.rule,
        verdict.model_reason,
    )


@pytest.mark.parametrize("changes", [{"arguments": {"entries": ["a"]}}, {"schema_digest": "f" * 64}])
def test_what_is_no_commit_is_refused(changes: dict[str, Any]) -> None:
    """Other arguments or another schema never reach people."""
    assert "commit-refused" == judge(a_commit(["a"], [an_entry("a")], **changes), rulebook(_ALLOWED)).rule


def test_a_commit_goes_to_the_pool_of_its_changes_and_is_as_dangerous_as_its_calls() -> None:
    """A card says the worst that can happen."""
    call = an_entry("a", category=Category.UNSAFE_EXEC)
    change = an_entry("b", pool="files", changes=True, category=Category.UNSAFE_WRITE)
    assert ("files", "rooms", Category.UNSAFE_EXEC, Category.UNSAFE_WRITE) == (
        pool_of([call, change]),
        pool_of([call]),
        category_of([call, change]),
        category_of([change]),
    )


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        ({}, [0, 1, 3]),
        ({3: True}, [3]),
        ({3: False, 1: True}, [1]),
        ({3: False, 1: False}, [0]),
        ({3: False}, [0, 1]),
        ({0: False, 1: False, 3: False}, []),
    ],
)
def test_a_staged_call_comes_after_those_before_it_in_its_answer(judged: dict[int, bool], expected: list[int]) -> None:
    """Whatever envelope they come in: after the nearest that is staged, and all behind it of which nothing is known."""
    call = a_call(turn_id="turn-9", step=2, position=4)
    known = {call_id("turn-9", 2, position): staged for position, staged in judged.items()}
    wanted = [call_id("turn-9", 2, position) for position in expected]
    assert wanted == list(staged_before(call, [0, 1, 3], known))


def test_what_a_staged_call_needs_later_is_kept() -> None:
    """Its own permit will bind its digest, its pool and who asked for it."""
    entry = an_entry("a", on_failure="go_on")
    expected = StagedCall(
        call_id="a",
        tool="book",
        pool="rooms",
        digest="c" * 64,
        requester="visitor-1",
        message_id="m1",
        on_failure="go_on",
    )
    assert expected == entry.staged_call


def left_out(
    kept: Sequence[str], proposed: Sequence[str], asked_before: ApprovalRule | None = FINANCE, **changes: Any
) -> EditJudged:
    """Return policy's answer where people, those of `asked_before`, leave entries out of a commit."""
    before = {"workspace_id": "w1", "tree_digest": TREE, "entries": list(proposed)}
    call = a_call(
        tool=COMMIT_SPEC.name,
        schema_digest=COMMIT_SPEC.schema_digest,
        arguments=before | {"tree_digest": "d" * 64, "entries": list(kept)} | changes,
    )
    edited = Edited(person="person:ada", proposed=canonical_text(before), proposed_digest="e" * 64)
    call = call.model_copy(update={"edited": edited})
    asked = EditProposed(tenant="acme", edit_id="e1", approval_id="p1", rule="default:commit_changes", call=call)
    staged = [an_entry(each, FINANCE, changes=each == "a") for each in proposed_entries(asked)]
    return judged_commit(asked, Held(asked_before, {}), tuple(staged), rulebook())


def test_entries_may_be_left_out() -> None:
    """What is left is a commit of its own, with its own sentence, for the same people."""
    answer = left_out(["a", "c"], ["a", "b", "c"])
    assert (True, "Apply 1 change and run 1 call") == (answer.accepted, answer.summary)


@pytest.mark.parametrize(
    ("kept", "changes"),
    [(["c", "a"], {}), (["a", "x"], {}), (["a", "a"], {}), (["a"], {"workspace_id": "w2"}), ([], {})],
)
def test_nothing_else_of_a_commit_can_be_edited(kept: list[str], changes: dict[str, Any]) -> None:
    """No other order, nothing added, nothing twice, no other workspace, and never nothing at all."""
    assert not left_out(kept, ["a", "b", "c"], **changes).accepted


@pytest.mark.parametrize("asked", [REQUESTER, None])
def test_what_is_left_of_a_commit_is_judged_anew(asked: ApprovalRule | None) -> None:
    """Where it would ask others than those who are asked, or nobody knows who they are, it cannot be decided."""
    answer = left_out(["a", "c"], ["a", "b", "c"], asked)
    assert (False, "What would be left asks others than those who are asked here, so it cannot be decided here.") == (
        answer.accepted,
        answer.detail,
    )


@pytest.mark.parametrize(
    ("left", "expected"),
    [((40, 90), (90, [60])), ((40, None), (3600, [60, 600])), ((7200,), (3600, [60, 600])), ((-5,), (1, []))],
    ids=["the last to go", "one of a job", "longer than people have", "over"],
)
def test_people_are_asked_as_long_as_the_work_is_there(
    left: tuple[int | None, ...], expected: tuple[int, list[int]]
) -> None:
    """A deadline that is shown is one: behind it nothing would be there to decide about."""
    entries = [replace(an_entry(f"c{place}"), seconds_left=each) for place, each in enumerate(left)]
    found = while_it_waits(ApprovalRule(approvers=["operators"], reminders_after_seconds=[60, 600]), entries)
    assert expected == (found.expires_after_seconds, found.reminders_after_seconds)


@pytest.mark.parametrize(("left", "is_over"), [((0, -5), True), ((-5, 1), False), ((-5, None), False)])
def test_nobody_is_asked_about_what_is_over(left: tuple[int | None, ...], is_over: bool) -> None:  # noqa: FBT001
    """All of it is about to be thrown away: whoever said yes would be told that nobody did."""
    entries = [replace(an_entry(f"c{place}"), seconds_left=each) for place, each in enumerate(left)]
    why = problem({"entries": [each.call_id for each in entries]}, entries)
    assert ("the time in which people could decide about it is over" if is_over else "") == why


def test_a_check_notes_what_cannot_be_staged() -> None:
    """Who expects a tool that writes to be staged is told that people are asked about each of its calls."""
    report = check_source(lambda: parse_yaml("rulebook", RULEBOOK.encode()), "rulebook")
    note = "'note' changes data and has no 'stage', so where no rule decides people are asked about each call"
    assert (True, [f"rulebook:3:3: {note}"]) == (report.valid, [str(each) for each in report.notes])


def test_a_check_notes_a_rule_that_stages_what_only_reads() -> None:
    """Its author would wait for results that come after the turn."""
    tools = "  look: {description: Look., category: safe_read, parameters: {type: object}, function: a:b}"
    rules = "  - {name: looks, match: {tool: look}, effect: stage, reason: Why not.}"
    source = f"version: 1\ntools:\n{tools}\nrules:\n{rules}\n"
    report = check_source(lambda: parse_yaml("rulebook", source.encode()), "rulebook")
    note = "rule 'looks' stages what changes nothing, and the model gets no result of it in this turn"
    assert (True, [f"rulebook:5:5: {note}"]) == (report.valid, [str(each) for each in report.notes])


def test_an_explanation_says_how_a_call_is_staged() -> None:
    """Who decides, when, and how."""
    book = rulebook()
    found = explain(call_from({"tool": "book"}, book, "call"), book)
    assert ("stage", 2, "each") == (found.effect, found.deciders[0].approvals, (found.stage or {})["decide"])
    assert ["People decide at once about what is staged by then; these decide about this call."] == found.notes


def test_an_explanation_of_a_default_names_operators() -> None:
    """They decide about the commit where no rule names anybody."""
    book = rulebook()
    found = explain(call_from({"tool": "write"}, book, "call"), book)
    assert [["operators"]] == [each.approvers for each in found.deciders]


def _replayed(book: Rulebook, *, entries: Sequence[str] = ("call",)) -> tuple[int, int, list[tuple[str, str, int]]]:
    """Replay a staged call and a commit of entries: return calls, commits that were only counted, and changes."""
    call = facts("book", call_id="call")
    verdict = judge(call, rulebook())
    commit = a_commit(["call"], [an_entry("call", approval=verdict.approval)])
    asked = judge(commit, rulebook()).approval
    named = replace(commit, arguments={**commit.arguments, "entries": list(entries)})
    replay = Replay(book)
    replay.add([Past(named, Effect.REQUIRE_APPROVAL, "default:commit_changes", asked, NOON)])
    replay.add([Past(call, verdict.effect, verdict.rule, verdict.approval, NOON)])
    report = replay.report()
    changes = [(each.after.effect, each.after.rule, each.count) for each in report.changes]
    return report.calls, report.commits, changes


def test_a_simulation_replays_commits() -> None:
    """By the same rules nothing changes; a rule for commits, and one for what is in them, do."""
    rule = (
        "{name: no-commits, match: {tool: commit_changes}, when: size(arguments.entries) > 0, effect: deny, reason: No}"
    )
    others = RULEBOOK.replace("approvals: 2", "approvals: 3").replace("ada, bob]", "ada, bob, eve]")
    others = others.replace("bob: {}", "bob: {}, eve: {}")
    books = [rulebook(), rulebook(f"  - {rule}\n"), rulebook_from(parse_yaml("rulebook", others.encode()))]
    stages, holds = ("stage", "bookings", 1), ("require_approval", "default:commit_changes", 1)
    expected = [[], [("deny", "no-commits", 1)], [stages, holds]]
    assert [(2, 0, each) for each in expected] == [_replayed(book) for book in books]
    assert (2, 1, []) == _replayed(books[1], entries=["call", "older"])


def test_a_simulation_counts_commits_of_what_would_not_be_staged() -> None:
    """What such a commit would ask nobody knows: of its entries another rule is a change."""
    held = rulebook_from(
        parse_yaml(
            "rulebook",
            RULEBOOK.replace("effect: stage", "effect: require_approval")
            .replace("    stage: {decide: each, expires_after: 2h, on_failure: go_on}\n", "")
            .encode(),
        )
    )
    verdict, commit = judge(facts("book"), rulebook()), a_commit(["a"], [an_entry("a")])
    replay = Replay(held)
    replay.add([Past(facts("book"), verdict.effect, verdict.rule, verdict.approval, NOON)])
    replay.add([Past(commit, Effect.REQUIRE_APPROVAL, "default:commit_changes", FINANCE, NOON)])
    report = replay.report()
    assert (2, 1, 1) == (report.calls, report.commits, report.changed)


def test_cases_expect_staging() -> None:
    """The effect, and who decides about it."""
    text = """\
cases:
  - name: staged
    call: {tool: book}
    expect: {effect: stage, rule: bookings, approvers: ["group:office"], approvals: 2}
  - name: nobody named
    call: {tool: write}
    expect: {effect: stage, approvers: [operators], approvals: 1}
"""
    _, cases = cases_from(parse_yaml("cases", text.encode()))
    assert [[], []] == [result.differences for result in run_cases(cases, rulebook()).cases]


_JOBS = """\
  - name: jobs
    match: {tool: accomplish}
    when: arguments.task.contains("payroll")
    effect: EFFECT
    reason: It costs money.
"""


@pytest.mark.parametrize(
    ("effect", "task", "default", "expected"),
    [
        ("deny", "Tidy up.", "allow", (Effect.ALLOW, "default:safe_compute")),
        ("deny", "Tidy up.", "deny", (Effect.DENY, "default:safe_compute")),
        ("deny", "Tidy up.", "stage", (Effect.REQUIRE_APPROVAL, "default:safe_compute")),
        ("deny", "Tidy the payroll.", "allow", (Effect.DENY, "jobs")),
        ("require_approval", "Tidy the payroll.", "deny", (Effect.REQUIRE_APPROVAL, "jobs")),
    ],
)
def test_beginning_a_job_is_judged(effect: str, task: str, default: str, expected: tuple[Effect, str]) -> None:
    """By a rule that names it, else by the default of its category; what cannot be staged waits for people."""
    approval = "\n    approval: {approvers: [operators]}" if effect == "require_approval" else ""
    more = _JOBS.replace("EFFECT", effect).rstrip() + approval + "\n"
    defaults = f"defaults: {{safe_compute: {{effect: {default}}}}}\n"
    own = rulebook_from(parse_yaml("rulebook", f"{defaults}{RULEBOOK.replace('groups:', f'{more}groups:')}".encode()))
    asked = facts(ACCOMPLISH_SPEC.name, arguments={"task": task})
    asked = replace(asked, schema_digest=ACCOMPLISH_SPEC.schema_digest)
    verdict = judge(asked, own)
    assert expected == (verdict.effect, verdict.rule)


def test_a_rule_for_every_tool_is_none_for_jobs() -> None:
    """Only by its name, as with commits; and it cannot be staged, since the agent goes on with its result."""
    everything = _JOBS.replace("{tool: accomplish}", '{tool: "*"}').replace("EFFECT", "deny")
    everything = everything.replace('    when: arguments.task.contains("payroll")\n', "")
    asked = replace(facts("look", arguments={"task": "payroll"}), tool=ACCOMPLISH_SPEC.name)
    asked = replace(asked, schema_digest=ACCOMPLISH_SPEC.schema_digest)
    assert Effect.ALLOW is judge(asked, rulebook(everything)).effect
    with pytest.raises(RulebookInvalid, match="cannot be staged"):
        rulebook(_JOBS.replace("EFFECT", "stage"))
