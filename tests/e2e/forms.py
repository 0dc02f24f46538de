"""Every form that a rule can take, as rules about one tool, `act`, and the words with which a visitor brings it about.

`act(form, amount)` does nothing but leave a line in the ledger. A visitor who says "do FORM AMOUNT." has the model call
it so; the rule of that form decides.
"""

from __future__ import annotations

from typing import Any

from tests.support.model_script import Answer, Call, Rule

#: Beside grace and hopper, who are in the releases group too.
PEOPLE: dict[str, Any] = {
    "grace": {"attributes": {"site": "north"}},
    "hopper": {"attributes": {"site": "south"}},
    "lovelace": {},
}
GROUPS = {"releases": ["grace", "hopper"], "leads": ["lovelace"], "staff": ["grace", "hopper"]}

TOOL: dict[str, Any] = {
    "description": "Act as a form of a rule wants it.",
    "category": "unsafe_api",
    "function": "tests.e2e.ledger_tools:act",
    "summary": "Act as {form} with {amount}?",
    "parameters": {
        "type": "object",
        "properties": {"form": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}},
        "required": ["form", "amount"],
        "additionalProperties": False,
    },
}


def _denied(name: str, **match: Any) -> dict[str, Any]:
    rule = {"name": name, "match": {"tool": "act", **match}, "when": 'arguments.form == "match"'}
    return rule | {"effect": "deny", "reason": f"{name} says no.", "model_reason": f"{name} says no."}


def _held(form: str, approvers: list[str], **approval: Any) -> dict[str, Any]:
    return {
        "name": form,
        "match": {"tool": "act"},
        "when": f'arguments.form == "{form}"',
        "effect": "require_approval",
        "reason": f"{form} is asked.",
        "approval": {"approvers": approvers, **approval},
    }


RULES: list[dict[str, Any]] = [
    _denied("by-label", labels={"plan": "gol*"}),
    _denied("by-agent", agent="help-*"),
    _denied("by-tenant", tenant="riv*"),
    _denied("by-requester", requester=["group:leads", "visitor:v-*"]),
    _denied("by-bare-name", requester="w-?"),
    _denied("by-glob") | {"match": {"tool": ["ac*", "a[abc]?"]}},
    {
        "name": "broken",
        "match": {"tool": "act"},
        "when": 'arguments.form == "broken" && arguments.note == "x"',
        "effect": "allow",
        "reason": "The note is compared and was not given.",
    },
    _held("person", ["person:hopper"]),
    _held(
        "condition", ["group:releases"], condition='person.attributes["site"] == "south" && call.arguments.amount < 10'
    ),
    _held("alternatives", ["group:leads"], alternatives=[{"approvers": ["group:staff"], "approvals": 2}]),
    _held("denials", ["group:releases"], denials=2),
    _held("veto", ["group:releases", "group:leads"], denials=3, veto=["group:leads"]),
    _held("four-eyes", ["group:releases"], exclude=["requester"]),
    _held("reasons", ["operators"], reason_required="always"),
    _held("strength", ["requester", "operators"], min_strength="slack"),
    _held(
        "escalating",
        ["person:grace"],
        reminders_after_seconds=[1],
        escalations=[{"after_seconds": 2, "approvers": ["person:hopper"]}],
    ),
    _held("superseding", ["operators"], on_message_while_pending="supersede"),
    _held("waiting", ["operators"], on_message_while_pending="wait"),
    _held("window", ["operators"], veto_window_seconds=3600),
    _held("granting", ["operators"], grants={"scope": "conversation", "bounds": ["amount"], "uses": 5}),
    {
        "name": "counted",
        "match": {"tool": "act"},
        "when": 'arguments.form == "counted"',
        "effect": "allow",
        "reason": "Twice a day nobody is asked.",
        "limits": [{"count": 2, "per": "conversation", "within": "1d"}],
    },
    {
        "name": "summed",
        "match": {"tool": "act"},
        "when": 'arguments.form == "summed"',
        "effect": "allow",
        "reason": "Up to 100 a day nobody is asked.",
        "limits": [{"sum": {"argument": "amount", "at_most": 100}, "per": "conversation", "within": "1d"}],
    },
    {
        "name": "often",
        "match": {"tool": "act"},
        "when": 'arguments.form == "often" && history.calls_last_day >= 1',
        "effect": "deny",
        "reason": "Once is enough.",
        "model_reason": "Once is enough.",
    },
    {
        "name": "free",
        "match": {"tool": "act"},
        "when": 'arguments.form in ["often", "match"]',
        "effect": "allow",
        "reason": "Nobody minds.",
    },
]

SCRIPT = (
    *(
        Rule(
            user=f"do {form} {amount}.",
            answer=Answer(calls=(Call(name="act", arguments={"form": form, "amount": amount}),)),
        )
        for form in (
            *("match", "broken", "person", "condition", "alternatives", "denials", "veto", "four-eyes", "reasons"),
            *("strength", "escalating", "superseding", "waiting", "window", "granting", "counted", "summed", "often"),
        )
        for amount in (1, 40, 60)
    ),
    Rule(after_results_of=("act",), results_contain="succeeded", answer=Answer(text="It is done.")),
    Rule(after_results_of=("act",), answer=Answer(text="It is not done.")),
    Rule(user="never mind", answer=Answer(text="As you like.")),
)
