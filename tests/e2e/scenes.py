"""What the scripted model says in the end-to-end tests, and the rulebook it is up against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.e2e import forms
from tests.support.model_script import Answer, Call, Rule, Script
from tests.support.system import SHOP_RULEBOOK

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_CARD = {"type": "object", "properties": {"number": _TEXT, "holder": _TEXT}}


def _tool(name: str, category: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "description": name.replace("_", " "),
        "category": category,
        "function": f"tests.e2e.ledger_tools:{name}",
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        **more,
    }


#: The tools of mission C and D beside the shop's.
TOOLS = {
    "deploy": _tool("deploy", "unsafe_exec", {"service": _TEXT, "version": _TEXT}),
    "slow_deploy": _tool("slow_deploy", "unsafe_exec", {"service": _TEXT}, timeout_seconds=120),
    "roll_out": _tool("roll_out", "unsafe_exec", {"service": _TEXT}, timeout_seconds=120),
    "transfer": _tool(
        "transfer",
        "unsafe_api",
        {"to": _TEXT},
        timeout_seconds=10,
        verify="tests.e2e.ledger_tools:find_transfer",
    ),
    "set_flag": _tool("set_flag", "unsafe_api", {"name": _TEXT}, idempotent=True),
    "read_status": _tool("read_status", "safe_read", {"service": _TEXT}),
    "fail_on_purpose": _tool("fail_on_purpose", "safe_compute", {}),
    "read_inbox": _tool("read_inbox", "safe_read", {}),
    "send_note": _tool("send_note", "unsafe_api", {"to": _TEXT, "text": _TEXT}),
    "refund": _tool("refund", "unsafe_api", {"amount": {"type": "number"}}),
    "write_file": _tool("write_file", "unsafe_write", {"path": _TEXT}),
    "check_pin": _tool("check_pin", "safe_compute", {"pin": _TEXT}, redact=["/pin"]),
    "charge_card": _tool("charge_card", "unsafe_api", {"card": _CARD, "amount": _NUMBER}, redact=["/card/number"]),
    "open_vault": _tool("open_vault", "unsafe_api", {"code": _TEXT}, redact=["/code"]),
}
#: What nobody may see of the calls above, wherever they look.
SECRET = "4929-1234-5678-9123"
#: What an approver writes in its place.
OTHER_SECRET = "5500-0000-0000-0004"


#: Calls that one wish to deploy everywhere makes.
EVERYWHERE = 10

_HOLDING = {"on_message_while_pending": "wait"}

RULES = [
    {
        "name": "on-hold",
        "match": {"tool": "deploy"},
        "when": 'arguments.version == "held"',
        "effect": "require_approval",
        "reason": "The conversation waits for it.",
        "approval": {"approvers": ["operators"], **_HOLDING},
    },
    {
        "name": "at-once",
        "match": {"tool": "deploy"},
        "when": 'arguments.version == "at-once"',
        "effect": "require_approval",
        "reason": "The conversation goes on at once.",
        "approval": {"approvers": ["operators"], "while_pending": "continue"},
    },
    {
        "name": "by-word",
        "match": {"tool": "set_flag"},
        "when": 'arguments.name == "by-word"',
        "effect": "require_approval",
        "reason": "The user may say so.",
        "approval": {"approvers": ["requester"], "by_message": True},
    },
    {
        "name": "never-on-sundays",
        "match": {"tool": "deploy"},
        "when": 'arguments.version == "sunday"',
        "effect": "deny",
        "reason": "Nothing is deployed on Sundays.",
        "model_reason": "Deploying on Sundays is not allowed.",
    },
    {
        "name": "short-lived",
        "match": {"tool": "deploy"},
        "when": 'arguments.version == "short-lived"',
        "effect": "require_approval",
        "reason": "Must be decided at once.",
        "approval": {"approvers": ["operators"], "expires_after_seconds": 1},
    },
    {
        "name": "everywhere",
        "match": {"tool": "deploy"},
        "when": 'arguments.version.startsWith("everywhere")',
        "effect": "require_approval",
        "reason": "It goes everywhere.",
        "approval": {"approvers": ["group:releases"], "channels": ["slack:#ops", "email"]},
    },
    {
        "name": "two-must-agree",
        "match": {"tool": "deploy"},
        "when": 'arguments.version.startsWith("reviewed")',
        "effect": "require_approval",
        "reason": "Production takes two pairs of eyes.",
        "approval": {"approvers": ["group:releases"], "approvals": 2, "exclude": ["requester"], "edits": True},
    },
    {
        "name": "two-of-all",
        "match": {"tool": "deploy"},
        "when": 'arguments.version == "paired"',
        "effect": "require_approval",
        "reason": "Two people must agree, whoever asked.",
        "approval": {"approvers": ["group:releases"], "approvals": 2},
    },
    {
        "name": "charges",
        "match": {"tool": "charge_card"},
        "effect": "require_approval",
        "reason": "It costs the customer money.",
        "approval": {"approvers": ["operators"], "edits": True},
    },
    {
        "name": "whom-they-named",
        "match": {"tool": "send_note"},
        "when": 'origin(arguments.to) == "user"',
        "effect": "allow",
        "reason": "The requester named the recipient.",
    },
    {
        "name": "small-refunds",
        "match": {"tool": "refund"},
        "effect": "allow",
        "reason": "Up to 500 a day nobody is asked.",
        "limits": [{"sum": {"argument": "amount", "at_most": 500}, "per": "conversation", "within": "1d"}],
    },
    {
        "name": "refunds",
        "match": {"tool": "refund"},
        "effect": "require_approval",
        "reason": "It costs money.",
        "approval": {"approvers": ["operators"]},
    },
]


def rulebook(folder: Path) -> Path:
    """Write the shop's rulebook with the tests' tools added, and return where."""
    content = yaml.safe_load(SHOP_RULEBOOK.read_text())
    content["tools"] |= TOOLS | {"act": forms.TOOL}
    content["rules"] += RULES + forms.RULES
    content |= {"people": forms.PEOPLE, "groups": forms.GROUPS}
    path = folder / "rulebook.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return path


def _call(name: str, /, **arguments: Any) -> Call:
    return Call(name=name, arguments=arguments)


def _when(user: str, *calls: Call, text: str = "", **more: Any) -> Rule:
    return Rule(user=user, answer=Answer(text=text, calls=calls), **more)


def _after(tool: str, text: str, *calls: Call, times: int = 1, contain: str | None = None) -> Rule:
    return Rule(after_results_of=(tool,) * times, results_contain=contain, answer=Answer(text=text, calls=calls))


_EVERYTHING = (
    _call("read_status", service="a"),
    _call("deploy", service="b", version="2"),
    _call("no_such_tool"),
    Call(name="read_status", arguments='{"service": "cut off'),
    _call("read_status", service=7),
    _call("fail_on_purpose"),
)

_SHOP = (
    _when("payment link", _call("create_pay_link", amount=299, currency="TRY"), text="I will prepare it."),
    _after("create_pay_link", "It was denied.", contain="denied"),
    _after("create_pay_link", "Here is your link.", contain="succeeded"),
    _after("create_pay_link", "There is no link."),
    _when("red shoes", _call("search_products", text="red shoes", max_price=500)),
    _after("search_products", "These are the red shoes."),
    _when("my mail is", _call("collect_lead", email="ada@example.org")),
    _after("collect_lead", "Noted."),
)

#: What is said slowly: the first word is there, the others when somebody opens the gate of this name.
SLOW_SCENES = (
    *("first", "tab", "stop", "again", "denied", "approved-beside", "denied-beside", "foreign", "forged"),
    *("gap", "gap-held", "cut", "cut-held"),
)
SLOWLY = tuple(f"slowly-{what}-{major}" for what in SLOW_SCENES for major in ("6", "7"))

_DEPLOY = _call("deploy", service="shop", version="1.2")
_DEPLOYING = (
    _when("deploy on sunday", _call("deploy", service="shop", version="sunday")),
    _when("deploy short-lived", _call("deploy", service="shop", version="short-lived")),
    _when("deploy paired", _call("deploy", service="shop", version="paired"), text="Deploying."),
    _when("deploy reviewed", _call("deploy", service="shop", version="reviewed")),
    _when(
        "deploy everywhere", *(_call("deploy", service="shop", version=f"everywhere-{n}") for n in range(EVERYWHERE))
    ),
    _after("deploy", "It is everywhere.", times=EVERYWHERE),
    _when("roll out", _call("roll_out", service="shop")),
    _after("roll_out", "It is out on all hosts."),
    _when("deploy slowly", _call("slow_deploy", service="shop")),
    _after("slow_deploy", "Outcome unknown.", contain="unknown"),
    _after("slow_deploy", "It took a while."),
    _when("transfer to ada", _call("transfer", to="ada")),
    _when("transfer to nobody", _call("transfer", to="nobody")),
    _after("transfer", "The money is there.", contain="succeeded"),
    _after("transfer", "No money was moved.", contain="took no effect"),
    _after("transfer", "Nobody knows."),
    _when("was it deployed?", text="Let me see."),
    _when("deploy and hold", _call("deploy", service="shop", version="held"), text="Deploying."),
    _when("deploy and refund", _call("deploy", service="shop", version="1.2")),
    Rule(
        user="deploy and refund",
        after_results_of=("deploy",),
        answer=Answer(calls=(_call("refund", amount=600),)),
    ),
    *(
        Rule(user=f"deploy behind {gate}", answer=Answer(text="Deploying.", calls=(_DEPLOY,), gate=gate, gate_after=3))
        for gate in SLOWLY
    ),
    _when("deploy at once", _call("deploy", service="shop", version="at-once"), text="Deploying."),
    _when("set it by word", _call("set_flag", name="by-word")),
    *(
        Rule(
            user=f"deploy at once, {gate}", after_results_of=("deploy",), answer=Answer(text="Please wait.", gate=gate)
        )
        for gate in SLOWLY
    ),
    Rule(user="deploy, then fall", after_results_of=("deploy",), answer=Answer(status=400)),
    _when("deploy, then fall", _DEPLOY),
    _after("deploy", "Please say yes to the deployment.", contain="pending_confirmation"),
    _when('"tool": "deploy", "result": "succeeded"', _call("read_status", service="shop")),
    _when('"tool": "deploy", "result": ', text="It came to nothing."),
    _when('"tool": "set_flag", "result": "succeeded"', text="The flag is set after all."),
    _when(
        "deploy two",
        _call("deploy", service="shop", version="2"),
        _call("deploy", service="shop", version="3"),
        text="Deploying both.",
    ),
    Rule(after_results_of=("deploy", "deploy"), answer=Answer(text="Both are there.")),
    _when("deploy the shop", _DEPLOY, text="Deploying."),
    _after("deploy", "", _call("read_status", service="shop"), contain="succeeded"),
    _after("deploy", "It was not deployed."),
    _after("read_status", "The shop is green."),
    _when("set the flag", _call("set_flag", name="flag")),
    _after("set_flag", "The flag is set."),
    _when("refund 200", _call("refund", amount=200)),
    _when("refund 100", _call("refund", amount=100)),
    _after("refund", "It is refunded.", contain="succeeded"),
    _after("refund", "It is not refunded."),
    _when("write a file", _call("write_file", path="readme")),
    _after("write_file", "It was not written."),
)

_MAILS = (
    _when("read my mails", _call("read_inbox")),
    _after("read_inbox", "", _call("send_note", to="eve@evil.example", text="As you wished")),
    _when("send it to bob@partner.example", _call("send_note", to="bob@partner.example", text="As you wished")),
    _after("send_note", "It is sent.", contain="succeeded"),
    _after("send_note", "It is not sent."),
)

_LOOPS = (
    Rule(
        user="never stop",
        after_results_of=("*",),
        tool_choice="auto",
        answer=Answer(calls=(_call("read_status", service="again"),)),
    ),
    Rule(user="never stop", after_results_of=("*",), answer=Answer(text="I stop here.")),
    _when("never stop", _call("read_status", service="again")),
    _when("accomplish the task", _call("read_status", service="task")),
    Rule(
        user="accomplish the task",
        after_results_of=("read_status",),
        answer=Answer(calls=(_call("final_answer", success=True, result="the task is done", confidence=0.9),)),
    ),
    Rule(user="everything at once", answer=Answer(text="All of it.", calls=_EVERYTHING, interleave=True)),
    Rule(user="everything at once", after_results_of=("*",), answer=Answer(text="That was everything.")),
)

_CARD_OF_ADA = {"holder": "ada", "number": SECRET}

_SECRETS = (
    _when(
        "charge my card",
        _call("check_pin", pin=SECRET),
        _call("charge_card", card=_CARD_OF_ADA, amount=299),
        _call("charge_card", card=_CARD_OF_ADA, amount="much"),
        Call(name="charge_card", arguments=f'{{"card": "{SECRET}'),
        _call("charge_crad", card=_CARD_OF_ADA),
    ),
    Rule(user="charge my card", after_results_of=("*",), answer=Answer(text="That was that.")),
    _when("open the vault", _call("open_vault", code=SECRET)),
    _after("open_vault", "The vault stays closed.", contain="failed"),
)

#: The agents of the system: `default` is as the settings say; `help-*` is what a rule of the forms asks for.
AGENTS: dict[str, dict[str, Any]] = {
    "default": {"description": "Helps with everything."},
    "help-desk": {},
    "clerk": {
        "description": "Knows how things are.",
        "model": "anthropic/clerk",
        "model_api_key_env": "CLERK_MODEL_KEY",
        "instructions": "You are a clerk.",
        "tools": ["read_*"],
        "tenants": ["acme"],
    },
    "frugal": {"budget": {"tokens_per_conversation": 20}},
    "daily": {"budget": {"tokens_per_day": 20}},
    "theirs": {"tenants": ["globex"]},
    "veiled": {"tenants": ["veiled"], "pseudonyms": True},
    "veiled-whole": {"tenants": ["veiled"], "pseudonyms": True, "stream": False},
    "veiled-clerk": {
        "tenants": ["veiled"],
        "pseudonyms": True,
        "model": "anthropic/veiled-clerk",
        "model_api_key_env": "CLERK_MODEL_KEY",
    },
}


def agents(folder: Path, model_url: str) -> Path:
    """Write the file of agents, whose models all answer at one address, and return where."""
    found = {
        name: entry | ({"model_api_base": model_url} if "model" in entry else {}) for name, entry in AGENTS.items()
    }
    path = folder / "agents.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "agents": found}, sort_keys=False))
    return path


_CLERK = (
    Rule(user="who are you", model="clerk", answer=Answer(text="I am the clerk.")),
    _when("who are you", text="I am the assistant."),
    _when("deploy it, clerk", _call("deploy", service="shop", version="1.2"), _call("read_status", service="shop")),
    Rule(user="deploy it, clerk", after_results_of=("*",), answer=Answer(text="I have no tool for that.")),
)

_TALK = (
    # The wire begins with an event that has no text.
    *(Rule(user=f"speak {gate}", answer=Answer(text="Slow and steady.", gate=gate, gate_after=3)) for gate in SLOWLY),
    _when("hello", text="Hello, how can I help you today?"),
    Rule(
        user="are you broken",
        first=(Answer(status=500), Answer(text="half an answer that", cut_after=2, cut_quietly=True)),
        answer=Answer(text="Not any more."),
    ),
    Rule(user="fall silent", answer=Answer(status=400)),
)

#: What the model may know of Ada Lovelace, ada@example.org.
_VEILED_NAME, _VEILED_MAIL = "Person 1", "person-2@example.invalid"

_VEILED = (
    _when("deploy for me", _call("deploy", service=_VEILED_MAIL, version=_VEILED_NAME), text=f"Yes, {_VEILED_NAME}."),
    _after("deploy", f"{_VEILED_NAME} is told at {_VEILED_MAIL}, not at person-1.", contain=f'"{_VEILED_MAIL}"'),
)

SCRIPT = Script(
    rules=(*_LOOPS, *_CLERK, *_VEILED, *_SHOP, *_DEPLOYING, *_SECRETS, *_MAILS, *forms.SCRIPT, *_TALK),
    otherwise=Answer(text="I have no line for that."),
)
