"""Grants: which calls a remembered choice lets through. Pure; the store knows how often it was used.

A grant is never wider than what its owner approved once: the same tool as it was then, the same arguments but for
bounds that the rule's author named, and only calls that the same rule would hold and that its owner could approve
alone by now. Whatever does not fit is held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_arguments, sha256_hex
from placet.contracts.ids import is_of_job
from placet.contracts.messages.approvals import ApprovalRule, GrantScope, GrantTerms
from placet.contracts.messages.grants import GrantAsked
from placet.contracts.messages.stage import COMMIT_TOOL
from placet.contracts.messages.tool_calls import ToolCall
from placet.contracts.permit import NOBODYS, Consent
from placet.domain import deciders
from placet.domain.approvers import is_person, person_id
from placet.domain.catalog import ToolSpec, redact_arguments
from placet.domain.directory import Directory
from placet.domain.globs import fits_glob
from placet.domain.grants import beyond
from placet.domain.votes import groups_needed
from placet.policy.rules.call import CallFacts
from placet.policy.rules.deciding import decides_alone, voter, would_be_held
from placet.policy.rules.limits import number_at, value_at
from placet.policy.rules.model import Effect, Rulebook, Ruling
from placet.policy.rules.verdicts import Verdict, judge_within

#: How the rule of a verdict begins that a grant took the place of; its id follows.
GRANTED = "grant:"


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant that has uses left, as far as it decides about a call."""

    grant_id: str
    owner: str
    #: Of the key that its owner showed; None where they were known without one, by what the directory says of them.
    key_id: str | None
    scope: GrantScope
    bounds: Sequence[str]
    #: How many it was given for, however many are left.
    uses: int
    #: Of the approved call.
    arguments: Mapping[str, Any]
    given_at: datetime
    expires_at: datetime

    def fits(self, terms: GrantTerms) -> bool:
        """Tell whether the rule's author would still let somebody give this grant; what they narrow, it loses."""
        seconds = (self.expires_at - self.given_at).total_seconds()
        return beyond(terms, scope=self.scope, bounds=self.bounds, uses=self.uses, seconds=seconds) is None

    def covers(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call with these arguments stays within the approved one."""
        return within(self.arguments, arguments, self.bounds)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a grant is bound to beside its terms."""

    tool_digest: str
    #: Arguments of the approved call as people may see them, canonical JSON text.
    shown_arguments: str


def subjects_of(call: ToolCall | CallFacts) -> dict[str, str]:
    """Return whose calls a grant for such a call covers, by its scope."""
    return {"conversation": call.conversation_id, "agent": call.agent, "tenant": call.tenant}


def within(approved: Mapping[str, Any], asked: Mapping[str, Any], bounds: Sequence[str]) -> bool:
    """Tell whether `asked` is `approved` but for what may vary at `bounds`.

    A bound is the name of an argument, or a path like `order.total`: a number there may be smaller, and not below zero.
    With a glob behind it, as in `to=*@example.org`, a text there may be any that fits (`fits_glob`). Everything else is
    compared as canonical JSON.
    """
    rest = dict(asked)
    for bound in bounds:
        name, _, glob = bound.partition("=")
        path = tuple(name.split("."))
        if glob:
            before, text = value_at(approved, path), value_at(asked, path)
            if isinstance(before, str) and isinstance(text, str) and fits_glob(text, glob):
                rest = _with(rest, path, before)
            continue
        most, number = number_at(approved, path), number_at(asked, path)
        if most is not None and number is not None:
            if not (number == most or Decimal(0) <= number < most):
                return False
            rest = _with(rest, path, value_at(approved, path))
    try:
        return canonical_text(rest) == canonical_text(dict(approved))
    except NotStrictJson:
        return False


def _with(arguments: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    first, *below = path
    return {**arguments, first: _with(arguments[first], below, value) if below else value}


def entry_digest(spec: ToolSpec) -> str:
    """Return the SHA-256 of a tool's whole entry in the rulebook: another digest is a tool nobody has allowed."""
    return sha256_hex(spec.model_dump(mode="json"))


def terms_for(rule: str, spec: ToolSpec, rulebook: Rulebook) -> GrantTerms | None:
    """Return what a rule, or a default, lets people grant now; None where it is gone or lets nobody."""
    rulings: dict[str, Ruling] = {f"default:{spec.category}": rulebook.defaults[spec.category]}
    rulings |= {each.name: each.ruling for each in rulebook.rules if spec.name in each.tools}
    ruling = rulings.get(rule)
    return ruling.approval.grants if ruling and ruling.approval else None


def refusal(
    asked: GrantAsked, rulebook: Rulebook, directory: Directory, now: datetime, history: Mapping[str, int]
) -> str:
    """Return why a grant cannot be given at `now`, half a sentence; empty where it can.

    `history` is what conditions may ask about earlier calls; empty where no rule does.
    """
    spec = rulebook.tools.get(asked.call.tool)
    if spec is None or spec.schema_digest != asked.call.schema_digest:
        return f"the tool {asked.call.tool!r} is gone or has changed"
    terms = terms_for(asked.rule, spec, rulebook)
    if terms is None:
        return f"the rule {asked.rule!r} lets nobody grant anything"
    call = replace(CallFacts.of(asked.call), history=history)
    verdict = judge_within(call, rulebook, asked.rule)
    if verdict.rule != asked.rule or verdict.approval is None or usable_terms(verdict) is None:
        return f"the rule {asked.rule!r} does not hold such a call"
    return _beyond(asked, terms, now) or _owner_problem(asked, call, verdict.approval, directory)


def _beyond(asked: GrantAsked, terms: GrantTerms, now: datetime) -> str:
    seconds = (asked.expires_at - now).total_seconds()
    excess = beyond(terms, scope=asked.scope, bounds=asked.bounds, uses=asked.uses, seconds=seconds)
    late = f"it would not end within the rule's {terms.expires_after_seconds} seconds"
    if excess is None:
        return "" if seconds > 0 else late
    words = {
        "scope": f"the scope {asked.scope!r} is wider than the rule's {terms.scope!r}",
        "bounds": f"the rule does not let {', '.join(excess.bounds)} vary",
        "unclear": f"whether the rule lets {', '.join(excess.bounds)} vary cannot be told",
        "uses": f"{asked.uses} uses are more than the rule's {terms.uses}",
        "expires_after_seconds": late,
    }
    return words[excess.term]


def _owner_problem(asked: GrantAsked, call: CallFacts, approval: ApprovalRule, directory: Directory) -> str:
    if not is_active(asked.owner, directory):
        return f"{asked.owner} is not active any more"
    if not is_person(asked.owner) and asked.scope != "conversation":
        return "somebody without a key can allow things in their own conversation only"
    if not decides_alone(asked.owner, call, approval, directory, keyless=asked.key_id is None):
        return f"{asked.owner} cannot approve such a call alone"
    return ""


def is_active(owner: str, directory: Directory) -> bool:
    """Tell whether the owner of a grant may still act; a visitor is no person of the directory and stays."""
    name = person_id(owner)
    return name is None or directory.is_active(name)


def usable_terms(verdict: Verdict) -> GrantTerms | None:
    """Return the terms under which a grant may take the place of people; None where it never may.

    What is held by an error has no terms: nobody has ever looked at such a call.
    """
    if verdict.by_error or verdict.effect is not Effect.REQUIRE_APPROVAL or verdict.approval is None:
        return None
    return verdict.approval.grants


def covering(
    grants: Sequence[Grant], call: CallFacts, approval: ApprovalRule, terms: GrantTerms, directory: Directory
) -> list[Grant]:
    """Return the grants that let a call through that is held under `approval`, in the order given.

    Who could not approve the call alone by now lets nothing through: not who left the group, nor, known without a key,
    the directory or its `operators`; not who asks for it themselves under four eyes; and nobody where two must approve.
    """
    return [
        grant
        for grant in grants
        if grant.fits(terms)
        and grant.covers(call.arguments)
        and decides_alone(grant.owner, call, approval, directory, keyless=grant.key_id is None)
    ]


def of_others(grants: Sequence[Grant], call: CallFacts, askers: Collection[str]) -> list[Grant]:
    """Return the grants that count under four eyes: `askers` may have asked for the call beside its requester.

    Nobody looks for who may have begun a job or asked for what a commit is made of, so none counts there.
    """
    if call.tool == COMMIT_TOOL or is_of_job(call.tenant, call.conversation_id):
        return []
    return [grant for grant in grants if grant.owner not in askers]


def entry_of(call: ToolCall, spec: ToolSpec) -> Entry:
    """Return what a grant for such calls is bound to beside its terms; raise NotStrictJson for bad arguments."""
    shown = redact_arguments(spec, parse_arguments(call.arguments))
    return Entry(entry_digest(spec), canonical_text(shown))


def standing_behind(grant: Grant, call: CallFacts, approval: ApprovalRule, directory: Directory) -> Consent:
    """Return what is asked again of a grant's owner when a call that it lets through begins.

    That is what is asked of whoever approved a call themselves; nobody has voted, so `by` names nobody.
    """
    if not is_person(grant.owner):
        return NOBODYS
    keyless = grant.key_id is None
    held, who = would_be_held(call, approval), voter(grant.owner, call, keyless=keyless)
    own = deciders.own_panels(held, who, directory)
    return Consent(
        keys=() if grant.key_id is None else (grant.key_id,),
        groups={grant.owner: groups_needed(held, who, own)},
        listed=(grant.owner,) if keyless else (),
        conditions={text: [grant.owner] for text in sorted(deciders.conditions_met(approval, own))},
    )


def allowed_by(grant: Grant, verdict: Verdict, consent: Consent) -> Verdict:
    """Return the verdict on a held call that a grant lets through; it names the grant, its owner and the rule."""
    reason = f"Allowed from now on by {grant.owner}, who approved such a call held by rule {verdict.rule!r}."
    rule = f"{GRANTED}{grant.grant_id}"
    return replace(
        verdict, effect=Effect.ALLOW, rule=rule, reason=reason, model_reason="", approval=None, consent=consent
    )
