"""Loading a rulebook: what the file may say, and how each mistake in it is told."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.tool_calls import Category
from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.policy.rulebook import load_rulebook, rulebook_from
from placet.policy.rules import DEFAULTS, CallFacts, Effect, Rule, Rulebook, Ruling, judge
from placet.policy.rules.model import COMMIT, HELD_JOB, HELD_WRITE
from placet.surfaces.card import HOUSE_REASONS, why

INVALID = Path(__file__).parent / "invalid"
SHOP = Path(__file__).parents[3] / "deploy" / "rulebook.yaml"

TOOLS = """
tools:
  pay:
    description: Pay somebody.
    category: unsafe_api
    parameters:
      type: object
      properties:
        amount: {type: number}
        count: {type: integer}
        tags: {type: array, items: {type: number}}
        in: {type: string}
        "e-mail": {type: string}
  look:
    description: Look something up.
    category: safe_read
    parameters: {type: object, properties: {text: {type: string}}}
"""


def a_rulebook(rest: str = "") -> Rulebook:
    """Return the rulebook of TOOLS and `rest`, which starts at the left margin."""
    return rulebook_from(parse_yaml("rulebook.yaml", (TOOLS + rest).encode()))


def a_rule(when: str, tool: str = "pay") -> str:
    """Return the YAML of one denying rule with a condition."""
    return f"rules:\n- {{name: one, match: {{tool: {tool}}}, effect: deny, reason: Because., when: '{when}'}}\n"


def a_call(rulebook: Rulebook, tool: str = "pay", **arguments: object) -> CallFacts:
    """Return a call of `tool` as an agent with the same catalogue would propose it."""
    return CallFacts(
        call_id="call-1",
        tenant="acme",
        conversation_id="conversation-1",
        agent="default",
        requester="visitor:1",
        labels={"vip": "yes"},
        tool=tool,
        schema_digest=rulebook.tools[tool].schema_digest,
        arguments=arguments,
    )


@pytest.mark.parametrize("path", sorted(INVALID.glob("*.yaml")), ids=lambda path: path.stem)
def test_invalid_rulebook_names_every_problem_with_its_place(path: Path) -> None:
    """Each mistake in an invalid file is one line `FILE:LINE:COLUMN: problem`, in the order of the file."""
    with pytest.raises(RulebookInvalid) as caught:
        rulebook_from(parse_yaml(path.name, path.read_bytes()))

    assert path.with_suffix(".expected").read_text() == f"{caught.value}\n"


def test_a_bound_on_a_schema_of_many_references_is_soon_checked() -> None:
    """Each is followed once: level by level two to the same one are more than a million ways through twenty levels."""
    levels = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)}
    schema = {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/d0"}},
        "$defs": levels | {"d60": {"type": "string"}},
    }
    tool = {"description": "Pay.", "category": "unsafe_api", "parameters": schema}
    approval = {"approvers": ["operators"], "grants": {"bounds": ["to"]}}
    rule = {
        "name": "one",
        "match": {"tool": "pay"},
        "effect": "require_approval",
        "reason": "So.",
        "approval": approval,
    }
    text = json.dumps({"tools": {"pay": tool}, "rules": [rule]})
    with pytest.raises(RulebookInvalid, match="is no number that could be smaller"):
        rulebook_from(parse_yaml("many.yaml", text.encode()))


def test_missing_file_is_told_like_any_other_problem(tmp_path: Path) -> None:
    """A file that is not there is a problem at its first character, not another kind of error."""
    path = tmp_path / "rulebook.yaml"

    with pytest.raises(RulebookInvalid) as caught:
        load_rulebook(path)

    assert f"{path}:1:1: cannot be read: No such file or directory" == str(caught.value)


def test_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    """The rulebook's version is the SHA-256 of the file, so anybody can compute it."""
    path = tmp_path / "rulebook.yaml"
    path.write_text(TOOLS)

    assert hashlib.sha256(TOOLS.encode()).hexdigest() == load_rulebook(path).digest


def test_file_with_tools_only_uses_every_default() -> None:
    """Rules, defaults and the permit's lifetime may be left out."""
    rulebook = a_rulebook()

    assert ((), dict(DEFAULTS), 900) == (
        rulebook.rules,
        dict(rulebook.defaults),
        rulebook.permit_expires_after_seconds,
    )


def test_what_the_house_says_itself_is_told_in_every_language() -> None:
    """Surfaces know the reasons of the defaults, and translate what a commit begins with; a rulebook's words stay."""
    own = {*(each.reason for each in DEFAULTS.values() if each.effect is not Effect.ALLOW)}
    own |= {HELD_WRITE.reason, HELD_JOB.reason, COMMIT.reason}
    assert own == {*HOUSE_REASONS}
    assert ("Vorgemerktes wird wirksam, sobald es freigegeben ist. Money goes out.", "The tool acts up.", "") == (
        why("de", f"{COMMIT.reason} Money goes out."),
        why("de", "The tool acts up."),
        why("de", ""),
    )


def test_default_of_one_category_is_replaced_and_the_others_stay() -> None:
    """`defaults` overrides per category."""
    rulebook = a_rulebook("defaults: {safe_read: {effect: deny, reason: Not here., model_reason: not here.}}")

    assert Ruling(Effect.DENY, "Not here.", "not here.") == rulebook.defaults[Category.SAFE_READ]
    assert DEFAULTS[Category.UNSAFE_API] == rulebook.defaults[Category.UNSAFE_API]


def test_rule_is_read_with_everything_it_may_say() -> None:
    """Each field of a rule arrives in the value that judges."""
    rulebook = a_rulebook("""
rules:
  - name: both
    match: {tool: ["p*", look], agent: "shop-?", tenant: acme}
    effect: require_approval
    reason: For people.
    model_reason: for the model.
    approval: {approvers: [requester, "person:ada"], expires_after_seconds: 60, channels: [inbox]}
""")

    approval = ApprovalRule(approvers=["requester", "person:ada"], expires_after_seconds=60, channels=["inbox"])
    ruling = Ruling(Effect.REQUIRE_APPROVAL, "For people.", "for the model.", approval)
    assert (Rule("both", ruling, frozenset({"pay", "look"}), "shop-?", "acme"),) == rulebook.rules


@pytest.mark.parametrize("listed", ["webhook:crm", "webhook"])
def test_a_place_is_listed_by_its_whole_name_or_by_its_kind(listed: str) -> None:
    """What a rule may name can be listed; another place of the kind is known where all of them are."""
    rule = """
  - name: {tool}
    match: {{tool: {tool}}}
    effect: require_approval
    reason: So.
    approval: {{approvers: [operators], channels: ["webhook:{name}"]}}
"""
    asked = f"channels: ['{listed}']\nrules:{rule.format(tool='pay', name='crm')}"
    assert ["webhook:crm"] == a_rulebook(asked).rules[0].ruling.approval.channels  # type: ignore[union-attr]
    asked += rule.format(tool="look", name="other")
    if listed == "webhook":
        assert 2 == len(a_rulebook(asked).rules)
    else:
        with pytest.raises(RulebookInvalid, match="unknown channel 'webhook:other'"):
            a_rulebook(asked)


def test_rule_without_match_is_for_every_tool() -> None:
    """What a rule leaves out matches everything."""
    rulebook = a_rulebook("rules: [{name: all, effect: deny, reason: Closed.}]")

    assert frozenset({"pay", "look"}) == rulebook.rules[0].tools


def test_rule_behind_a_conditional_one_is_reachable() -> None:
    """Only a rule without a condition decides every call it matches."""
    rulebook = a_rulebook(a_rule("arguments.amount > 5") + "- {name: two, effect: deny, reason: The rest.}\n")

    assert ["one", "two"] == [rule.name for rule in rulebook.rules]


@pytest.mark.parametrize(
    "when",
    [
        'tool == "pay" && category == "unsafe_api" && agent == "default" && tenant == "acme"',
        'requester == "visitor:1" && conversation.id == "conversation-1"',
        'conversation.labels.vip == "yes" && !("staff" in conversation.labels)',
        "arguments.amount > 10 && arguments.amount == 300",
        "arguments.amount * 1.5 == 450.0",
        "has( arguments.count ) && has(arguments.amount) && arguments.count % 2 == 0",
        '!("in" in arguments)',
        "arguments.amount in [300, 1] && (arguments.amount > 5 ? arguments.amount : 0) == 300",
        "arguments.amount > arguments.count && arguments.count < 2.5 && arguments.count in arguments.tags",
        "arguments.amount * 2.0 > 599.0",
        'arguments["e-mail"].lowerAscii().endsWith("@example.org")',
        "arguments.tags.exists(tag, tag > 1.5) && size(arguments.tags) == 2",
        'arguments.exists(name, name == "amount") // has arguments.nothing\n',
    ],
)
def test_condition_may_look_at_everything_a_rule_may_know(when: str) -> None:
    """Each variable, `has` for optional arguments, and numbers that compare however the model wrote them."""
    rulebook = a_rulebook(a_rule(when))
    call = a_call(rulebook, amount=300, count=2.0, tags=[1, 2], **{"e-mail": "Ada@Example.org"})

    assert ("one", Effect.DENY) == ((verdict := judge(call, rulebook)).rule, verdict.effect)


@pytest.mark.parametrize("requester", ["v77", "visitor:v77"])
def test_condition_finds_a_visitor_under_what_rules_call_them(requester: str) -> None:
    """Whether they were named by their frontend or not."""
    rulebook = a_rulebook(a_rule('requester == "visitor:v77"'))

    assert "one" == judge(replace(a_call(rulebook, amount=1), requester=requester), rulebook).rule


def test_condition_on_a_tool_that_admits_any_argument_is_not_checked_for_names() -> None:
    """Where the schema admits unnamed arguments, a condition may ask for them."""
    tools = TOOLS.replace("parameters: {type: object,", "parameters: {type: object, additionalProperties: true,")
    text = tools + a_rule("arguments.anything == 1", tool="look")

    rulebook = rulebook_from(parse_yaml("rulebook.yaml", text.encode()))

    assert Effect.DENY == judge(a_call(rulebook, "look", anything=1), rulebook).effect


@pytest.mark.parametrize(
    ("tool", "arguments", "effect", "rule"),
    [
        ("search_products", {"text": "red shoes", "max_price": 500}, Effect.ALLOW, "default:safe_search"),
        ("add_to_cart", {"product_id": "p1", "quantity": 2}, Effect.ALLOW, "own-cart"),
        ("create_pay_link", {"amount": 299, "currency": "TRY"}, Effect.REQUIRE_APPROVAL, "payment-links"),
        ("create_pay_link", {"amount": 10_000, "currency": "TRY"}, Effect.REQUIRE_APPROVAL, "payment-links"),
        ("create_pay_link", {"amount": 10_000.5, "currency": "TRY"}, Effect.DENY, "large-payment-links"),
        ("collect_lead", {"email": "ada@example.org"}, Effect.ALLOW, "contact"),
        ("escalate_to_human", {"reason": "wants a person"}, Effect.ALLOW, "contact"),
    ],
)
def test_shop_rulebook_decides_as_its_comments_say(
    tool: str, arguments: dict[str, object], effect: Effect, rule: str
) -> None:
    """The rulebook that comes with the shop lets through, holds and refuses what it should."""
    rulebook = load_rulebook(SHOP)

    verdict = judge(a_call(rulebook, tool, **arguments), rulebook)

    assert (effect, rule) == (verdict.effect, verdict.rule)
