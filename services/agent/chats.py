"""Heads of messages as chats and mail programs show them when they are copied: who wrote, and when. Pure.

A line that begins with a moment and a name and a colon, or with a name and a moment and nothing else, says that
somebody else's message follows. So does a name above a line that is nothing but a moment.
"""

from __future__ import annotations

import re

#: Stands for a day or a time.
_M = "\ufdd1"
_DAYS = (
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|mo|di|mi|do|fr|sa|so"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag)"
    r"|pzt|pazartesi|sal[ıi]?|çar(?:şamba)?|per(?:şembe)?|cum(?:a|artesi)?|cmt|paz(?:ar)?"
    r"|today|yesterday|heute|gestern|bugün|dün"
)
_MONTHS = (
    r"jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz?|apr(?:il)?|may|mai|june?|juni?|july?|juli?|aug(?:ust)?"
    r"|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?|oca(?:k)?|şub(?:at)?|mart?|nis(?:an)?|may(?:ıs)?"
    r"|haz(?:iran)?|tem(?:muz)?|ağu(?:stos)?|eyl(?:ül)?|eki(?:m)?|kas(?:ım)?|ara(?:lık)?"
)
_MOMENT = re.compile(
    r"(?<![\w.:])(?:\d{1,4}[./-]\d{1,2}[./-](?:\d{2,4})?|\d\d?[:.]\d\d(?:[:.]\d\d)?(?:\s?[ap]\.?m\b\.?|\s?uhr\b)?"
    rf"|(?:\d{{1,2}}(?:\.|st|nd|rd|th)?\s)?(?:{_MONTHS})\b\.?(?:\s\d{{1,2}}\b(?![:.]\d))?|20\d\d\b|(?:{_DAYS})\b\.?)(?!\w)",
    re.IGNORECASE,
)
#: A time of the day, as on a clock.
TIME = re.compile(r"(?<!\d)\d\d?[:.]\d\d(?!\d)")
_DIGIT = re.compile(r"\d")
_AT = re.compile(rf"{_M}[\s,]*(?:at|um|saat|à)\s{_M}")
_WHEN_WHO = re.compile(
    rf"(?P<when>[\[(]?{_M}[{_M}\s,;.()\]|–—-]*)<?\s?[@+%&]?(?P<who>[^:<>{_M}]{{1,60}}?)(?P<said>[:>](?:\s.*)?)?"
)
_WHO_WHEN = re.compile(rf"(?P<who>[^:\[(<{_M}]{{2,60}}?)(?P<gap>[\s,\[(–—-]+){_M}[{_M}\s,)\]]*(?P<said>:.*)?")
_ADDRESS = re.compile(r"\s?<[^<>@\s]+@[^<>@\s]+>")
_SENDER = re.compile(r"[^<>@:]{0,80}<[^<>@\s]+@[^<>@\s]+>")
_NAME = re.compile(
    r"\+\d[\d ()-]{5,20}|[^\W\d_][\w.'\u2019-]*,?(?:\s[^\W\d_][\w.'\u2019-]*,?){0,4}|[^\s<>@]+@[^\s<>@]+"
)
_OF_NAMES = re.compile(r"al|bin|da|del?|de[nr]|di|el|l[ae]|te[nr]|van|von|zu", re.IGNORECASE)
#: What stands before a time in requests, and is no name of anybody.
_NO_NAME = re.compile(
    r"after|agenda|appointment|around|at|before|by|call|date|day|deadline|demo|due|end|for|from|hello|hey|hi|important"
    r"|invite|kickoff|lunch|meet|meeting|note|please|reminder|schedule|standup|start|subject|sync|task|time|today|to"
    r"|tomorrow|topic|until|update|when|who|workshop|ab|beginn|besprechung|bis|bitte|ende|frist|gegen|hallo|morgen|nach"
    r"|termin|treffen|uhr|um|von|vor|çağrı|görüşme|lütfen|merhaba|not|randevu|saat|toplantı|yarın",
    re.IGNORECASE,
)
#: Characters of a line that are looked at, and words that a name has at most.
_LINE_MAX, _WORDS_MAX = 160, 5


def begins_message(line: str, below: str) -> bool:
    """Tell whether a line, perhaps with the next one that is not empty, says who wrote what follows, and when."""
    line = line[:_LINE_MAX]
    if (_is_name(line) or _SENDER.fullmatch(line)) and _is_moment(below[:_LINE_MAX]):
        return True
    if not TIME.search(line):
        return False
    masked = _masked(_ADDRESS.sub("", line.strip("*_ ")))
    addressed = _ADDRESS.search(line) is not None
    return _is_when_who(masked, addressed=addressed) or _is_who_when(masked, addressed=addressed)


def _is_when_who(masked: str, *, addressed: bool) -> bool:
    found = _WHEN_WHO.fullmatch(masked)
    if not found:
        return False
    if found["said"] and (masked[0] == "[" or masked.count(_M) > 1):
        return _may_be_name(found["who"])
    return bool(found["said"] or masked[0] == "[" or addressed) and _is_name(found["who"])


def _is_who_when(masked: str, *, addressed: bool) -> bool:
    """Tell the same of a name before a moment: of one word only where more than a space stands between."""
    found = _WHO_WHEN.fullmatch(masked)
    if not found:
        return False
    who, gap = found["who"].strip(), found["gap"]
    if " " in who:
        return _is_name(who)
    return (gap != " " or addressed or masked.count(_M) > 1) and _may_be_name(who)


def _masked(line: str) -> str:
    return _AT.sub(_M, _MOMENT.sub(_M, line))


def _is_moment(line: str) -> bool:
    if not _DIGIT.search(line):
        return False
    masked = _masked(line)
    return _M in masked and not masked.strip(f"{_M} \t,.;()[]0123456789-–—")


def _may_be_name(text: str) -> bool:
    """Tell whether a text is short and has none of the words that requests have before a time."""
    words = [word.strip(",.~*") for word in text.split()]
    return len(words) <= _WORDS_MAX and not any(map(_NO_NAME.fullmatch, words))


def _is_name(text: str) -> bool:
    """Tell whether a text is written as a name is: up to five words, each of them large, an address or a number."""
    text = text.strip(" \t,~*_–—-")
    large = all("@" in each or not each[0].islower() or _OF_NAMES.fullmatch(each) for each in text.split())
    return large and _may_be_name(text) and _NAME.fullmatch(text) is not None
