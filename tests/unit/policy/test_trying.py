"""Explaining, testing and replaying: what people learn about a rulebook without using it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages.approvals import ApprovalRule
from placet.domain.trials import CaseResult, Deciders, Example, Outcome, Tried
from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import CallFacts, Effect, Rulebook, judge
from placet.policy.rules.call import facts_from, kept_text
from placet.policy.rules.cases import cases_from, run_cases
from placet.policy.rules.explain import CallEntry, call_from, explain
from placet.policy.rules.simulate import EXAMPLES_MAX, Past, Replay
from tests.builders import a_call

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
TOOLS = """
people: {ada: {}, bob: {}, eve: {active: false}}
groups: {finance: [ada, bob, eve]}
owners: {shop: [bob]}
tools:
  pay:
    description: Pay somebody.
    category: unsafe_api
    redact: [/to]
    summary: Pay {amount} to {to}?
    parameters: {type: object, properties: {amount: {type: number}, to: {type: string}}, required: [amount]}
  look: {description: Look something up., category: safe_read, parameters: {type: object}}
"""
RULES = """
rules:
  - name: other-agent
    match: {agent: "bot-*", tool: pay}
    effect: deny
    reason: Bots pay nothing.
  - name: vip
    match: {tool: pay, labels: {vip: "yes"}}
    effect: allow
    reason: They may.
  - name: small
    match: {tool: pay, requester: ["visitor:*", "group:finance"]}
    when: arguments.amount < 100
    effect: allow
    reason: Small.
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs money.
    approval:
      approvers: [requester, "group:finance"]
      approvals: 2
      alternatives: [{approvers: [operators]}]
  - name: never-asked
    effect: deny
    reason: Everything else.
"""


def a_rulebook(rules: str = RULES, tools: str = TOOLS) -> Rulebook:
    """Return the rulebook of these tools and rules."""
    return rulebook_from(parse_yaml("rulebook.yaml", (tools + rules).encode()))


def an_entry(**fields: Any) -> CallEntry:
    """Return a call to try: 300 by a visitor."""
    return CallEntry.model_validate({"tool": "pay", "arguments": {"amount": 300}} | fields)


def test_each_rule_says_why_it_did_not_decide() -> None:
    """The rules above the one that decides, in their order, each with the first thing that did not fit."""
    tried = explain(an_entry(), a_rulebook()).tried

    assert [
        Tried(rule="other-agent", outcome="passed_over", why="the agent is not 'bot-*'"),
        Tried(rule="vip", outcome="passed_over", why="the label 'vip' is not 'yes'"),
        Tried(rule="small", outcome="passed_over", why="its condition is false"),
        Tried(rule="payments", outcome="decided"),
    ] == tried


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"agent": "bot-7"}, "other-agent"),
        ({"labels": {"vip": "yes"}}, "vip"),
        ({"labels": {"vip": "no"}}, "payments"),
        ({"arguments": {"amount": 5}}, "small"),
        ({"arguments": {"amount": 5}, "requester": "visitor:v77"}, "small"),
        ({"arguments": {"amount": 5}, "requester": "v77"}, "small"),
        ({"arguments": {"amount": 5}, "requester": "person:ada"}, "small"),
        ({"arguments": {"amount": 5}, "requester": "person:eve"}, "payments"),
        ({"arguments": {"amount": 5}, "requester": "person:joe"}, "payments"),
        ({"tool": "look", "arguments": {}}, "never-asked"),
        ({"tool": "lok"}, "unknown-tool"),
    ],
)
def test_labels_and_requesters_decide_like_everything_else(fields: dict[str, Any], rule: str) -> None:
    """A label that is absent matches nothing; who is not active is in no group."""
    assert rule == explain(an_entry(**fields), a_rulebook()).rule


def test_counters_of_earlier_calls_may_be_tried() -> None:
    """A call to try says what had been counted."""
    rules = RULES.replace("arguments.amount < 100", "history.calls_last_day < 3")
    found = [explain(an_entry(history={"calls_last_day": count}), a_rulebook(rules)).rule for count in (2, 3)]

    assert ["small", "payments"] == found


def test_counters_that_are_left_out_are_0() -> None:
    """A call to try says only what matters; no real call lacks a counter."""
    rules = RULES.replace("arguments.amount < 100", "history.calls_last_day < 3 && history.calls_last_hour == 1")
    found = [explain(an_entry(history=history), a_rulebook(rules)).rule for history in ({}, {"calls_last_hour": 1})]

    assert ["payments", "small"] == found


ALL_COUNTERS = (
    "did you mean 'calls_last_day'?; there are calls_last_hour, calls_last_day, requester_calls_last_hour, "
    "requester_calls_last_day"
)


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ({"calls_lastday": 1}, f"in 'call.history': unknown counter 'calls_lastday', {ALL_COUNTERS}"),
        ({"calls_last_day": -1}, "in 'call.history': 'calls_last_day' should be greater than or equal to 0"),
    ],
)
def test_counters_that_nothing_counts_are_refused(history: dict[str, int], problem: str) -> None:
    """A misspelt counter, or one that counts backwards, would explain a call that cannot be."""
    with pytest.raises(RulebookInvalid) as caught:
        call_from({"tool": "pay", "arguments": {"amount": 5}, "history": history}, a_rulebook(), "call.json")

    assert [problem] == [each.problem for each in caught.value.problems]


def test_cases_with_such_counters_are_refused_at_their_place() -> None:
    """A test that counted nothing would pass for ever."""
    text = "cases:\n  - name: one\n    call: {tool: pay, history: {calls_today: 1}}\n    expect: {effect: allow}\n"
    with pytest.raises(RulebookInvalid) as caught:
        cases_from(parse_yaml("cases.yaml", text.encode()))

    assert [(3, True)] == [
        (each.line, "unknown counter 'calls_today'" in each.problem) for each in caught.value.problems
    ]


def test_condition_that_fails_is_explained_as_what_holds_the_call() -> None:
    """The rule is the last one tried, and the fallback decides."""
    rulebook = a_rulebook('fallback: {approvers: ["group:finance"], approvals: 2}\n' + RULES)
    explanation = explain(an_entry(arguments={}), rulebook)

    assert Tried(rule="small", outcome="failed", why="ConditionFailed") == explanation.tried[-1]
    assert (Effect.REQUIRE_APPROVAL, "small", 2) == (
        explanation.effect,
        explanation.rule,
        explanation.deciders[0].approvals,
    )


UNFIT = "no agent could propose it: among the arguments of 'pay': "


@pytest.mark.parametrize(
    ("call", "problems"),
    [
        ({"tool": "pya"}, ["no agent could propose it: unknown tool 'pya', did you mean 'pay'?"]),
        (
            {"tool": "pay", "arguments": {"sum": 5}},
            [
                f"{UNFIT}/ 'amount' is a required property",
                f"{UNFIT}/ Additional properties are not allowed ('sum' was unexpected)",
            ],
        ),
        (
            {"tool": "pay", "agnet": "x", "labels": {"a": 1}},
            ["in 'call': unknown key 'agnet'", "in 'call.labels': 'a' should be a valid string"],
        ),
        ({}, ["in 'call': key 'tool' is missing"]),
        ([], ["'call' should be a mapping"]),
        (
            {"tool": "pay", "arguments": {"amount": 5}, "requester": "group:finance"},
            ["nobody asks for a call who is called 'group:finance'"],
        ),
    ],
)
def test_call_that_no_agent_could_propose_is_not_explained(call: object, problems: list[str]) -> None:
    """What policy would never be asked has no verdict worth a look; every reason is told at once."""
    with pytest.raises(RulebookInvalid) as caught:
        call_from(call, a_rulebook(), "call.json")
    assert [f"call.json:1:1: {problem}" for problem in problems] == [str(each) for each in caught.value.problems]


LIMITED = """
rules:
  - {name: other, match: {tool: look}, effect: allow, reason: Looking is free.}
  - name: small
    match: {tool: pay}
    effect: allow
    reason: A little each day.
    limits: [{sum: {argument: amount, at_most: 500}, per: tenant, within: 1d}]
"""


@pytest.mark.parametrize("amount", [-1, None, True])
def test_a_rule_whose_limit_cannot_count_the_call_failed_and_did_not_decide(amount: object) -> None:
    """Explaining goes the way of judging, to its end: an amount without a meaning holds the call."""
    explanation = explain(CallEntry(tool="pay", arguments={"amount": amount}), a_rulebook(LIMITED))
    assert ["passed_over", "failed"] == [each.outcome for each in explanation.tried]
    assert ("small", Effect.REQUIRE_APPROVAL) == (explanation.tried[-1].rule, explanation.effect)
    assert "could not be evaluated" in explanation.reason


def test_who_may_approve_is_told_by_name() -> None:
    """Every way to say yes, with the people that it means now; who is not active is nobody."""
    assert [
        Deciders(
            approvals=2, approvers=["requester", "group:finance"], people=["person:ada", "person:bob", "visitor:x"]
        ),
        Deciders(approvals=1, approvers=["operators"], people=["operators"]),
    ] == explain(an_entry(), a_rulebook()).deciders


def test_a_condition_on_who_may_decide_is_asked() -> None:
    """Of the people by name; and where too few are left, the notes say that nobody can decide such a call."""
    rules = """
rules:
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs money.
    approval:
      approvers: ["group:finance"]
      approvals: 2
      condition: call.arguments.amount < 100 || person.id == "person:ada"
"""
    small, large = (explain(an_entry(arguments={"amount": amount}), a_rulebook(rules)) for amount in (50, 500))
    assert ([["person:ada", "person:bob"], ["person:ada"]], []) == (
        [each.deciders[0].people for each in (small, large)],
        small.notes,
    )
    assert ["Such a call cannot be decided: 2 of group:finance must approve, and 1 can."] == large.notes


def test_four_eyes_take_requester_and_owner_away() -> None:
    """Whatever groups they are in."""
    rules = """
rules:
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs money.
    approval: {approvers: ["group:finance", operators], exclude: [requester, agent_owner]}
"""
    people = [
        explain(an_entry(**fields), a_rulebook(rules)).deciders[0].people
        for fields in ({}, {"agent": "shop"}, {"requester": "person:ada"})
    ]

    assert [
        ["operators", "person:ada", "person:bob"],
        ["operators", "person:ada"],
        ["operators", "person:bob"],
    ] == people


def test_rule_with_limits_says_so() -> None:
    """What the limits have room for, only the database knows."""
    rules = RULES.replace("reason: They may.", "reason: They may.\n    limits: [{count: 2, per: tenant, within: 1d}]")
    notes = explain(an_entry(labels={"vip": "yes"}), a_rulebook(rules)).notes

    assert ["The rule decides only while its limits have room; without, the rules below it are asked."] == notes


def test_a_rule_whose_limit_never_has_room_for_the_call_does_not_decide_it() -> None:
    """No history is needed to know that: it is as if the room were taken, for explain and for cases alike."""
    within, beyond = (
        explain(CallEntry(tool="pay", arguments={"amount": x}), a_rulebook(LIMITED)) for x in (500, 500.5)
    )
    case = "{name: it, call: {tool: pay, arguments: {amount: 500.5}}, expect: {effect: require_approval}}"
    (tested,) = results_of(f"cases: [{case}]", LIMITED)
    assert ("allow", "small", 1) == (within.effect, within.rule, len(within.notes))
    assert ("require_approval", "default:unsafe_api", []) == (beyond.effect, beyond.rule, beyond.notes)
    assert "the call alone is beyond its limit: at most 500 of argument 'amount'" == beyond.tried[-1].why
    assert [] == tested.differences


CASES = """\
rulebook: shop.yaml
cases:
  - name: small ones run
    call: {tool: pay, arguments: {amount: 5}}
    expect: {effect: allow, rule: small}
  - name: large ones wait
    call: {tool: pay, arguments: {amount: 500}}
    expect:
      {effect: require_approval, approvers: [operators, requester, "group:finance"], approvals: 2}
"""


def results_of(cases: str, *rules: str) -> list[CaseResult]:
    """Return what becomes of these cases with the rulebook of this page, or with other rules."""
    return run_cases(cases_from(parse_yaml("cases.yaml", cases.encode()))[1], a_rulebook(*rules)).cases


def test_cases_that_hold_pass_and_know_their_place() -> None:
    """Each has its name and its line, so that an editor can jump to it."""
    named, _ = cases_from(parse_yaml("cases.yaml", CASES.encode()))

    assert ("shop.yaml", [("small ones run", 3, True), ("large ones wait", 6, True)]) == (
        named,
        [(result.name, result.line, result.passed) for result in results_of(CASES)],
    )


def test_case_that_fails_tells_everything_that_differs() -> None:
    """Expected and found, a line for each."""
    cases = """
cases:
  - name: wrong
    call: {tool: pay, arguments: {amount: 500}}
    expect: {effect: allow, rule: small, approvers: [operators], approvals: 1}
"""
    assert [
        "effect: expected allow, found require_approval",
        "rule: expected small, found payments",
        "approvers: expected ['operators'], found ['group:finance', 'operators', 'requester']",
        "approvals: expected 1, found 2",
    ] == results_of(cases)[0].differences


def test_case_whose_arguments_no_agent_would_propose_fails() -> None:
    """A test of something that cannot happen proves nothing."""
    cases = "cases: [{name: odd, call: {tool: pay, arguments: {sum: 5, amount: 5}}, expect: {effect: allow}}]"
    (result,) = results_of(cases)

    assert (False, 1) == (result.passed, len(result.differences))
    assert "'sum' was unexpected" in result.differences[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: []", "f:1:8: 'cases' should have at least 1 item after validation, not 0"),
        ("cases: [{name: a, call: {}, expect: {effect: allow}}]", "f:1:19: key 'tool' is missing"),
        ("cases: [{name: a, call: {tool: pay, args: {}}, expect: {effect: allow}}]", "f:1:37: unknown key 'args'"),
        (
            "cases: [{name: a, call: {tool: pay}, expect: {effect: ok}}]",
            "f:1:55: 'effect' should be 'allow', 'require_approval', 'stage' or 'deny'",
        ),
    ],
)
def test_mistake_in_a_file_of_cases_is_told_with_its_place(text: str, problem: str) -> None:
    """Like one in a rulebook."""
    with pytest.raises(RulebookInvalid) as caught:
        cases_from(parse_yaml("f", text.encode()))

    assert problem == str(caught.value)


def a_past(rulebook: Rulebook, **fields: Any) -> Past:
    """Return a call as `rulebook` judged it then."""
    call = an_entry(**fields).facts(rulebook)
    verdict = judge(call, rulebook)
    return Past(call, verdict.effect, verdict.rule, verdict.approval, NOON)


def replayed(rulebook: Rulebook, *past: Past) -> Replay:
    """Return a replay of these calls."""
    replay = Replay(rulebook)
    replay.add(past)
    return replay


def test_same_rulebook_changes_nothing() -> None:
    """The past replayed against itself is the past."""
    rulebook = a_rulebook()
    past = [a_past(rulebook, arguments={"amount": amount}) for amount in (5, 50, 500)]
    report = replayed(rulebook, *past).report()

    assert (3, 0, 0, []) == (report.calls, report.changed, report.renamed, report.changes)


def test_calls_that_would_be_decided_otherwise_are_counted_with_examples() -> None:
    """Grouped by what was and what would be, with a few calls as people may see them."""
    before, after = a_rulebook(), a_rulebook(RULES.replace("< 100", "< 10"))
    past = [a_past(before, arguments={"amount": 50, "to": "secret"}) for _ in range(EXAMPLES_MAX + 2)]
    past += [a_past(before, arguments={"amount": amount}) for amount in (5, 500)]
    report = replayed(after, *past).report()
    (change,) = report.changes

    assert (7, 5, after.digest) == (report.calls, report.changed, report.rulebook_digest)
    assert (Outcome(effect="allow", rule="small"), Outcome(effect="require_approval", rule="payments"), 5) == (
        change.before,
        change.after,
        change.count,
    )
    example = Example(call_id="call", judged_at=NOON, tool="pay", summary="Pay 50 to •••?")
    assert [example] * EXAMPLES_MAX == change.examples


def test_same_effect_by_other_people_is_a_change() -> None:
    """Who decides is what a rule is about."""
    before, after = a_rulebook(), a_rulebook(RULES.replace("approvals: 2", "approvals: 1"))
    (change,) = replayed(after, a_past(before)).report().changes

    assert (True, "require_approval", "require_approval") == (
        change.other_approval,
        change.before.effect,
        change.after.effect,
    )


def test_same_outcome_by_a_rule_of_another_name_is_no_change() -> None:
    """It is told apart, so that a rename does not look like a revolution."""
    before, after = a_rulebook(), a_rulebook(RULES.replace("name: payments", "name: money"))
    report = replayed(after, a_past(before)).report()

    assert (0, 1) == (report.changed, report.renamed)


def test_changed_tool_is_judged_as_the_agent_would_offer_it_then() -> None:
    """Only arguments that do not fit any more are a change, not the new schema itself."""
    before = a_rulebook()
    after = a_rulebook(tools=TOOLS.replace("required: [amount]", "required: [amount, to]"))
    past = [a_past(before, arguments={"amount": 5, "to": "x"}), a_past(before, arguments={"amount": 5})]
    report = replayed(after, *past).report()

    assert [("invalid", 1)] == [(change.after.effect, change.count) for change in report.changes]


def test_tool_that_is_gone_is_refused() -> None:
    """The call would be answered that there is no such tool."""
    after = a_rulebook("", TOOLS.replace("  pay:", "  buy:"))
    (change,) = replayed(after, a_past(a_rulebook())).report().changes

    assert (Outcome(effect="deny", rule="unknown-tool"), "") == (change.after, change.examples[0].summary)


def test_calls_of_grants_are_left_out() -> None:
    """Which grants there were then is not part of a rulebook."""
    rulebook = a_rulebook()
    call = an_entry().facts(rulebook)
    report = replayed(rulebook, Past(call, Effect.ALLOW, "grant:1", None, NOON)).report()

    assert (1, 1, 0) == (report.calls, report.granted, report.changed)


TWO_SMALL = RULES.replace("reason: Small.", "reason: Small.\n    limits: [{count: 2, per: tenant, within: 1d}]")


@pytest.mark.parametrize(
    ("limit", "changed"),
    [
        ("count: 2, per: tenant, within: 1d", 0),
        ("count: 1, per: tenant, within: 1d", 1),
        ("count: 3, per: tenant, within: 1d", 1),
        ("count: 1, per: tenant, within: 1h", 1),
        ("count: 1, per: conversation, within: 90m", 2),
        ("count: 2, per: tenant, within: 1d}, {count: 9, per: tenant, within: 24h", 0),
        ("sum: {argument: amount, at_most: 9}, per: tenant, within: 1d", 1),
    ],
)
def test_limits_are_replayed_in_the_order_of_time(limit: str, changed: int) -> None:
    """Three calls, an hour apart; the third had no room for it then. What would have room now, or none, is a change."""
    before = a_rulebook(TWO_SMALL)
    call = an_entry(arguments={"amount": 5}).facts(before)
    verdicts = [judge(call, before), judge(call, before), judge(call, before, {"small"})]
    past = [
        Past(call, verdict.effect, verdict.rule, verdict.approval, NOON + timedelta(hours=number))
        for number, verdict in enumerate(verdicts)
    ]
    after = a_rulebook(TWO_SMALL.replace("count: 2, per: tenant, within: 1d", limit))

    assert changed == replayed(after, *reversed(past)).report().changed


@pytest.mark.parametrize(
    ("condition", "changed"),
    [
        ("history.calls_last_day >= 2", 1),
        ("history.calls_last_hour >= 1", 0),
        ("history.requester_calls_last_day < 9", 3),
    ],
)
def test_counters_that_no_rule_asked_for_are_replayed(condition: str, changed: int) -> None:
    """Three calls, an hour apart: each has those that were replayed before it; what fails would hold all of them."""
    judged = a_past(a_rulebook(), arguments={"amount": 5})
    call = replace(judged.call, history={})
    past = [replace(judged, call=call, judged_at=NOON + timedelta(hours=number)) for number in range(3)]
    often = f'  - {{name: often, match: {{tool: pay}}, when: "{condition}", effect: deny, reason: Often.}}\n'
    report = replayed(a_rulebook(RULES.replace("rules:\n", f"rules:\n{often}", 1)), *reversed(past)).report()
    assert (changed, {"often"} if changed else set()) == (
        report.changed,
        {change.after.rule for change in report.changes if change.after.effect == "deny"},
    )


def test_what_is_kept_of_a_call_gives_its_facts_again() -> None:
    """Also what PostgreSQL's JSON would not take."""
    call = a_call(labels={"odd": "\x00"}, arguments={"note": "\x00 é", "amount": 300})
    facts = CallFacts.of(call)

    assert facts == facts_from(kept_text(call, facts), call.model_dump())


def test_fallback_is_the_operators_where_the_file_names_nobody() -> None:
    """An error is never decided by nobody."""
    verdict = judge(an_entry(arguments={}).facts(a_rulebook()), a_rulebook())

    assert ApprovalRule(approvers=["operators"]) == verdict.approval


STAGING = """
people: {ada: {}, bob: {}, eve: {}}
groups: {finance: [ada, bob], office: [eve]}
tools:
  pay:
    description: Pay somebody.
    category: unsafe_api
    parameters: &amount {type: object, properties: {amount: {type: number}}, required: [amount]}
  invite: {description: Invite somebody., category: unsafe_api, parameters: *amount}
  look: {description: Look something up., category: safe_read, parameters: {type: object}}
rules:
  - name: payments
    match: {tool: pay}
    effect: stage
    reason: All at once.
    approval: {approvers: ["group:finance"], approvals: 2}
  - name: invitations
    match: {tool: invite}
    effect: stage
    reason: All at once.
    approval: {approvers: ["group:office"]}
  - name: large
    match: {tool: commit_changes}
    when: size(arguments.entries) > 2
    effect: deny
    reason: Too much at once.
"""
PAY = {"tool": "pay", "arguments": {"amount": 5}}
INVITE = {"tool": "invite", "arguments": {"amount": 1}}


def staging() -> Rulebook:
    """Return the rulebook that stages."""
    return rulebook_from(parse_yaml("rulebook", STAGING.encode()))


def test_a_commit_asks_all_that_its_entries_rules_ask() -> None:
    """As policy itself asks: each panel must be met; which rule stages which entry is said."""
    rulebook = staging()
    found = explain(call_from({"tool": "commit_changes", "staged": [PAY, INVITE]}, rulebook, "call.json"), rulebook)
    assert ("require_approval", "default:commit_changes") == (found.effect, found.rule)
    assert [(2, ["ada", "bob"]), (1, ["eve"])] == [
        (each.approvals, [name.removeprefix("person:") for name in each.people]) for each in found.deciders
    ]
    notes = ["Entry 1, a call of pay, is staged by payments.", "Entry 2, a call of invite, is staged by invitations."]
    assert notes == found.notes
    assert [("large", "passed_over")] == [(each.rule, each.outcome) for each in found.tried[-1:]]


def test_a_commit_asks_operators_for_an_entry_whose_rule_names_nobody() -> None:
    """Beside whom the other entries ask, in explanations and in cases alike."""
    nobodys = STAGING.replace('    approval: {approvers: ["group:office"]}\n', "")
    rulebook = rulebook_from(parse_yaml("rulebook", nobodys.encode()))
    found = explain(call_from({"tool": "commit_changes", "staged": [PAY, INVITE]}, rulebook, "call.json"), rulebook)
    assert [["group:finance"], ["operators"]] == [each.approvers for each in found.deciders]
    case = """
cases:
  - name: both
    call: {tool: commit_changes, staged: [{tool: pay, arguments: {amount: 5}}, {tool: invite, arguments: {amount: 1}}]}
    expect: {effect: require_approval, approvers: ["group:finance", operators]}
"""
    _, cases = cases_from(parse_yaml("cases", case.encode()))
    assert [[]] == [each.differences for each in run_cases(cases, rulebook).cases]


def test_a_rule_for_commits_is_tested_by_their_entries() -> None:
    """By names alone too, where no matter what they are: operators decide then."""
    cases = """
cases:
  - name: few
    call: {tool: commit_changes, arguments: {entries: [a, b]}}
    expect: {effect: require_approval, approvers: [operators]}
  - {name: many, call: {tool: commit_changes, arguments: {entries: [a, b, c]}}, expect: {effect: deny, rule: large}}
  - name: called by its parts
    call: {tool: commit_changes, staged: [{tool: pay, arguments: {amount: 1}}]}
    expect: {effect: require_approval, rule: "default:commit_changes", approvers: ["group:finance"], approvals: 2}
"""
    _, found = cases_from(parse_yaml("cases", cases.encode()))
    assert [[], [], []] == [each.differences for each in run_cases(found, staging()).cases]


def test_what_is_not_staged_is_in_no_commit() -> None:
    """The commit is denied, as policy would deny it, and the entry is named."""
    rulebook = staging()
    look = {"tool": "commit_changes", "staged": [PAY, {"tool": "look"}]}
    found = explain(call_from(look, rulebook, "call.json"), rulebook)
    assert ("deny", "commit-refused") == (found.effect, found.rule)
    assert "Entry 2, a call of look, is not staged, but allow by default:safe_read." == found.notes[1]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"tool": "commit_changes"}, "among the arguments of 'commit_changes': "),
        ({"tool": "commit_changes", "staged": [{"tool": "pai"}]}, "unknown tool 'pai'"),
        ({"tool": "commit_changes", "staged": [{"tool": "pay"}]}, "among the arguments of 'pay': "),
        ({"tool": "pay", "arguments": {"amount": 1}, "staged": [PAY]}, "only commit_changes is made of staged calls"),
        (
            {"tool": "commit_changes", "arguments": {"entries": ["a"]}, "staged": [PAY, INVITE]},
            "the arguments name another number of entries",
        ),
    ],
)
def test_a_commit_that_no_agent_could_propose_is_not_explained(call: dict[str, Any], why: str) -> None:
    """Each problem says which."""
    with pytest.raises(RulebookInvalid) as invalid:
        call_from(call, staging(), "call.json")
    assert any(why in each.problem for each in invalid.value.problems)
