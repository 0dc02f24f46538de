"""The permit: a signed, single-use permission for one call.

Issued by policy (a rule allows the call) or by approval (people said yes), verified by the executor, which holds
public keys only. What it binds is the digest; everything else narrows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import from_json

from placet.contracts.canonical import call_digest
from placet.contracts.errors import SecurityAlert
from placet.contracts.ids import call_id, derived_id
from placet.contracts.messages.message import Digest, Value
from placet.contracts.messages.stage import OnFailure, StagedCall, WorkspaceBase
from placet.contracts.messages.tool_calls import Pool, ToolCall
from placet.contracts.signing import BadSignature, Purpose, Signer, Verifier, payload_of

#: Who issues the permits of calls that people were asked about.
HELD_BY = "approval"


#: How a refusal begins of a call that certainly did not run.
NOTHING_RAN = "Nothing was run: "
#: How the text ends that tells the model of a call of which nobody knows whether it ran.
MAY_HAVE_RUN = "It may have taken effect: do not repeat it before a person has checked."
#: What becomes of a call that somebody approved who may decide nothing any more.
CONSENT_VOID = f"{NOTHING_RAN}somebody who approved it may decide nothing any more; ask again if it is still wanted."
#: What becomes of a call that an emergency stop covers. The stop's reason is for people: who writes one must not tell
#: every model what to propose, and models need not know of incidents.
STOPPED_CALL = (
    f"{NOTHING_RAN}an administrator has stopped such calls;"
    " try again only when you are told that they are allowed again."
)

#: What a permit is good for: to run its call, to put it into a workspace, to commit a workspace (its call is
#: `commit_changes`), or to run a call of a committed workspace. None is good for anything else.
PermitMode = Literal["run", "stage", "commit", "staged_call"]
_RUN: tuple[PermitMode, ...] = ("run",)
#: What names an answer of a model, in a permit that was not verified yet; and the highest place in one.
_ANSWER = re.compile(r"[!-~]{1,200}")
_POSITION_MAX = 10_000


class Permit(Value):
    """Claims of a permit. Times are Unix seconds."""

    iss: str = Field(description="Issuer: policy or approval.")
    jti: str = Field(description="Permit id; an executor honours it once.")
    sub: str = Field(description="The call's id.")
    aud: Pool = Field(description="The executor pool that may run it.")
    iat: int
    exp: int
    tenant: str
    requester: str = Field(description="Whom the tool may take for its subject.")
    agent: str = Field(description="Whose stops, files and rights count.")
    message_id: str = Field(description="The message that led to the call.")
    digest: Digest
    reference: Annotated[str, Field(description="Verdict id or approval id that stands behind it.")]
    after: list[str] = Field(default_factory=list, description="Calls that must have ended before it may begin.")
    answer: str = Field(
        default="",
        description="The answer of the model that proposed it, `<turn>:<step>`, whose calls run one at a time; empty "
        "where it may run beside them.",
    )
    position: int = Field(default=0, description="Its place among the calls of that answer, from 0.")
    base: WorkspaceBase | None = Field(
        default=None,
        description="What the call reads beneath its workspace; of a staged call its permit to stage says it.",
    )
    mode: PermitMode = "run"
    commit: str = Field(default="", description="Of a staged call: the `commit_changes` that it is part of.")
    on_failure: OnFailure = Field(
        default="stop", description="Of a staged call: whether those behind it run where it does not succeed."
    )
    by: list[str] = Field(default_factory=list, description="People whose yes is behind it: `person:<id>`.")
    keys: list[str] = Field(default_factory=list, description="Ids of the API keys that they said it with.")
    groups: dict[str, list[list[str]]] = Field(
        default_factory=dict,
        description="Of those who decide as members of a group alone, or in whose place somebody did: by panel the "
        "groups, one of which has to have them still when the call begins.",
    )
    listed: list[str] = Field(
        default_factory=list,
        description="Of all these people those who showed no key: the directory has to list them when the call begins.",
    )
    conditions: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Conditions of the rule in CEL, and which people have to meet each still when the call begins.",
    )
    rule: str = Field(default="", description="Name of the rule that let the call through or held it.")
    rulebook: str = Field(default="", description="Digest of the rulebook that has that rule.")

    @property
    def held(self) -> bool:
        """Whether people were asked about the call."""
        return self.iss == HELD_BY

    @property
    def earlier(self) -> list[str]:
        """The calls of the same answer that stand before it, where they do not run beside each other."""
        turn_id, _, step = self.answer.rpartition(":")
        return [call_id(turn_id, int(step), position) for position in range(self.position)] if turn_id else []

    @property
    def has_consent(self) -> bool:
        """Whether a person's yes is behind it: to this call, or by a grant to all like it."""
        return bool(self.by or self.groups)

    def expired(self, now: datetime) -> bool:
        """Tell whether the permit is no longer good at `now`."""
        return now >= datetime.fromtimestamp(self.exp, UTC)


@dataclass(frozen=True, slots=True)
class Consent:
    """What a permit says beside the call, as its fields of the same names do: whose yes, and which rule."""

    after: Sequence[str] = ()
    by: Sequence[str] = ()
    keys: Sequence[str] = ()
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    listed: Sequence[str] = ()
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rule: str = ""
    rulebook: str = ""
    answer: str = ""
    position: int = 0

    @property
    def people(self) -> dict[str, Any]:
        """Who said yes, as the claims of a permit have it."""
        return {name: getattr(self, name) for name in ("by", "keys", "groups", "listed", "conditions")}


#: Of a call that nobody was asked about.
NOBODYS = Consent()


def permit_id(call_id: str) -> str:
    """Return the id of the one permit of a call."""
    return derived_id("permit", call_id)


def issue_permit(  # noqa: PLR0913 - one for each claim that the call does not say
    signer: Signer,
    call: ToolCall,
    *,
    pool: str,
    reference: str,
    now: datetime,
    lifetime_seconds: int,
    consent: Consent = NOBODYS,
    mode: PermitMode = "run",
) -> str:
    """Return the signed permit for `call`. Its id derives from the call, so a repeated handling issues the same one."""
    return _signed(
        signer,
        call,
        now,
        lifetime_seconds,
        jti=permit_id(call.call_id),
        aud=pool,
        tenant=call.tenant,
        agent=call.agent,
        reference=reference,
        after=consent.after,
        answer=consent.answer,
        position=consent.position,
        **consent.people,
        rule=consent.rule,
        rulebook=consent.rulebook,
        base=call.base,
        mode=mode,
    )


def issue_staged_permit(  # noqa: PLR0913 - one for each claim that the call does not say
    signer: Signer,
    staged: StagedCall,
    *,
    commit: ToolCall,
    reference: str,
    now: datetime,
    lifetime_seconds: int,
    after: str,
    consent: Consent = NOBODYS,
) -> str:
    """Return the signed permit of a staged call of the workspace that `commit` commits.

    It is usable when `after`, the staged call before it or the commit itself, has ended, and nothing before it that
    says `stop` has failed. Its id is another than that of the permit by which the call was staged. Whose yes is behind
    the commit, `consent`, is behind each of its calls; so is its agent, for a workspace has entries of one agent alone.
    """
    return _signed(
        signer,
        staged,
        now,
        lifetime_seconds,
        jti=derived_id("permit", staged.call_id, commit.call_id),
        aud=staged.pool,
        tenant=commit.tenant,
        agent=commit.agent,
        reference=reference,
        after=[after],
        **consent.people,
        mode="staged_call",
        commit=commit.call_id,
        on_failure=staged.on_failure,
    )


def _signed(signer: Signer, call: ToolCall | StagedCall, now: datetime, lifetime_seconds: int, **claims: Any) -> str:
    permit = Permit(
        iss=signer.issuer,
        sub=call.call_id,
        iat=int(now.timestamp()),
        exp=int((now + timedelta(seconds=lifetime_seconds)).timestamp()),
        requester=call.requester,
        message_id=call.message_id,
        digest=call.digest,
        **claims,
    )
    return signer.sign(Purpose.PERMIT, permit.model_dump(exclude={"iss"}, exclude_defaults=True))


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where a call stands among those of its answer, which run one after the other, and how long its permit is good."""

    answer: str
    position: int
    expires_at: datetime


def answer_place(token: object) -> AnswerPlace | None:
    """Return a call's place in its answer as its permit says itself, unverified: enough to wait, not to run anything.

    None where it may run beside others.
    """
    try:
        claims = from_json(payload_of(str(token)))
        answer, position = claims.get("answer"), int(claims.get("position", 0))
        if not isinstance(answer, str) or not _ANSWER.fullmatch(answer) or not 0 <= position <= _POSITION_MAX:
            return None
        return AnswerPlace(answer, position, datetime.fromtimestamp(claims["exp"], UTC))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, OSError):
        return None


def comes_after(token: object, mode: PermitMode) -> Sequence[str]:
    """Return which calls a permit of a mode comes after as it says itself, unverified: enough to wait.

    None for a permit of another mode, or that has expired.
    """
    try:
        claims = from_json(payload_of(str(token)))
        if claims["exp"] <= datetime.now(UTC).timestamp() or claims.get("mode", "run") != mode:
            return ()
        return [str(each) for each in claims.get("after", ())]
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()


def reference_of(token: str) -> str:
    """Return the reference of a permit as it says itself, unverified: for the log; nothing where none can be read."""
    try:
        return str(from_json(payload_of(token))["reference"])
    except (ValueError, LookupError, TypeError):
        return ""


def permit_expired(token: str, now: datetime) -> bool:
    """Tell whether a permit that was verified is no longer good at `now`."""
    return bool(from_json(payload_of(token))["exp"] <= now.timestamp())


def digest_of(call: ToolCall) -> str:
    """Return the digest of what a call would execute, computed anew from its fields; `call.digest` is only a claim."""
    return call_digest(
        tenant=call.tenant,
        conversation_id=call.conversation_id,
        tool=call.tool,
        schema_digest=call.schema_digest,
        arguments=call.arguments,
    )


def check_digest(call: ToolCall, tenant: str) -> None:
    """Raise SecurityAlert unless `call` belongs to `tenant` and its digest is the one of exactly what it would run."""
    if (call.tenant, call.digest) != (tenant, digest_of(call)):
        raise SecurityAlert(f"the digest of call {call.call_id} does not fit what it would run")


def verify_permit(
    verifier: Verifier, token: str, call: ToolCall, *, pool: str, modes: tuple[PermitMode, ...] = _RUN
) -> Permit:
    """Return the permit if it is signed for exactly this call, this pool and a mode of `modes`; else SecurityAlert.

    The digest is computed anew from the bytes that will run. Expiry is judged elsewhere: it is no forgery.
    """
    try:
        permit = Permit.model_validate(verifier.verify(Purpose.PERMIT, token))
    except (BadSignature, ValidationError) as error:
        raise SecurityAlert(f"forged permit for call {call.call_id}: {error}") from error
    for_whom = (call.tenant, call.requester, call.agent, call.message_id)
    # What a staged call stood on was compared when it was staged.
    base = None if permit.mode == "staged_call" else call.base
    expected = (call.call_id, pool, for_whom, digest_of(call), call.digest, base)
    whose = (permit.tenant, permit.requester, permit.agent, permit.message_id)
    bound = (permit.sub, permit.aud, whose, permit.digest, permit.digest, permit.base)
    if bound != expected or permit.mode not in modes:
        raise SecurityAlert(f"permit {permit.jti} does not fit call {call.call_id}")
    return permit
