"""What a rulebook file may say, key by key. Unknown keys are errors at every level: a rule misread is no rule."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, model_validator

from placet.contracts.messages.approvals import ApprovalRule, Escalation, GrantTerms, Panel
from placet.contracts.messages.stage import Decide, OnFailure, StagePlan
from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import placed_error
from placet.domain.limits import LimitEntry, span_seconds
from placet.domain.yaml_source import WrittenEntry
from placet.policy.rules import Effect, Ruling

Text = Annotated[str, Field(min_length=1, max_length=500)]
Glob = Annotated[str, Field(min_length=1, max_length=128)]
Channel = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}(:.{1,128})?$")]

#: How long staged work may wait undecided, in seconds: a minute to 30 days.
STAGE_SECONDS_MIN, STAGE_SECONDS_MAX = 60, 2_592_000

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class PanelEntry(Panel):
    """One of `alternatives`, with the message's fields and no others."""

    model_config = _STRICT


class EscalationEntry(Escalation):
    """One of `escalations`, with the message's fields and no others."""

    model_config = _STRICT


class GrantTermsEntry(GrantTerms):
    """`grants:` of a rule, with the message's fields and no others."""

    model_config = _STRICT


class ApprovalEntry(ApprovalRule):
    """`approval:` in the file, with the message's fields and no others."""

    model_config = _STRICT

    alternatives: list[PanelEntry] = Field(default_factory=list)  # type: ignore[assignment]
    escalations: list[EscalationEntry] = Field(default_factory=list)  # type: ignore[assignment]
    grants: GrantTermsEntry | None = None

    @model_validator(mode="after")
    def _check_also(self) -> ApprovalEntry:
        if self.also:
            raise placed_error([(("also",), "unknown key 'also'")])
        return self

    def rule(self) -> ApprovalRule:
        """Return it as messages carry it."""
        return ApprovalRule(**self.model_dump())


def _stage_seconds(value: int | str) -> int:
    seconds = span_seconds("expires_after", value)
    if not STAGE_SECONDS_MIN <= seconds <= STAGE_SECONDS_MAX:
        problem = f"'expires_after' should be between {STAGE_SECONDS_MIN} and {STAGE_SECONDS_MAX} seconds"
        raise placed_error([((), problem)])
    return seconds


class StageEntry(WrittenEntry):
    """`stage:` of a ruling: when people are asked about staged calls, and how these run then."""

    decide: Annotated[
        Decide, Field(description="Ask at the end of each turn, when somebody asks for it, or after each call.")
    ] = "turn"
    expires_after: Annotated[
        Annotated[int, Strict()] | Annotated[str, Strict()],
        AfterValidator(_stage_seconds),
        Field(description="How long staged work waits undecided, in seconds or as 90s, 15m, 12h, 30d."),
    ] = 86_400
    on_failure: Annotated[
        OnFailure, Field(description="Whether the calls behind one that fails are run all the same.")
    ] = "stop"

    def plan(self) -> StagePlan:
        """Return it as messages carry it."""
        seconds = int(self.expires_after)
        return StagePlan(decide=self.decide, expires_after_seconds=seconds, on_failure=self.on_failure)


class RulingEntry(WrittenEntry):
    """What the file says about an effect: one of `defaults`, and the second half of each rule."""

    effect: Effect
    reason: Annotated[Text | None, Field(description="For people.")] = None
    model_reason: Annotated[Text | None, Field(description="For the model.")] = None
    approval: ApprovalEntry | None = None
    stage: Annotated[StageEntry | None, Field(description="For effect 'stage': what is not said has its default.")] = (
        None
    )

    @model_validator(mode="after")
    def _check_stage(self) -> RulingEntry:
        if self.stage is not None and self.effect is not Effect.STAGE:
            raise placed_error([(("stage",), f"effect '{self.effect}' stages nothing, so it takes no 'stage'")])
        return self

    @model_validator(mode="after")
    def _check_approval(self) -> RulingEntry:
        held = self.effect is Effect.REQUIRE_APPROVAL
        if held and self.approval is None:
            raise placed_error([(("effect",), "effect 'require_approval' needs key 'approval': who decides")])
        if not held and self.effect is not Effect.STAGE and self.approval is not None:
            raise placed_error([(("approval",), f"effect '{self.effect}' asks nobody, so it takes no 'approval'")])
        return self

    def ruling(self, reason: str) -> Ruling:
        """Return the checked value; `reason` stands in where the file gives none."""
        approval = self.approval.rule() if self.approval else None
        plan = (self.stage or StageEntry()).plan() if self.effect is Effect.STAGE else None
        return Ruling(self.effect, self.reason or reason, self.model_reason, approval, plan)


class MatchEntry(WrittenEntry):
    """Which calls a rule is for. What is left out matches everything."""

    tool: Annotated[list[Glob], BeforeValidator(_as_list), Field(min_length=1)] = Field(default_factory=lambda: ["*"])
    agent: Glob = "*"
    tenant: Glob = "*"
    labels: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=128)], Glob],
        Field(description="Labels that the conversation must have, each with a glob for its value."),
    ] = Field(default_factory=dict)
    requester: Annotated[
        list[Glob],
        BeforeValidator(_as_list),
        Field(min_length=1, description="Globs for what rules call who asked, or `group:` and a group they belong to."),
    ] = Field(default_factory=lambda: ["*"])


class RuleEntry(RulingEntry):
    """One of `rules`."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    reason: Text
    match: MatchEntry = Field(default_factory=MatchEntry)
    when: Annotated[str | None, Field(min_length=1, max_length=4000, description="A CEL condition.")] = None
    limits: Annotated[list[LimitEntry], Field(max_length=8)] = Field(default_factory=list)


class FileEntry(WrittenEntry):
    """The top of the file. `tools` is read by the catalogue, people by the directory, `rules` one by one."""

    version: Literal[1] = 1
    permit_expires_after_seconds: Annotated[int, Strict(), Field(ge=1, le=86_400)] = 900
    defaults: dict[Category, RulingEntry] = Field(default_factory=dict)
    fallback: Annotated[
        ApprovalEntry | None, Field(description="Who decides where a rule could not be evaluated; None: operators.")
    ] = None
    channels: Annotated[
        list[Channel] | None, Field(description="Channels that rules may name, one of a kind or all; None: unchecked.")
    ] = None
    tools: Any = None
    directory: Any = None
    people: Any = None
    groups: Any = None
    owners: Any = None
    rules: list[Any] = Field(default_factory=list)
