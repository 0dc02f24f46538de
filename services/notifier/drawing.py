"""Draws cards: from an opened approval the first one, from each news the next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from math import floor
from typing import Any, Literal

from pydantic import ValidationError

from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalCommented,
    ApprovalOpened,
    ApprovalProgressed,
    ApprovalRule,
    CommitResult,
    ToolCallFinished,
    ToolCallProgressed,
)
from placet.contracts.messages.approvals import ProgressKind
from placet.domain.approvers import identity_of
from placet.domain.card_text import NONE, visible, visible_lines
from placet.domain.duty import OnDuty
from placet.domain.grants import offered_again
from placet.domain.origins import NOT_LOOKED
from placet.domain.risk import acts, why_alone
from placet.notifier.cards import Card, CommentShown, DutyShown, PlanLine, VoteShown
from placet.surfaces.card import ARGUMENT_MAX, Argument, arguments_of, cut, drawn, named, needed, quoted, tricks, why
from placet.surfaces.plan import Plan, entries_of, line_of, outcome_of
from placet.surfaces.texts import moment, text

#: Longest text of an error, in characters.
ERROR_MAX = 300
#: Arguments on one card; the approval's page has all.
ARGUMENTS_MAX = 40
#: Comments that a card keeps, the newest; what was told before is told.
COMMENTS_MAX = 20
#: Entries of a commit on one card, and characters of one of them.
PLAN_LINES_MAX = 40
PLAN_LINE_MAX = 300

_NOTES: dict[ProgressKind, str] = {
    "voted": "{person} voted.",
    "edited": "{person} changed the arguments; earlier votes are void.",
    "delegated": "{person} lets somebody else decide in their place.",
    "claimed": "{person} is on it.",
    "released": "{person} is not on it any more.",
    "reminded": "It is still waiting for a decision.",
    "escalated": "No decision yet, so {others} may decide too.",
}
_ENDS = {
    "approved": "{person} approved it.",
    "denied": "{person} denied it.",
    "answered": "{person} answered instead; nothing runs.",
    "expired": "It expired without a decision; nothing runs.",
    "withdrawn": "It was withdrawn; nothing runs.",
}
#: What the vote was that decided. Who answers instead could have denied alone.
_DECISIONS: dict[str, Literal["approve", "deny"]] = {"approved": "approve", "denied": "deny", "answered": "deny"}
_FINISHES = {
    "succeeded": "It ran and succeeded.",
    "failed": "It ran and failed.",
    "unknown": "It may have run; the outcome is unknown and needs to be checked.",
}


@dataclass(frozen=True, slots=True)
class Pen:
    """What is the same on every card of one address."""

    locale: str
    #: Address that browsers use, without a slash at its end; empty where nobody said.
    public_url: str
    #: Return how others call the person behind an id.
    name_of: Callable[[str], str]
    #: Time zone in which times are told.
    zone: str = "UTC"


def first_card(news: ApprovalOpened, pen: Pen, critical: Collection[str], plan: Plan | None = None) -> Card:
    """Return the first card of an approval; `critical` are the arguments that the tool's sentence names.

    `plan`: of a commit, what it would do; its arguments, which are ids, say nothing to people.
    """
    rule, call = news.approval, news.call
    shown = call.shown_arguments if plan is None else ""
    found = drawn(shown, critical, ARGUMENT_MAX, call.origins, most=ARGUMENTS_MAX)
    planned = _planned(plan, pen.locale) if plan is not None else {}
    told = call.origins if acts(news.category or "") else None
    return Card(
        **planned,
        approval_id=news.approval_id,
        tenant=news.tenant,
        conversation_id=call.conversation_id,
        agent=visible(call.agent),
        tool=call.tool,
        summary=news.summary,
        requested_by=visible(call.requester),
        names={visible(call.requester): pen.name_of(call.requester)},
        reason=why(pen.locale, news.reason),
        rule=visible(news.rule),
        arguments=list(found.arguments),
        arguments_left_out=found.left_out,
        quote=quoted(call.quote),
        asked=quoted(call.asked),
        warnings=[each.said(pen.locale) for each in tricks(call.shown_arguments, told)],
        digest=call.digest,
        revision=news.revision,
        deadline=news.expires_at,
        needed=needed(rule, pen.locale, pen.name_of),
        asks_all=_asks_all(rule),
        excludes=list(rule.exclude),
        note=text(pen.locale, "It is waiting for a decision."),
        locale=pen.locale,
        strength=rule.min_strength,
        edits=rule.edits,
        reason_required=rule.reason_required,
        **_again(rule, call.tool),
        risk="high" if why_alone(rule, news.category or "") else "normal",
        url=f"{pen.public_url}/inbox/{news.approval_id}" if pen.public_url else "",
    )


def _asks_all(rule: ApprovalRule) -> bool:
    """Tell whether who is on duty may be too few to decide, or not whom a condition lets decide."""
    panels = [*rule.alternatives, *(panel for demand in rule.also for panel in demand.panels)]
    several = rule.approvals > 1 or any(panel.approvals > 1 for panel in panels)
    return several or bool(rule.condition) or any(demand.condition for demand in rule.also)


def with_duty(card: Card, found: Iterable[OnDuty], pen: Pen) -> Card:
    """Return a card that says who is on duty in groups."""
    shown = [
        DutyShown(each.group, [] if each.why_all else sorted(map(identity_of, each.people)), each.until, each.why_all)
        for each in found
    ]
    return replace(card, on_duty=shown, names=_names(card, pen, *(name for each in shown for name in each.people)))


def _again(rule: ApprovalRule, tool: str) -> dict[str, Any]:
    """Return the fields of a card that tell the narrowest grant; nobody types a reason with its button."""
    wish = offered_again(rule, tool)
    if wish is None or rule.reason_required == "always":
        return {}
    return {"again_uses": wish.uses, "again_bounds": wish.bounds, "again_seconds": wish.expires_after_seconds}


def _planned(plan: Plan, locale: str) -> dict[str, Any]:
    """Return the fields of a card that tell a plan, as far as there is room."""
    lines = [
        PlanLine(
            each.call_id,
            cut(line_of(each, locale), PLAN_LINE_MAX),
            "call" if each.kind == "call" else "change",
            [trick.said(locale) for trick in each.tricks],
        )
        for each in plan.entries[:PLAN_LINES_MAX]
    ]
    return {"plan_head": plan.headline(locale), "plan": lines, "plan_entries": len(plan.entries)}


def _left_out(card: Card, shown_arguments: str) -> dict[str, Any]:
    """Return the fields that change where people left entries of a plan out."""
    kept = set(entries_of(shown_arguments))
    lines = [each if each.call_id in kept else replace(each, outcome="left_out") for each in card.plan]
    gone = card.plan_entries - len(kept)
    return {"plan": lines, "plan_outcome": text(card.locale, "{count} left out", count=gone) if gone > 0 else ""}


def _ended(card: Card, data: Any) -> dict[str, Any]:
    """Return the fields that change when a commit has ended: what became of each entry."""
    try:
        entries = CommitResult.model_validate(data).entries
    except ValidationError:
        return {}
    found = {each.call_id: each for each in entries}
    lines = [
        replace(each, outcome=found[each.call_id].outcome, error=cut(visible(found[each.call_id].error), ERROR_MAX))
        if each.call_id in found
        else each
        for each in card.plan
    ]
    return {"plan": lines, "plan_outcome": outcome_of([each.outcome for each in entries], card.locale)}


def moved_on(card: Card, news: ApprovalProgressed, pen: Pen, critical: Collection[str], now: datetime) -> Card:
    """Return the card as it is after something changed while its approval waits."""
    others = ", ".join(named(each, pen.locale, pen.name_of) for each in news.approvers)
    deadline = news.expires_at or card.deadline
    words = _NOTES[news.kind]
    if news.kind == "reminded" and deadline is not None:
        words = "It is still waiting for a decision and expires {moment}."
    until = moment(card.locale, deadline, pen.zone) if deadline is not None else ""
    changes: dict[str, Any] = {
        "revision": news.revision,
        "deadline": deadline,
        "happened": news.kind,
        "names": _names(card, pen, news.person),
        "note": text(card.locale, words, person=pen.name_of(news.person), others=others, moment=until),
    }
    if news.call is not None and card.plan:
        left_out = _left_out(card, news.call.shown_arguments)
        changes |= {"summary": news.summary or card.summary, "digest": news.call.digest, **left_out}
    elif news.call is not None:
        call = news.call
        after = arguments_of(call.shown_arguments, critical, ARGUMENT_MAX, call.origins)
        arguments, without = _edited(card, after)
        changes |= {
            "summary": news.summary or card.summary,
            "digest": news.call.digest,
            "arguments": arguments,
            "arguments_left_out": without,
            "warnings": [each.said(card.locale) for each in tricks(call.shown_arguments, call.origins)],
        }
    match news.kind:
        case "voted":
            others_votes = [vote for vote in card.votes if vote.person != news.person]
            changes["votes"] = [*others_votes, VoteShown(news.person, at=now)]
        case "edited":
            # An edit counts as its maker's approval, and says so.
            changes["votes"] = [VoteShown(news.person, at=now)]
        case "claimed" | "released":
            changes["claimed_by"] = news.person if news.kind == "claimed" else ""
            changes["claimed_until"] = news.claimed_until
        case "escalated" if others:
            words = "{needed}; {others} may decide too"
            changes["needed"] = text(card.locale, words, needed=card.needed, others=others)
    return replace(card, **changes)


def _edited(card: Card, after: Iterable[Argument]) -> tuple[list[Argument], int]:
    """Return the arguments after an edit, each that differs from what was proposed with what it was then.

    What was taken away follows. Where not all fit, those that changed do; the number is of those that are left out.
    """
    proposed = {each.name: each.text if each.changed_from is None else each.changed_from for each in card.arguments}
    found = []
    for each in after:
        # What the card before had no room for is not new.
        was = proposed.pop(each.name, each.text if card.arguments_left_out else "")
        places = None if each.places == (NOT_LOOKED,) else each.places
        found.append(each if was == each.text else replace(each, changed_from=was, places=places))
    found += [Argument(name, NONE, critical=True, changed_from=was) for name, was in proposed.items() if was]
    chosen = sorted(range(len(found)), key=lambda row: found[row].changed_from is None)[:ARGUMENTS_MAX]
    return [found[row] for row in sorted(chosen)], len(found) - len(chosen)


def for_another(card: Card, pen: Pen) -> Card:
    """Return a card of the same approval for somebody who is asked too, who may read another language."""
    note = text(pen.locale, "No decision yet, so you may decide too.")
    return replace(card, locale=pen.locale, note=note, happened="opened")


def over(card: Card, news: ApprovalClosed, pen: Pen) -> Card:
    """Return the card as it is when its approval is over."""
    note = text(card.locale, _ENDS[news.state], person=pen.name_of(news.decided_by))
    # The news that it ran may overtake the news that it was approved.
    ran_already = [text(card.locale, _FINISHES[card.ended])] if card.ended else []
    return replace(
        card,
        revision=news.revision,
        state=news.state,
        happened="closed",
        names=_names(card, pen, news.decided_by, *(each.person for each in news.votes)),
        votes=list(_votes_at_end(card, news)),
        claimed_by="",
        claimed_until=None,
        decided_by=news.decided_by,
        decision_reason=visible(news.reason),
        note=" ".join([note, *ran_already]),
    )


def commented(card: Card, news: ApprovalCommented, pen: Pen) -> Card:
    """Return the card as it is when somebody has said something about its approval."""
    said = CommentShown(news.comment_id, news.person, visible_lines(news.text), news.question)
    comments = [*card.comments, said][-COMMENTS_MAX:]
    return replace(card, comments=comments, happened="commented", names=_names(card, pen, news.person))


def _names(card: Card, pen: Pen, *identities: str) -> dict[str, str]:
    """Return the card's names, with those of more people."""
    return card.names | {each: pen.name_of(each) for each in identities if each}


def _votes_at_end(card: Card, news: ApprovalClosed) -> Iterator[VoteShown]:
    """Yield the votes with the way each went, the deciding one last."""
    cast = {each.person: each.verb for each in news.votes}
    decision = _DECISIONS.get(news.state) if news.decided_by else None
    known = {each.person: each for each in card.votes} | {
        person: VoteShown(person) for person in cast if person not in {each.person for each in card.votes}
    }
    for person, vote in known.items():
        if decision is None or person != news.decided_by:
            yield replace(vote, decision=cast.get(person, ""))
    if decision is not None:
        yield VoteShown(news.decided_by, decision, visible(news.reason), news.closed_at)


def ran(card: Card, news: ToolCallFinished) -> Card:
    """Return the card as it is when the approved call ran, or may have run; what was only staged has no card."""
    if news.kind == "staged":
        return card
    # A tool's words may repeat what people must not see.
    told = "" if any(each.redacted for each in card.arguments) else news.error
    error = cut(visible(told[: ERROR_MAX + 1]), ERROR_MAX)
    ended = _ended(card, news.data) if card.plan else {}
    note = text(card.locale, _FINISHES[news.kind])
    return replace(card, ended=news.kind, error=error, happened="finished", note=note, **ended)


def running(card: Card, news: ToolCallProgressed) -> Card | None:
    """Return the card as it is while the approved call runs; None where it need not change.

    It changes with each tenth of the work: whoever wants to know more looks into the chat.
    """
    if card.is_open or card.ended or news.fraction is None:
        return None
    percent = floor(news.fraction * 10) * 10
    if card.happened == "running" and percent <= card.percent:
        return None
    # A tool's words may repeat what people must not see.
    words = "" if any(each.redacted for each in card.arguments) else visible(news.text)
    note = text(card.locale, "It runs: {percent} % done.", percent=percent)
    return replace(card, happened="running", percent=percent, note=" ".join(filter(None, (note, words))))
