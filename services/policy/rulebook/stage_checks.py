"""What a rulebook may get wrong about staging, and what its author may not expect of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from placet.contracts.messages import ACCOMPLISH_TOOL, COMMIT_TOOL
from placet.contracts.messages.tool_calls import Category
from placet.domain.yaml_source import Problem, Steps, YamlSource
from placet.policy.rulebook.entries import RulingEntry
from placet.policy.rules import Effect, Rule, Rulebook

#: What a condition on who decides a commit cannot look at: it is decided once, and not for one call.
_ONE_CALL = re.compile(r"\bcall\.(tool|arguments)\b")
#: Keys of `approval` that say nothing of a staged call.
_WITHOUT_MEANING = ("grants", "edits", "veto_window_seconds", "veto_on", "independent")


def check_stage(source: YamlSource, steps: Steps, entry: RulingEntry, tools: frozenset[str]) -> None:
    """Report what a ruling says of staging that could not be; `tools` are those it is for, none of a default."""
    if entry.effect is not Effect.STAGE:
        return
    if COMMIT_TOOL in tools:
        source.report((*steps, "effect"), f"{COMMIT_TOOL!r} commits what is staged, so it cannot be staged itself")
    if ACCOMPLISH_TOOL in tools:
        problem = f"a job has a result that the agent goes on with, so {ACCOMPLISH_TOOL!r} cannot be staged"
        source.report((*steps, "effect"), problem)
    if entry.approval is None:
        return
    found = _ONE_CALL.search(entry.approval.condition)
    if found is not None:
        problem = f"staged calls are decided together, so who decides cannot depend on '{found[0]}'"
        source.report((*steps, "approval", "condition"), problem, inside=found.start())
    for key in _WITHOUT_MEANING:
        if key in entry.approval.model_fields_set:
            source.report(
                (*steps, "approval", key),
                f"{key!r} says nothing where calls are staged: it is for a rule that holds them one by one",
                at_key=True,
            )


def stage_notes(source: YamlSource, rulebook: Rulebook) -> list[Problem]:
    """Return what is allowed and seldom meant, sorted by place.

    Tools that write and are held by the default because nothing can stage them; rules that stage what only reads.
    """
    return sorted(_notes(source, rulebook))


def _notes(source: YamlSource, rulebook: Rulebook) -> Iterator[Problem]:
    for name, spec in rulebook.tools.items():
        held = spec.category is Category.UNSAFE_WRITE and rulebook.default_for(spec).effect is not Effect.STAGE
        if held and spec.stage is None and rulebook.stages_writes and not _always_decided(name, rulebook.rules):
            yield source.note_at(
                ("tools", name),
                f"{name!r} changes data and has no 'stage', so where no rule decides people are asked about each call",
            )
    for number, rule in enumerate(rulebook.rules):
        categories = {rulebook.tools[name].category for name in rule.tools if name in rulebook.tools}
        if rule.ruling.effect is Effect.STAGE and categories and all(each.startswith("safe_") for each in categories):
            text = f"rule {rule.name!r} stages what changes nothing, and the model gets no result of it in this turn"
            yield source.note_at(("rules", number), text)


def _always_decided(tool: str, rules: tuple[Rule, ...]) -> bool:
    """Tell whether a rule without any condition decides every call of a tool."""
    everything = ("*", "*", ("*",))
    return any(
        tool in rule.tools
        and (rule.agent, rule.tenant, rule.requesters) == everything
        and not (rule.labels or rule.limits or rule.condition)
        for rule in rules
    )
