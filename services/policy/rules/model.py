"""A rulebook as a value: its rules, what each answers, and what happens where none decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Protocol

from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.stage import StagePlan
from placet.contracts.messages.tool_calls import Category
from placet.contracts.visitors import rule_name
from placet.domain.approvers import GROUP, person_id
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.directory import Directory
from placet.domain.house_tools import ACCOMPLISH_SPEC
from placet.domain.limits import Limit
from placet.policy.rules.call import CallFacts

#: Names that verdicts use where no rule of the file decided.
RESERVED_NAMES = frozenset({"unknown-tool", "schema-changed", "dead-letter-discarded", "veto-window", "commit-refused"})


class Effect(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"  # a permit is issued at once
    REQUIRE_APPROVAL = "require_approval"  # held until people decide
    STAGE = "stage"  # goes to the conversation's workspace, the world stays untouched
    DENY = "deny"  # never runs


class Condition(Protocol):
    """A compiled `when`. Any exception it raises holds the call."""

    def holds(self, call: CallFacts, spec: ToolSpec) -> bool:
        """Tell whether the rule is meant for this call."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule or a default answers."""

    effect: Effect
    #: Why, for people.
    reason: str
    #: Why, for the model; None keeps the reason from it.
    model_reason: str | None = None
    #: Who decides; set where the effect is REQUIRE_APPROVAL, and where a STAGE says who decides the commit.
    approval: ApprovalRule | None = None
    #: Set exactly where the effect is STAGE.
    plan: StagePlan | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, with its tool patterns already resolved against the catalogue."""

    name: str
    ruling: Ruling
    tools: frozenset[str]
    #: Globs: `*` any text, `?` one character, `[ab]` one of these.
    agent: str = "*"
    tenant: str = "*"
    condition: Condition | None = None
    #: Labels that the conversation must have, with a glob for the value of each.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Globs for what rules call the requester, or `group:<name>`; one is enough.
    requesters: tuple[str, ...] = ("*",)
    #: The rule decides only while each of them has room for the call.
    limits: tuple[Limit, ...] = ()

    def mismatch(self, call: CallFacts, spec: ToolSpec, directory: Directory) -> str:
        """Return why this rule does not decide the call, for people; empty where it does.

        Raise whatever its condition raises.
        """
        if call.tool not in self.tools:
            return "it is for other tools"
        for what, name, glob in (("agent", call.agent, self.agent), ("tenant", call.tenant, self.tenant)):
            if not fnmatchcase(name, glob):
                return f"the {what} is not {glob!r}"
        for name, glob in self.labels.items():
            if name not in call.labels or not fnmatchcase(call.labels[name], glob):
                return f"the label {name!r} is not {glob!r}"
        if not any(_is_requester(call.requester, each, directory) for each in self.requesters):
            return f"the requester is not {' or '.join(map(repr, self.requesters))}"
        if self.condition is not None and not self.condition.holds(call, spec):
            return "its condition is false"
        return ""


def _is_requester(requester: str, wanted: str, directory: Directory) -> bool:
    if wanted.startswith(GROUP):
        return person_id(requester) in directory.behind(wanted)
    # A named visitor is their bare name everywhere else, and a rule may have it so.
    return fnmatchcase(rule_name(requester), wanted) or fnmatchcase(requester, wanted)


#: Who decides where nobody was named: a default of the house, or a rule that could not be evaluated.
OPERATORS = ApprovalRule(approvers=["operators"])

_SAFE = Ruling(Effect.ALLOW, "The tool only reads or computes.")
_HELD = Ruling(Effect.REQUIRE_APPROVAL, "The tool acts on the outside world.", approval=OPERATORS)

#: Instead of the default to stage, where the tool's pack cannot.
HELD_WRITE = Ruling(Effect.REQUIRE_APPROVAL, "The tool changes data and cannot be staged.", approval=OPERATORS)
#: Instead of a default to stage: the agent goes on with the result of its job.
HELD_JOB = Ruling(Effect.REQUIRE_APPROVAL, "It has a job done, which cannot be staged.", approval=OPERATORS)
#: What a commit is where no rule for it matches; its entries say who decides.
COMMIT = Ruling(Effect.REQUIRE_APPROVAL, "Staged work takes effect when it is approved.")
#: What happens by category where no rule matches and the rulebook says nothing else.
DEFAULTS: Mapping[Category, Ruling] = {
    Category.SAFE_READ: _SAFE,
    Category.SAFE_SEARCH: _SAFE,
    Category.SAFE_COMPUTE: _SAFE,
    Category.UNSAFE_WRITE: Ruling(Effect.STAGE, "The tool changes data.", plan=StagePlan()),
    Category.UNSAFE_API: _HELD,
    Category.UNSAFE_EXEC: _HELD,
}


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Everything policy decides by, checked when it was loaded."""

    #: SHA-256 of the file's bytes; pinned to each verdict.
    digest: str
    tools: Catalog
    rules: tuple[Rule, ...] = ()
    defaults: Mapping[Category, Ruling] = field(default_factory=lambda: DEFAULTS)
    #: Who decides where a rule could not be evaluated.
    fallback: ApprovalRule = OPERATORS
    directory: Directory = field(default_factory=Directory)
    #: How long a permit for an allowed or approved call may wait for its executor.
    permit_expires_after_seconds: int = 900
    #: True: conditions ask for counters of earlier calls, so facts must have them.
    uses_history: bool = False
    #: True: denials are remembered, so earlier calls are looked at before one is let through.
    uses_veto_windows: bool = False

    @property
    def stages_writes(self) -> bool:
        """Whether the house's own default decides what no rule does about tools that write."""
        return self.defaults[Category.UNSAFE_WRITE] is DEFAULTS[Category.UNSAFE_WRITE]

    def spec(self, tool: str) -> ToolSpec | None:
        """Return a tool of the rulebook, or the one of the house that agents may call; None for any other."""
        return ACCOMPLISH_SPEC if tool == ACCOMPLISH_SPEC.name else self.tools.get(tool)

    def default_for(self, spec: ToolSpec) -> Ruling:
        """Return what happens to a call of `spec` where no rule matches."""
        ruling = self.defaults[spec.category]
        if spec is ACCOMPLISH_SPEC and ruling.effect is Effect.STAGE:
            return HELD_JOB
        writes = spec.category is Category.UNSAFE_WRITE
        return HELD_WRITE if writes and self.stages_writes and spec.stage is None else ruling
