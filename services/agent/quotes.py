"""Which part of a message its writer spelt themselves, and which they quote, pass on or paste. Pure.

Only what is known by its form is a quote: a mark before the line, a head of a mail or of a chat's message, a line that
says who wrote what follows, the source of a page. When in doubt a line is quoted, and so is all below it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from placet.agent.chats import TIME, begins_message
from placet.agent.unseen import PASTED, split_unseen

#: Stands between two texts, so that nothing is found half in one and half in the other.
BETWEEN = " \ufffc "
#: Characters of a line that say what it is.
LINE_MAX = 400
#: Lines that an attribution is broken into at most: mail programs fold long ones.
FOLDED_MAX = 3
#: Lines of a head that are known by nothing but an address and a moment.
FIELDS_MIN = 3

#: What stands before each line that somebody quotes, perhaps behind their initials or name, or a list's mark.
_MARKED = re.compile(
    r"(?:(?:[-*+•]|(?:\d{1,3}|[a-z])[.)]|\[[ xX]\])\s+){0,3}"
    r"(?:[>»›❯≫⟩〉》\ufe65\uff1e]|&gt;|[|¦‖❘-❚\u2223\u23d0\u239c-\u23ae\u23b8\u23b9\u2502\u2503\u2506\u2507\u250a"
    r"\u250b\u254e\u254f\u2551\u2580-\u2595\uff5c]"
    r"|\w{1,12}> |<[^\W\d][^\s<>@:/=]{0,30}> (?!.*</))"
)
#: What stands between the dashes of a line above a mail; words of other alphabets do too.
_OF_MAIL = re.compile(
    r"mail|messa|mensa|mesaj|nachricht|bericht|ileti|posta|wiadomo|meddel|besked|melding|viesti|zpráv|správ|üzenet|poruk"
    r"|chat|forward|weitergel|origin|orijinal|özgün|ursprün|transf|reenvi|encaminh|inoltr|doorgestuurd|[^\W_\x00-\u024f]",
    re.IGNORECASE,
)
_DASHES = "-–—─~="
_PASSED = r"(?:original|forwarded|ursprüngliche|weitergeleitete|orijinal|özgün|iletilen)"
#: The same behind dashes alone, and what programs write without any where they pass something on.
_PASSED_BY_DASHES = re.compile(rf"(?:begin |anfang )?\W{{0,9}}{_PASSED}\b", re.IGNORECASE)
_PASSED_ON = re.compile(
    rf"{_PASSED}[ -](?:e-?)?(?:mail|message|nachricht|posta|mesaj|ileti)\b[^@]{{0,80}}"
    r"|(?:begin|start|anfang|début|inicio|início|inizio|begin van)\b[^@]{0,40}\b(?:forward|weitergeleitet|transf|reenvi"
    r"|encaminh|reencaminh|inoltr|doorgestuurd)[^@]{0,40}:"
    r"|(?:fwd?|wg|[iİ]lt)\s?:.*|begin:v\w{3,9}",
    re.IGNORECASE,
)
#: `Ada wrote:` in the languages that are known.
_WROTE = re.compile(
    r".\b(?:(?:wrote|writes|said|sent)(?: (?:on|at) [^:]{1,40})?|yazdı|yazıldı|geschrieben"
    r"|(?:schrieb(?!,)|écrit|escribió|escreveu|scritto|schreef|skrev|napisała?|napsala?|kirjoitti|написала?|írta|έγραψε)"
    r"\b.{0,100}?)\s?:(?!\d)",
    re.IGNORECASE,
)
#: The same about themselves, which is no quote.
_MINE = re.compile(
    r"\b(?:I|we)(?: \w+)? (?:wrote|said|sent)\s?:|\bschrieb ich\b|\b(?:ich|wir)\b.{0,60}\b(?:schrieb|geschrieben)\b",
    re.IGNORECASE,
)
#: What somebody else wrote, between quotation marks.
_RETOLD = re.compile(
    r"\b(?:wrote|writes|said|says|sent|schrieb|schreibt|sagte?|geschrieben|gesagt|yazdı|yazmış)\s?[:,]?\s?[\"“”„«»\u2018\u201a]",
    re.IGNORECASE,
)
_MARK = frozenset('"“”„«»\u2018\u201a')
#: What stands above a mail in any language: an address and a word, or a day or its time, an address and little else.
_ATTRIBUTION = re.compile(
    r"<?[^\s<>@]+@[^\s<>@]+>?\s[^\W\d_]+\s?:"
    r"|(?=[^<]*(?:(?<!\d)20\d\d(?!\d)|(?<!\d)\d\d?[:.]\d\d(?!\d))).{0,300}<[^<>@\s]+@[^<>@\s]+>[^<>@]{0,60}:"
    r"|(?:[^\W\d_a-zß-öø-ÿ][\w.'\u2019-]*+\s*+,?+\s*+){0,4}+<[^<>@\s]+@[^<>@\s]+>[^<>@]{0,60}:"
)
#: What a program names somebody by whose mail it quotes: their address, or the day it came.
_BY_PROGRAM = re.compile(r"^<?[^\s<>@]+@[^\s<>@]+|<[^<>@\s]+@[^<>@\s]+>|(?<!\d)20\d\d(?!\d)|\d[./-]\d\d?[./-]\d\d")
_ADDRESS = re.compile(r"[^\s@<>]@[^\s@<>]")
#: A line of a head: up to three words, a colon and a text.
_FIELD = re.compile(r"\W*[^\W\d_][^\s:：,;!?<>@]*(?:\s[^\s:：,;!?<>@]+){0,2}\s?[:：](?!//)\s*\S")
_SENDERS = r"(?:from|sender|return-path|von|kimden|gönderen|de|da|van|od|från|fra|от)"
_OTHERS = (
    r"(?:to|b?cc|reply-to|received|message-id|sent|date|subject|an|gesendet|datum|betreff|kime|gönder(?:ildi|me tarihi)"
    r"|tarih|konu|para|a|à|al?le|aan|till?|do|asunto|assunto|objet|oggetto|onderwerp|emne|ämne|temat|fecha|data"
    r"|enviad[oa]|envoyé|inviato|verzonden|кому|тема)"
)
_NAMED = re.compile(r"[^<>@]{1,120}<[^<>@\s]+@[^<>@\s]+>\W*")
_SENDER = re.compile(rf"\W*{_SENDERS}\W*[:：](?!\s?\d)", re.IGNORECASE)
_OTHER = re.compile(rf"\W*{_OTHERS}\W*[:：]", re.IGNORECASE)
#: The same somewhere on a line, as where a whole mail stands on one.
_A_SENDER = re.compile(rf"(?<![^\W_]){_SENDERS}[*_\"']{{0,2}}\s?[:：](?!\s?\d)", re.IGNORECASE)
_AN_OTHER = re.compile(rf"(?<![^\W_]){_OTHERS}[*_\"']{{0,2}}\s?[:：]", re.IGNORECASE)
#: What a requester begins their own wish for a mail, an appointment or a record with.
_OWN_FIELD = re.compile(
    r"\W*(?:\w+ )?(?:to|b?cc|an|kime|para|à|a|aan|recipients?|empfänger|alıcı|alıcılar|name|ad|isim|customer|client"
    r"|kunde|kundin|müşteri|contact|kontakt|ilgili|company|firma|order|bestellung|sipariş|person|user|benutzer|member"
    r"|owner|mitglied|assignee|e-?mail|mail|e-?posta|phone|telefon|address|adresse?|adres|attendees?|guests?|invite"
    r"|invitees?|einladen|einladung|participants?|teilnehmer|gäste?|gast|davetli|davetliler|katılımcı|katılımcılar|when|where"
    r"|who|what|wann|wo|wer|was|zaman|nerede|kim|date|time|day|datum|zeit|uhrzeit|tag|tarih|saat|gün|deadline|due|frist"
    r"|appointment|meeting|termin|randevu|toplantı|topic|subject|title|thema|betreff|titel|konu|başlık|task|aufgabe"
    r"|görev)\W*[:：]",
    re.IGNORECASE,
)
#: A row of a table; a quoted one begins with a bar more.
_ROW = re.compile(r"\s*\|\s*[^\s|].*\|\s*")


def split_quotes(text: str) -> tuple[str, str]:
    """Return a person's own words, and what they quote, pass on or paste, hidden targets of links included."""
    text, unseen = split_unseen(text)
    own: list[str] = []
    quoted: list[str] = []
    pieces = list(_lines(text))
    written = [_seen(piece) for piece in pieces]
    lines, heads, tables = [line.strip() for line in written], _heads(written), _tables(written)
    to_the_end, begun = False, 0
    for at, line in enumerate(lines):
        begun = max(begun - 1, 0)
        marked = _is_marked(line)
        to_the_end = to_the_end or at in heads or (PASTED in line and not marked)
        is_quoted = to_the_end or begun > 0 or (marked and at not in tables)
        if not is_quoted and at not in tables and (begun := _begins_quote(lines, at)):
            # Below `Ada wrote:` stands either what is marked line by line, or nothing but her mail.
            is_quoted = True
            below = filter(None, lines[at + begun : at + begun + 8])
            to_the_end = not _is_marked(next(below, ""))
        retold = None if is_quoted or _MARK.isdisjoint(line) else _RETOLD.search(pieces[at])
        begins = retold.start() if retold else 0
        if is_quoted or retold:
            quoted.append(pieces[at][begins:].lstrip("> "))
            own += [pieces[at][:begins], BETWEEN]
        else:
            own.append(pieces[at])
    return "\n".join(own), BETWEEN.join(filter(None, ["\n".join(quoted), *unseen]))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, also those that end in a way of their own: these are quoted with the one before."""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        marked = False
        for piece in line.splitlines() or [""]:
            yield f"> {piece}" if marked else piece
            marked = marked or _is_marked(_seen(piece).strip())


def _seen(line: str) -> str:
    """Return a line without what nobody sees, such as marks of direction: it hides no mark and no colon."""
    return line if line.isascii() else "".join(each for each in line if unicodedata.category(each) != "Cf")


def _is_marked(line: str) -> bool:
    return _MARKED.match(line) is not None


def _begins_quote(lines: Sequence[str], at: int) -> int:
    """Return how many lines from this one on say that a mail or a message follows; 0 where it begins nothing."""
    first = lines[at][:LINE_MAX]
    if not first:
        return 0
    below = next(filter(None, lines[at + 1 : at + 1 + FOLDED_MAX]), "")
    if _is_passed_on(first) or begins_message(first, below):
        return 1
    if ":" in first and (found := _WROTE.search(first)) and _BY_PROGRAM.search(first[: found.end()]):
        return 1
    for number, line in enumerate(lines[at : at + FOLDED_MAX], 1):
        if line.endswith((":", "：")):
            told = " ".join(lines[at : at + number])[:LINE_MAX].replace("：", ":")
            if _ATTRIBUTION.fullmatch(told) or _tells_who(told):
                return number
        if not line:
            break
    return 0


def _is_passed_on(line: str) -> bool:
    """Tell whether a line is what programs put above a mail that is passed on, such as words between dashes."""
    if line[0] not in _DASHES and line[0] not in "*_":
        return _PASSED_ON.fullmatch(line) is not None
    words = line.strip(f"{_DASHES}*_ ")
    begin = len(line) - len(line.lstrip(f"{_DASHES}*_"))
    between = begin >= (2 if line[0] in _DASHES else 4) and not line.endswith(words)
    behind = begin > 1 or line[0] in "—─"
    return bool((between and _OF_MAIL.search(words)) or (behind and _PASSED_BY_DASHES.match(words)))


def _tells_who(told: str) -> bool:
    """Tell whether a line is `Ada wrote:`, and not about the requester."""
    wrote = any(found.end() == len(told) for found in _WROTE.finditer(told))
    return wrote and (_BY_PROGRAM.search(told) is not None or not _MINE.search(told))


def _tables(lines: Sequence[str]) -> set[int]:
    """Return which lines are of a table: rows between bars below a head and a rule; not a table of mails."""
    found: set[int] = set()
    for at, (head, line) in enumerate(pairwise(lines), 1):
        if _ROW.fullmatch(line) and (at - 1 in found or (set(line) <= set("|-: ") and _is_head_of_table(head))):
            found |= {at - 1, at}
    return found


def _is_head_of_table(line: str) -> bool:
    return bool(_ROW.fullmatch(line)) and not any(_SENDER.match(f"{cell}:") for cell in line.split("|"))


def _heads(lines: Sequence[str]) -> set[int]:
    """Return at which lines the head of a mail begins; a folded line goes on with the one before."""
    found: set[int] = set()
    fields: list[int] = []
    for at, line in enumerate([*lines, "."]):
        if _is_marked(line.lstrip()):
            # What is marked begins nothing below it.
            fields = []
        elif _FIELD.match(line[:LINE_MAX]):
            fields.append(at)
            if _SENDER.match(line) and (
                _NAMED.fullmatch(line[:LINE_MAX]) or any(map(_OTHER.match, lines[at + 1 : at + 1 + FOLDED_MAX]))
            ):
                found.add(at)
        elif line.strip() and line[0] not in " \t":
            if fields and _is_head([lines[each] for each in fields]):
                found.add(fields[0])
            fields = []
        if line.count(":") > 1 and not _is_marked(line.lstrip()) and _A_SENDER.search(line) and _AN_OTHER.search(line):
            found.add(at)
    return found


def _is_head(fields: Sequence[str]) -> bool:
    """Tell whether neighbouring lines `Word: text` are a mail's head: by its words, or in any language by what it has.

    That is an address in the first, with a name before it or a moment in one of two others, behind a word that is none
    of those with which requesters fill in a form.
    """
    if any(map(_SENDER.match, fields)) and any(map(_OTHER.match, fields)):
        return True
    if _OWN_FIELD.match(fields[0]) or not _ADDRESS.search(fields[0]):
        return False
    dated = len(fields) >= FIELDS_MIN and any(map(TIME.search, fields))
    return dated or ("<" in fields[0] and len(fields) > 1)
