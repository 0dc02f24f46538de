"""Messages about rulebooks: a question to policy, and its answer to the gateway. They change nothing."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Field

from placet.contracts.messages.message import Identifier, Message

#: Longest text of a rulebook or of cases that is tried over messages, in characters.
TRIAL_TEXT_MAX = 200_000
#: How far back a simulation may go, in seconds: a year.
SINCE_SECONDS_MAX = 31_536_000

TrialKind = Literal["check", "explain", "test", "simulate"]
TrialText = Annotated[str, Field(max_length=TRIAL_TEXT_MAX)]


class TryRulebook(Message):
    """An administrator tries a rulebook. Sent by the gateway to policy."""

    type_name: ClassVar[str] = "placet.rulebook.try.v1"

    trial_id: Identifier
    answer_to: Identifier = Field(description="The gateway instance that waits for RulebookTried.")
    until: AwareDatetime | None = Field(
        default=None, description="Until when it waits, by the database clock; later nothing is tried. None: for ever."
    )
    kind: TrialKind
    rulebook: TrialText = Field(default="", description="YAML of the rulebook to try; empty for the active one.")
    cases: TrialText = Field(default="", description="YAML of the cases; for `test`.")
    call: dict[str, Any] = Field(default_factory=dict, description="The call; for `explain`.")
    since_seconds: Annotated[int, Field(ge=1, le=SINCE_SECONDS_MAX)] = Field(
        default=86_400, description="How far back to replay the tenant's proposals; for `simulate`."
    )


class RulebookTried(Message):
    """What came of a trial. Sent to the asking gateway instance only."""

    type_name: ClassVar[str] = "placet.rulebook.tried.v1"

    trial_id: Identifier
    answer_to: Identifier
    report: dict[str, Any] = Field(description="What was asked for; empty where the input could not be used.")
    problems: list[dict[str, Any]] = Field(
        default_factory=list, description="Why the input could not be used: {file, line, column, problem} each."
    )
