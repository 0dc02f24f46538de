"""Reports of trials: what a check, an explanation, cases and a simulation come to.

Policy makes them, the gateway hands them out and the command line prints them, each as it is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from placet.domain.yaml_source import Problem


class Report(BaseModel):
    """A report, or a part of one."""

    model_config = ConfigDict(frozen=True)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values, the same for programs everywhere; a problem is {file, line, column, problem}."""
        return self.model_dump(mode="json")


class CheckReport(Report):
    """Outcome of one check."""

    file: str
    valid: bool
    digest: str | None = Field(default=None, description="SHA-256 of its bytes; None if it is unreadable.")
    tools: int = Field(default=0, description="Tools the file declares.")
    rules: int = Field(default=0, description="Rules the file declares.")
    problems: list[Problem] = Field(default_factory=list, description="Sorted by place; empty when valid.")
    notes: list[Problem] = Field(
        default_factory=list, description="What a valid file may not say as its author thinks, sorted by place."
    )


class Tried(Report):
    """What became of one rule."""

    rule: str
    outcome: Literal["passed_over", "decided", "failed"]
    why: str = Field(default="", description="Why it was passed over, or how it failed.")


class Deciders(Report):
    """One way to say yes: so many of these."""

    approvals: int
    approvers: list[str] = Field(description="As the rulebook names them.")
    people: list[str] = Field(
        description="Who of them may decide this call by now; operators are whoever has such a key. Outside of the "
        "house's tenant it is empty where the active directory says it."
    )


class Explanation(Report):
    """Why a call gets its verdict."""

    effect: str
    rule: str
    reason: str
    model_reason: str
    notes: list[str] = Field(description="What else to know, a sentence each.")
    tried: list[Tried] = Field(description="The rules in their order, up to the one that decided.")
    deciders: list[Deciders] = Field(description="Each is enough; empty where nobody is asked.")
    approval: dict[str, Any] | None = Field(description="The whole rule of the approval, with its defaults.")
    stage: dict[str, Any] | None = Field(default=None, description="How it is staged; null where it is not.")


class CaseResult(Report):
    """What became of one case."""

    name: str
    line: int
    passed: bool
    differences: list[str] = Field(description="What is not as expected, a line each; empty where it passed.")


class CasesReport(Report):
    """What became of all cases of a file."""

    passed: int
    failed: int
    cases: list[CaseResult] = Field(description="In the order of the file.")
    notes: list[str] = Field(default_factory=list, description="What else to know, a sentence each.")


class Example(Report):
    """One call that would get another verdict."""

    call_id: str
    judged_at: datetime
    tool: str
    summary: str = Field(description="What it would have done, redacted; empty for a tool that is not there any more.")


class Outcome(Report):
    """A verdict as far as it is compared."""

    effect: str = Field(description="An effect, or `invalid` where the arguments do not fit the tool any more.")
    rule: str


class Change(Report):
    """Calls that would get another verdict, and the same one."""

    before: Outcome
    after: Outcome
    other_approval: bool = Field(description="True: they are held as before, but decided otherwise.")
    count: int
    examples: list[Example] = Field(description="The newest of them.")


class Simulation(Report):
    """What would change."""

    rulebook_digest: str
    calls: int = Field(description="Past proposals that were replayed.")
    changed: int
    renamed: int = Field(description="Calls with the same outcome by a rule of another name; they do not count.")
    granted: int = Field(description="Calls that a grant let through; they are not compared.")
    vetoed: int = Field(description="Calls that a veto window held; they are not compared.")
    commits: int = Field(
        default=0,
        description="Commits of calls of which none would be staged now, or one is older; they are not compared.",
    )
    complete: bool = Field(description="False: there were more calls than are replayed at once; the newest were.")
    changes: list[Change] = Field(description="The most frequent first.")
    notes: list[str] = Field(default_factory=list, description="What else to know, a sentence each.")
