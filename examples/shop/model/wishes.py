"""What a visitor's message asks for, found by rules: the ears of the demo model.

A message is cut into clauses and each clause is tried against a handful of patterns. It knows English shop
talk and nothing else; what it does not understand it leaves out, and the demo then says what it can do.

Pure: text in, wishes out. What "them" or "the Runner" refers to is decided elsewhere, from the transcript.
"""

import re
from dataclasses import dataclass

from shop.model.shopping import Add, PayLink, Search, add_in, narrowed, pay_link_in, search_in

POLITE = r"(?:(?:please|ok|okay|now|so|well|hi|hello|hey|can you|could you|would you|just|also|then)[,\s]+)*"
#: Words that begin a new wish: "and" or a comma before one of them ends a clause.
VERBS = (
    r"find|search|look|show|list|browse|add|put|buy|take|order|create|make|generate|send|give|get|call|talk|speak"
    r"|connect|escalate|note|do you have|reach me|my\s+(?:e-?mail|mail|name|phone|number|telephone|mobile)"
    r"|i\s*(?:'d|'ll|'m|would|want|need|am)"
)
SENTENCE_END = re.compile(r"[.!?;]+(?=\s|$)|\n+")
JOINT = re.compile(rf"(?:\s*,|\s+and|\s+then|\s+also|\s+plus|\s*&)+\s+(?=(?:please\s+)?(?:{VERBS})\b)", re.IGNORECASE)
OPENING = re.compile("^" + POLITE, re.IGNORECASE)

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
PHONE = re.compile(r"(?<![\w.])\+?\d[\d\s()/-]{6,}\d(?!\w|\.\d)")
NAME = re.compile(r"\b(?:[Mm]y name is|I am called|[Tt]his is)\s+([^\W\d_][\w'-]*(?:\s+[A-Z][\w'-]*)*)")
PERSON = r"person|human|operator|someone|somebody|representative|employee|staff|real people|support agent"
ESCALATION = re.compile(
    rf"\b(?:talk|speak|chat|connect|transfer|put|escalate|call|get|want|need|reach)\b.*\b(?:{PERSON})\b"
    rf"|^(?:a\s+)?(?:real\s+)?(?:{PERSON})\b",
    re.IGNORECASE,
)
TALK = {
    "about": re.compile(r"\b(?:who|what) are you\b|\bare you (?:an? )?(?:\w+ )?(?:ai|bot|robot|human|model|person)\b"),
    "help": re.compile(r"\bhelp\b|\bwhat can you do\b|\bhow does this work\b"),
    "thanks": re.compile(r"\b(?:thanks|thank you|bye|goodbye)\b"),
    "greeting": re.compile(r"^(?:hello|hi|hey|good (?:morning|evening|day|afternoon)|greetings)\b"),
}


@dataclass(frozen=True)
class Lead:
    """Leave contact details; "" is what was not said."""

    name: str = ""
    email: str = ""
    phone: str = ""


@dataclass(frozen=True)
class Escalate:
    """Talk to a person."""

    #: How the visitor put it.
    words: str


@dataclass(frozen=True)
class Talk:
    """Small talk about: about, help, thanks or greeting."""

    topic: str


#: Characters of a message that are read.
READ_MAX = 1_000

Wish = Search | Add | PayLink | Lead | Escalate | Talk


def understand(message: str) -> list[Wish]:
    """Find every wish in a message, in its order; contact details come together, as one wish.

    No more is read than somebody types: the patterns take longer than a text is long.
    """
    message = message[:READ_MAX]
    wishes: list[Wish] = []
    for wish in (wish for clause in _clauses(message) for wish in _in_clause(clause)):
        before = wishes[-1] if wishes else None
        if isinstance(wish, Search) and wish.refine and isinstance(before, Search):
            wishes[-1] = narrowed(before, wish)
        else:
            wishes.append(wish)
    lead = Lead(_found(NAME, message), _email(message), _phone(message))
    if lead != Lead():
        wishes.append(lead)
    asked: list[Wish] = [wish for wish in wishes if not isinstance(wish, Talk)]
    return asked or wishes[:1]


def _clauses(message: str) -> list[str]:
    parts = [part for sentence in SENTENCE_END.split(message) for part in JOINT.split(sentence)]
    return [
        clause for clause in (OPENING.sub("", part.strip()).strip(" ,") or part.strip() for part in parts) if clause
    ]


def _in_clause(clause: str) -> list[Wish]:
    if ESCALATION.search(clause):
        return [Escalate(clause)]
    if EMAIL.search(clause) or NAME.search(clause) or PHONE.search(clause):
        return []
    asked = pay_link_in(clause) or add_in(clause) or search_in(clause)
    if asked:
        return list(asked)
    topic = next((topic for topic, pattern in TALK.items() if pattern.search(clause.lower())), None)
    return [Talk(topic)] if topic else []


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def _email(message: str) -> str:
    found = EMAIL.search(message)
    return found.group() if found else ""


def _phone(message: str) -> str:
    found = PHONE.search(message)
    return found.group().strip() if found else ""
