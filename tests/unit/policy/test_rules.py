"""Judging: the first rule that matches decides, and nothing that goes wrong lets a call through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.canonical import NotStrictJson, canonical_text
from placet.contracts.messages import StagePlan
from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.tool_calls import Category, ToolCall
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.directory import Directory, Person
from placet.policy.rules import CallFacts, Condition, Effect, Rule, Rulebook, Ruling, Verdict, judge
from placet.policy.rules.conditions import compile_condition

ALLOW = Ruling(Effect.ALLOW, "Fine.")
DENY = Ruling(Effect.DENY, "For people.", "for the model.")
OPERATORS = ApprovalRule(approvers=["operators"])
SCHEMA = {"type": "object", "properties": {"amount": {"type": "number"}, "note": {"type": "string"}}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)
some_arguments = st.dictionaries(st.sampled_from(["amount", "note", "other"]) | st.text(max_size=3), json_values)
unsafe_categories = st.sampled_from([Category.UNSAFE_WRITE, Category.UNSAFE_API, Category.UNSAFE_EXEC])


class Always:
    """A condition with a fixed answer, or that raises the given error."""

    def __init__(self, *, answer: bool | Exception) -> None:
        self.answer = answer

    def holds(self, _call: CallFacts, _spec: ToolSpec) -> bool:
        """Answer, or raise."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def a_tool(category: Category = Category.UNSAFE_API, name: str = "pay") -> ToolSpec:
    """Return a tool with an amount and a note."""
    return ToolSpec(name=name, description="A tool.", parameters=SCHEMA, category=category)


TOOLS = {category: a_tool(category) for category in Category}
SCHEMA_DIGEST = a_tool().schema_digest
SMALL = compile_condition("arguments.amount < 500", [a_tool()])
SMALL_OR_X = compile_condition('(has(arguments.note) && arguments.note == "x") || arguments.amount < 500', [a_tool()])


def a_rule(name: str, ruling: Ruling, condition: Condition | None = None, **fields: Any) -> Rule:
    """Return a rule for tool `pay`."""
    return Rule(name, ruling, frozenset({"pay"}), condition=condition, **fields)


def a_rulebook(*rules: Rule, spec: ToolSpec | None = None) -> Rulebook:
    """Return a rulebook of one tool."""
    return Rulebook(digest="0" * 64, tools=Catalog([spec or a_tool()]), rules=rules)


def a_call(arguments: Mapping[str, Any] | None = None, **fields: Any) -> CallFacts:
    """Return a call of tool `pay` by an agent with the same catalogue."""
    return CallFacts(
        **{
            "call_id": "call-1",
            "tenant": "acme",
            "conversation_id": "conversation-1",
            "agent": "default",
            "requester": "visitor:1",
            "labels": {},
            "tool": "pay",
            "schema_digest": SCHEMA_DIGEST,
            "arguments": {"amount": 299} if arguments is None else arguments,
        }
        | fields
    )


def test_first_rule_that_matches_wins() -> None:
    """Rules are asked in order, and the later ones never hear of a decided call."""
    rulebook = a_rulebook(a_rule("skipped", DENY, Always(answer=False)), a_rule("wins", ALLOW), a_rule("late", DENY))

    assert Verdict(Effect.ALLOW, "wins", "Fine.", "", "0" * 64, None, a_tool()) == judge(a_call(), rulebook)


@pytest.mark.parametrize(
    ("category", "effect"),
    [
        (Category.SAFE_READ, Effect.ALLOW),
        (Category.SAFE_SEARCH, Effect.ALLOW),
        (Category.SAFE_COMPUTE, Effect.ALLOW),
        (Category.UNSAFE_WRITE, Effect.REQUIRE_APPROVAL),
        (Category.UNSAFE_API, Effect.REQUIRE_APPROVAL),
        (Category.UNSAFE_EXEC, Effect.REQUIRE_APPROVAL),
    ],
)
def test_no_rule_matches_then_the_category_decides(category: Category, effect: Effect) -> None:
    """The default goes by category and is named in the verdict."""
    verdict = judge(a_call(), a_rulebook(spec=a_tool(category)))

    assert (effect, f"default:{category}") == (verdict.effect, verdict.rule)


def test_held_call_names_who_decides() -> None:
    """Without a rule it is the operators, never nobody."""
    assert OPERATORS == judge(a_call(), a_rulebook()).approval


def test_unknown_tool_is_refused() -> None:
    """What the rulebook does not know never runs, and the model is told so."""
    verdict = judge(a_call(tool="rm"), a_rulebook())

    assert (Effect.DENY, "unknown-tool") == (verdict.effect, verdict.rule)
    assert "The call did not run: there is no tool named 'rm'." == verdict.model_reason


def test_stale_catalogue_is_refused() -> None:
    """A call that was checked against another schema never runs, whatever the rules say."""
    verdict = judge(a_call(schema_digest="f" * 64), a_rulebook(a_rule("all", ALLOW)))

    assert (Effect.DENY, "schema-changed") == (verdict.effect, verdict.rule)


@pytest.mark.parametrize(
    ("ruling", "told"),
    [
        (DENY, "The call did not run: for the model."),
        (Ruling(Effect.DENY, "Secret."), "The call did not run: a rule does not allow it."),
        (Ruling(Effect.STAGE, "Changes data.", plan=StagePlan()), ""),
        (ALLOW, ""),
    ],
)
def test_model_is_told_plainly_that_a_call_did_not_run(ruling: Ruling, told: str) -> None:
    """The model's sentence says that nothing ran, and gives away the reason only where the rule does."""
    assert told == judge(a_call(), a_rulebook(a_rule("one", ruling))).model_reason


@pytest.mark.parametrize(("agent", "tenant"), [("shop-*", "*"), ("*", "globex"), ("Default", "*")])
def test_rule_for_other_agents_or_tenants_is_passed_over(agent: str, tenant: str) -> None:
    """Globs are compared with the whole name, upper and lower case apart."""
    rulebook = a_rulebook(a_rule("other", ALLOW, agent=agent, tenant=tenant))

    assert "default:unsafe_api" == judge(a_call(), rulebook).rule


def test_rule_with_fitting_globs_matches() -> None:
    """A glob fits any text for `*` and one character for `?`."""
    assert "one" == judge(a_call(), a_rulebook(a_rule("one", DENY, agent="def*", tenant="a?me"))).rule


@given(
    error=st.sampled_from([RuntimeError, ValueError, TypeError, RecursionError, MemoryError, KeyError]),
    text=st.text(max_size=400),
    category=st.sampled_from(list(Category)),
)
def test_condition_that_raises_holds_the_call_for_operators(
    error: type[Exception], text: str, category: Category
) -> None:
    """Any error in a rule, also in one that would allow, holds the call, for safe tools too."""
    rulebook = a_rulebook(
        a_rule("broken", ALLOW, Always(answer=error(text))), a_rule("next", ALLOW), spec=a_tool(category)
    )

    verdict = judge(a_call(), rulebook)

    assert (Effect.REQUIRE_APPROVAL, "broken", OPERATORS) == (verdict.effect, verdict.rule, verdict.approval)


def test_held_call_shows_the_error() -> None:
    """People see why the rule could not be evaluated, with nothing hidden in it."""
    verdict = judge(a_call({}), a_rulebook(a_rule("small", ALLOW, SMALL)))

    assert "Rule 'small' could not be evaluated: Key not found in map : \"amount\"" == verdict.reason


@given(arguments=some_arguments, category=unsafe_categories)
def test_unsafe_tool_is_never_allowed_by_a_condition_that_does_not_hold(
    arguments: dict[str, Any], category: Category
) -> None:
    """Whatever the arguments are, only an amount that really is a number below the limit lets the call through."""
    rulebook = a_rulebook(a_rule("small", ALLOW, SMALL), spec=TOOLS[category])
    amount = arguments.get("amount")
    small = isinstance(amount, int | float) and not isinstance(amount, bool) and amount < 500

    effect = judge(a_call(arguments), rulebook).effect

    assert effect is not Effect.ALLOW or small


@given(arguments=some_arguments, data=st.data())
def test_order_of_keys_does_not_matter(arguments: dict[str, Any], data: st.DataObject) -> None:
    """The same arguments in another order get the same verdict."""
    rulebook = a_rulebook(a_rule("some", ALLOW, SMALL_OR_X), spec=TOOLS[Category.UNSAFE_API])
    shuffled = dict(data.draw(st.permutations(list(arguments.items()))))

    assert judge(a_call(arguments), rulebook).effect == judge(a_call(shuffled), rulebook).effect


@pytest.mark.parametrize("amount", [300, 300.0])
def test_number_is_judged_the_same_however_it_was_written(amount: float) -> None:
    """300 and 300.0 are one JSON number, so arithmetic on them must not depend on the spelling."""
    condition = compile_condition("arguments.amount * 2.0 > 500.0", [a_tool()])

    assert "one" == judge(a_call({"amount": amount}), a_rulebook(a_rule("one", ALLOW, condition))).rule


def test_error_of_a_condition_quotes_no_secret() -> None:
    """Where a tool has redacted arguments, people learn which rule failed and not over which value."""
    spec = a_tool().model_copy(update={"redact": ["/note"]})
    rulebook = a_rulebook(a_rule("odd", ALLOW, Always(answer=ValueError("no-4929"))), spec=spec)

    verdict = judge(a_call({"amount": 1}), rulebook)

    assert ("Rule 'odd' could not be evaluated: ValueError", Effect.REQUIRE_APPROVAL) == (
        verdict.reason,
        verdict.effect,
    )


def test_endless_condition_holds_the_call() -> None:
    """A condition that walks a long list again and again is stopped by CEL's budget, and that is an error."""
    spec = a_tool().model_copy(update={"parameters": {"type": "object", "properties": {"list": {"type": "array"}}}})
    text = "arguments.list.all(a, arguments.list.all(b, a + b >= 0))"
    rulebook = a_rulebook(a_rule("slow", ALLOW, compile_condition(text, [spec])), spec=spec)

    verdict = judge(a_call({"list": list(range(1000))}, schema_digest=spec.schema_digest), rulebook)

    assert Effect.REQUIRE_APPROVAL == verdict.effect


def test_the_values_of_a_call_are_made_once_for_all_rules() -> None:
    """Large arguments cost the same under sixty rules as under one; a call that differs has its own."""
    spec = a_tool()
    conditions = [compile_condition(f"arguments.amount > {limit}.0", [spec]) for limit in (1, 2)]
    call = a_call({"amount": 1.5})
    first, made = conditions[0].holds(call, spec), call.prepared["variables"]
    second, then = conditions[1].holds(call, spec), call.prepared["variables"]
    assert (True, False, True) == (first, second, made is then)
    assert (False, {}) == (conditions[0].holds(replace(call, arguments={"amount": 1}), spec), replace(call).prepared)


@pytest.mark.parametrize("requester", ["v77", "visitor:v77", "visitor:conversation-1"])
def test_a_rule_for_visitors_is_for_named_ones_too(requester: str) -> None:
    """A visitor whom their frontend named has a bare name everywhere else; a deny rule must not miss them."""
    rulebook = a_rulebook(a_rule("strangers", DENY, requesters=("visitor:*",)))

    assert "strangers" == judge(a_call(requester=requester), rulebook).rule


@pytest.mark.parametrize(
    ("requester", "wanted", "matches"),
    [
        ("v77", "visitor:v77", True),
        ("v77", "v77", True),
        ("v77", "v*", True),
        ("person:ada", "visitor:*", False),
        ("person:ada", "person:*", True),
        ("ada", "person:ada", False),
        ("ada", "group:finance", False),
        ("person:ada", "group:finance", True),
    ],
)
def test_requesters_are_matched_by_what_rules_call_them(requester: str, wanted: str, *, matches: bool) -> None:
    """A visitor named like a person is not that person."""
    directory = Directory(people={"ada": Person("ada")}, groups={"finance": frozenset({"ada"})})
    rulebook = replace(a_rulebook(a_rule("one", DENY, requesters=(wanted,))), directory=directory)

    assert matches == ("one" == judge(a_call(requester=requester), rulebook).rule)


def a_proposed_call(arguments: str) -> ToolCall:
    """Return the message part that the agent sends, with these arguments as text."""
    return ToolCall(
        call_id="call-1",
        tenant="acme",
        conversation_id="conversation-1",
        turn_id="turn-1",
        message_id="message-1",
        agent="default",
        requester="visitor:1",
        tool="pay",
        schema_digest=a_tool().schema_digest,
        arguments=arguments,
        shown_arguments=arguments,
        digest="0" * 64,
    )


def test_facts_are_those_of_the_proposed_call() -> None:
    """What the rules look at comes from the bytes that would run."""
    assert a_call({"amount": 299}) == CallFacts.of(a_proposed_call(canonical_text({"amount": 299})))


def test_facts_of_ambiguous_arguments_are_refused() -> None:
    """Two readers could read a duplicate key differently, so no rule ever sees it."""
    with pytest.raises(NotStrictJson):
        CallFacts.of(a_proposed_call('{"amount":1,"amount":100000}'))
