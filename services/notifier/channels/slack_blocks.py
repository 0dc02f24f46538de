"""A card as Slack shows it: blocks, and the text of its notification. Pure.

Whatever a model, a visitor or a tool wrote stands in plain or literal texts, which Slack does not read as markup: no
mention, no link, no second "Approved" can come out of an argument. What we know ourselves comes first, what decides
right after it, the agent's words last and as a quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

from placet.contracts.messages.approvals import strengths_met
from placet.domain.approvers import identity_of, is_person
from placet.domain.card_text import visible
from placet.notifier.cards import Card, CommentShown, PlanLine
from placet.surfaces import block_kit as kit
from placet.surfaces import slack
from placet.surfaces.block_kit import Block
from placet.surfaces.card import ARGUMENT_MAX as CARD_ARGUMENT_MAX
from placet.surfaces.card import Argument, again_words
from placet.surfaces.leaves import tail_of
from placet.surfaces.texts import moment, plural, text

#: Digits of the digest on a card: enough to tell two calls apart.
DIGEST_SHOWN = 12
#: Most characters of one argument, and of all of them together: Slack refuses a message that is too long as a whole.
ARGUMENT_MAX = 600
ARGUMENTS_MAX = 4500
NAME_MAX = 120
QUOTE_MAX = 600
REASON_MAX = 500
SUMMARY_MAX = 600
FIELD_MAX = 200
WARNING_MAX = 200
WARNINGS_MAX = 5
ENTRY_MAX = 250
VOTES_MAX = 10
#: Groups of which a card says who is on duty: of its ten facts others need up to eight.
DUTIES_MAX = 2
VOTE_MAX = 150
#: Longest text of a notification and of a message in a thread.
TEXT_MAX = 800

#: What stands at the end of a value that was cut when the card was drawn.
_TAIL = re.compile(r"… \[\d+, SHA-256 [0-9a-f]{16}\]$")

_HEADINGS = {
    "pending": "Approval needed: {tool}",
    "approved": "Approved: {tool}",
    "denied": "Denied: {tool}",
    "answered": "Answered instead of run: {tool}",
    "expired": "Expired: {tool}",
    "withdrawn": "Withdrawn: {tool}",
}
_ENDINGS = {
    "succeeded": "It ran and succeeded.",
    "failed": "It ran and failed.",
    "unknown": "It may have run; the outcome is unknown and needs to be checked.",
}
_VOTES = {"approve": "{person} approved", "deny": "{person} denied", "abstain": "{person} abstained"}
#: What a rule may ask for so that Slack knows people surely enough.
_KNOWN_HERE = frozenset(strengths_met("slack"))
_NEWS = frozenset({"reminded", "escalated"})
#: News that another line of the card tells: its votes, and who is on it.
_SAID_ELSEWHERE = frozenset({"opened", "voted", "claimed", "commented"})
#: A person's id as comments name them; not within an address or another word.
_NAMED = re.compile(r"(?<![\w@./-])@([A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*)(?![\w@])")
#: People whom one comment calls, and characters of it in a thread.
NAMED_MAX = 10
COMMENT_MAX = 2_000


def blocks(card: Card) -> list[Block]:
    """Return the card's blocks, at most MESSAGE_BLOCKS_MAX; buttons are there only as long as people can decide."""
    made = [
        kit.header(heading(card)),
        kit.section(kit.plain(card.summary or card.tool, SUMMARY_MAX)),
        *(_plan(card) if card.plan_head else _arguments(card)),
        *_warnings(card),
        *_stopped(card),
        _facts(card),
        *_asked(card),
        *_votes(card),
        *_quote(card),
        *_outcome(card),
        _small_print(card),
    ]
    if (buttons := _buttons(card)) is not None:
        made.append(buttons)
    return made


def short_blocks(card: Card) -> list[Block]:
    """Return the card without anything that can be long, for where Slack does not take the whole one.

    Nobody can approve on it: they have not seen what would run.
    """
    words = text(card.locale, "This card is too long for Slack. Press More to see what would run.")
    made = [kit.header(heading(card)), kit.section(kit.plain(words, TEXT_MAX)), _small_print(card)]
    buttons = _buttons(card, blind=True)
    return [*made, buttons] if buttons else made


def heading(card: Card) -> str:
    """Return what the card is and how it stands, in one line."""
    return text(card.locale, _HEADINGS[card.state], tool=card.tool)


def notification(card: Card) -> str:
    """Return the text that Slack shows where it shows no blocks; escaped."""
    return kit.escaped(kit.cut(f"{heading(card)} — {card.summary}", TEXT_MAX))


def news(card: Card) -> list[Block]:
    """Return what people are told anew in the card's thread; nothing where the card itself says it all.

    Whom an escalation asks is called by name.
    """
    if not card.is_open or card.happened not in _NEWS:
        return []
    # What a reminder is about: a notification of the thread shows nothing of the card above it.
    said = f"{card.note} {card.summary}" if card.happened == "reminded" else card.note
    told = [kit.literal(kit.cut(said, TEXT_MAX))]
    return [*told, *_called(card.asks)] if card.happened == "escalated" else told


def unsaid(card: Card, last: str) -> list[CommentShown]:
    """Return the comments that the card's thread lacks, where `last` is the id of the newest one it has."""
    ids = [each.comment_id for each in card.comments]
    return card.comments[ids.index(last) + 1 :] if last in ids else card.comments


def comment(card: Card, said: CommentShown, asked: Sequence[str], user_of: Callable[[str], str]) -> list[Block]:
    """Return a comment as pieces of rich text: literal, but for people whom a person named as `@id`.

    `asked` are the Slack ids of whom a question is for. `user_of` tells the Slack id behind `person:<id>`, empty where
    the directory knows none.
    """
    person = card.called(said.person)
    who, users = text(card.locale, "{person} commented:", person=person), []
    if said.question:
        who, users = text(card.locale, "{person} asks the requester:", person=person), _called(asked)
    return [kit.literal(who, bold=True), *users, kit.literal(" "), *_with_names(said, user_of)]


def _with_names(said: CommentShown, user_of: Callable[[str], str]) -> Iterator[Block]:
    words, at, named = kit.cut(said.words, COMMENT_MAX), 0, 0
    # A visitor is anybody: their words call nobody.
    for found in _NAMED.finditer(words) if is_person(said.person) else ():
        user = user_of(identity_of(found[1]))
        if user and named < NAMED_MAX:
            named += 1
            if found.start() > at:
                yield kit.literal(words[at : found.start()])
            yield kit.mention(user)
            at = found.end()
    if at < len(words):
        yield kit.literal(words[at:])


def _asked(card: Card) -> Iterator[Block]:
    if card.is_open and card.asks:
        words = kit.literal(text(card.locale, "Asked to decide:"))
        yield kit.rich_text({"type": "rich_text_section", "elements": [words, *_called(card.asks)]})


def _called(users: Sequence[str]) -> list[Block]:
    return [piece for user in users for piece in (kit.literal(" "), kit.mention(user))]


def verdict(card: Card) -> str:
    """Return what whoever asked for the call is told when it is decided."""
    words = heading(card)
    if card.decided_by:
        words += " · " + text(card.locale, "by {person}", person=card.called(card.decided_by))
    if card.decision_reason:
        words += f" · {card.decision_reason}"
    return kit.cut(words, TEXT_MAX)


def _arguments(card: Card) -> Iterator[Block]:
    made: list[Block] = []
    room, count = ARGUMENTS_MAX, 0
    for argument in card.arguments:
        shown = _cut(argument.text)
        room -= len(argument.name[:NAME_MAX]) + len(shown) + len((argument.changed_from or "")[:ARGUMENT_MAX])
        if room < 0:
            break
        made += _argument(card, argument, shown)
        count += 1
    if made:
        yield kit.rich_text(*kit.lists_joined(made))
    if left := card.arguments_left_out + len(card.arguments) - count:
        yield kit.context(kit.plain(text(card.locale, "{count} more arguments: press More.", count=left), FIELD_MAX))


def _plan(card: Card) -> Iterator[Block]:
    """Yield a commit's sum and its entries, each an item that no other can begin in, as far as there is room."""
    said = f"{card.plan_head} · {card.plan_outcome}" if card.plan_outcome else card.plan_head
    yield kit.section(kit.plain(said, TEXT_MAX))
    shown = card.plan[: _plan_room(card)]
    yield kit.rich_text(*kit.lists_joined([kit.item(_entry(card, each)) for each in shown]))
    if left := card.plan_entries - len(shown):
        yield kit.context(
            kit.plain(text(card.locale, "{count} more entries: open it in Placet.", count=left), FIELD_MAX)
        )


def _entry(card: Card, line: PlanLine) -> list[Block]:
    gone = line.outcome in {"left_out", "discarded"}
    pieces = [kit.literal(kit.cut(line.words, ENTRY_MAX), code=line.kind == "change", strike=gone)]
    pieces += [kit.literal(f" ⚠ {kit.cut(each, WARNING_MAX)}") for each in line.warnings[:1]]
    if line.outcome:
        pieces.append(kit.literal(f" {text(card.locale, line.outcome.replace('_', ' '))}", bold=True))
    if line.error:
        pieces.append(kit.literal(f": {kit.cut(line.error, WARNING_MAX)}"))
    return pieces


def _plan_room(card: Card) -> int:
    """Return how many entries fit."""
    room = ARGUMENTS_MAX
    for count, line in enumerate(card.plan):
        room -= min(len(line.words), ENTRY_MAX) + min(len(line.error), WARNING_MAX) + 40
        if room < 0:
            return count
    return len(card.plan)


def _argument(card: Card, argument: Argument, shown: str) -> Iterator[Block]:
    """Yield an item of a list; lines of a value stand in a box below it, where nothing looks like another argument."""
    pieces = [kit.literal(kit.cut(argument.name, NAME_MAX), bold=True), kit.literal(":" if "\n" in shown else ": ")]
    if "\n" in shown:
        yield kit.item(pieces)
        yield kit.box(shown)
        pieces = []
    else:
        pieces.append(kit.literal(shown, italic=True) if argument.redacted else kit.literal(shown, code=True))
    if argument.changed_from is not None:
        before = _cut(argument.changed_from) or text(card.locale, "not there")
        pieces.append(kit.literal(f" {text(card.locale, 'was')} "))
        if "\n" in before:
            yield kit.item(pieces)
            yield kit.box(before)
            return
        pieces.append(kit.literal(before, strike=True))
    if stood := argument.stood(card.locale):
        pieces.append(kit.literal(f" ({kit.cut(stood, WARNING_MAX)})"))
    if pieces:
        yield kit.item(pieces)


def _cut(words: str) -> str:
    """Return a value that fits; one that is cut tells its length and digest, so that no two calls look alike."""
    if len(words) <= ARGUMENT_MAX:
        return words
    # A text longer than cards have was cut when the card was drawn, and tells both of the whole value at its end.
    drawn = _TAIL.search(words) if len(words) > CARD_ARGUMENT_MAX else None
    tail = drawn[0] if drawn else tail_of(words)
    return words[: ARGUMENT_MAX - len(tail)] + tail


def _warnings(card: Card) -> Iterator[Block]:
    if card.warnings:
        shown = card.warnings[:WARNINGS_MAX]
        yield kit.context(*(kit.plain(f"⚠ {warning}", WARNING_MAX) for warning in shown))


def _stopped(card: Card) -> Iterator[Block]:
    if card.is_open and card.restored:
        words = "Placet was restored from a backup after this was asked. See first whether it has run in the meantime."
        yield kit.section(kit.plain(f"⚠ {text(card.locale, words)}", TEXT_MAX))
    if card.is_open and card.stopped:
        words = "An administrator has stopped such calls. It can be approved when they are allowed again."
        yield kit.section(kit.plain(f"⛔ {text(card.locale, words)} “{visible(card.stopped)}”", TEXT_MAX))


def _facts(card: Card) -> Block:
    facts = [
        (text(card.locale, "Asked by"), card.requested_by and card.called(card.requested_by)),
        (text(card.locale, "Agent"), card.agent),
        (text(card.locale, "Held by rule"), card.rule),
        (text(card.locale, "Why"), card.reason),
        (text(card.locale, "Needed"), card.needed),
        (text(card.locale, "On it"), card.claimed_by and card.called(card.claimed_by)),
        (text(card.locale, "Similar calls waiting"), str(card.similar) if card.similar else ""),
    ]
    shown = [kit.plain(f"{label}: {value}", REASON_MAX) for label, value in facts if value]
    if card.is_open and card.deadline is not None:
        shown.append(kit.mrkdwn(f"{text(card.locale, 'Until')}: {_date(card, card.deadline)}"))
    if card.is_open:
        duties = card.duty_lines(partial(moment, card.locale))[:DUTIES_MAX]
        shown += (kit.plain(f"{text(card.locale, 'On duty')}: {each}", REASON_MAX) for each in duties)
    return kit.fields(shown or [kit.plain("", FIELD_MAX)])


def _date(card: Card, at: datetime) -> str:
    fallback = kit.escaped(moment(card.locale, at)).replace("|", "/").replace("^", " ")
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{fallback}>"


def _votes(card: Card) -> Iterator[Block]:
    if not card.votes:
        return
    shown = []
    for vote in card.votes[-VOTES_MAX:]:
        words = text(card.locale, _VOTES.get(vote.decision, "{person} voted"), person=card.called(vote.person))
        shown.append(kit.plain(f"{words}: {vote.reason}" if vote.reason else words, VOTE_MAX))
    yield kit.context(*shown)


def _quote(card: Card) -> Iterator[Block]:
    if card.asked:
        yield kit.context(kit.plain(text(card.locale, "The requester's message that led to it:"), FIELD_MAX))
        yield kit.quotation(kit.cut(card.asked, QUOTE_MAX))
    if card.quote:
        yield kit.context(kit.plain(text(card.locale, "Agent's explanation (unverified):"), FIELD_MAX))
        yield kit.quotation(kit.cut(card.quote, QUOTE_MAX))


def _outcome(card: Card) -> Iterator[Block]:
    if card.is_open:
        if card.note and card.happened not in _SAID_ELSEWHERE:
            yield kit.context(kit.plain(card.note, REASON_MAX))
        return
    yield kit.section(kit.plain(verdict(card), TEXT_MAX))
    if card.ended:
        words = text(card.locale, _ENDINGS[card.ended])
        yield kit.section(kit.plain(f"{words} {card.error}" if card.error else words, TEXT_MAX))


def _small_print(card: Card) -> Block:
    facts = f"{card.digest[:DIGEST_SHOWN]} · {text(card.locale, 'revision')} {card.revision}"
    pieces = [kit.plain(facts, FIELD_MAX)]
    if card.url:
        pieces.append(kit.mrkdwn(f"<{_link(card.url)}|{text(card.locale, 'Open in Placet')}>"))
    return kit.context(*pieces)


def _link(url: str) -> str:
    return kit.escaped(url).replace("|", "%7C")


def _buttons(card: Card, *, blind: bool = False) -> Block | None:
    # The news that it ran may overtake the news that it was approved.
    if not card.is_open or card.ended:
        return None
    subject = slack.Subject(card.tenant, card.approval_id, card.revision, card.digest, card.restored).text()
    elements: list[Block] = []
    # Of a commit all entries must stand on the card that approves it.
    blind = blind or (bool(card.plan_head) and _plan_room(card) < card.plan_entries)
    if card.strength in _KNOWN_HERE and not blind:
        deny = text(card.locale, "Deny and discard") if card.plan_head else text(card.locale, "Deny")
        elements.append(kit.button(deny, slack.DENY, subject, style="danger"))
        elements += () if card.stopped else _approving(card, subject)
    elif card.url:
        # Slack does not know people surely enough for this rule, or the card does not show what they would approve.
        elements.append(kit.button(text(card.locale, "Decide in Placet"), slack.OPEN, url=card.url, style="primary"))
    elements.append(kit.button(text(card.locale, "More"), slack.MORE, subject))
    return kit.actions(f"placet.{card.approval_id}.{card.revision}", *elements)


def _approving(card: Card, subject: str) -> Iterator[Block]:
    """Yield the buttons that let a call run."""
    approve = text(card.locale, "Approve")
    yield kit.button(approve, slack.APPROVE, subject, style="primary", confirm=_confirmation(card))
    if card.again_uses:
        words = again_words(card.locale, card.again_seconds)
        yield kit.button(words, slack.AGAIN, subject, confirm=_covers(card))
    if card.edits:
        words = text(card.locale, "Leave some out") if card.plan_head else text(card.locale, "Edit")
        yield kit.button(words, slack.EDIT, subject)


def _confirmation(card: Card) -> Block | None:
    if card.risk != "high":
        return None
    return _question(card, text(card.locale, "This is risky"), card.summary)


def _covers(card: Card) -> Block:
    """Return the question that says what else is allowed, and what the call is."""
    one = "Covers this very call in this conversation, at most {count} time."
    many = "Covers this very call in this conversation, at most {count} times."
    said = plural(card.locale, one, many, card.again_uses)
    if card.again_bounds:
        said += " " + text(card.locale, "May be smaller: {names}.", names=", ".join(card.again_bounds))
    return _question(card, again_words(card.locale, card.again_seconds), f"{said} {card.summary}")


def _question(card: Card, title: str, words: str) -> Block:
    """Return the question that is asked before an approval counts."""
    return kit.confirm(title, kit.cut(words, 290), text(card.locale, "Approve"), text(card.locale, "Back"))
