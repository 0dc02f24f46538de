"""Words for people, in their language: catalogues in `locale/<language>.po`, read and looked up by babel.

Cards speak it, and the doors that a card leads to: mailed links, Slack's modals and private words, and the pages.

English is what stands in the code. A text that a catalogue lacks is shown in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import localcontext
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.dates import format_date, format_time, get_datetime_format, get_day_names, get_timezone
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_currency, format_decimal, format_percent
from babel.support import NullTranslations, Translations

CATALOGUES = Path(__file__).parent / "locale"
#: Languages that people are spoken to in; the first one is the code's own.
LANGUAGES = ("en", *sorted(path.stem for path in CATALOGUES.glob("*.po")))
#: Languages that are read of a browser's wishes.
ACCEPTED_MAX = 20
#: More than the largest float has, with what is behind its point.
_DIGITS_MAX = 400
_WEIGHT = re.compile(r"(?:q=([01](?:\.[0-9]{0,3})?))?", re.ASCII)


@cache
def translations(locale: str) -> NullTranslations:
    """Return the catalogue of a language, in the form that gettext and Jinja2's i18n extension take."""
    path = CATALOGUES / f"{locale}.po"
    if locale == LANGUAGES[0] or locale not in LANGUAGES:
        return NullTranslations()
    compiled = BytesIO()
    with path.open("rb") as source:
        write_mo(compiled, read_po(source, locale=locale))
    compiled.seek(0)
    return Translations(compiled)


def language_of(*wishes: str) -> str:
    """Return the first wish that has a catalogue, regions left out (`de-AT` is `de`); English where none has."""
    spoken = (wish.replace("_", "-").partition("-")[0].lower() for wish in wishes)
    return next((wish for wish in spoken if wish in LANGUAGES), LANGUAGES[0])


def accepted(header: str) -> tuple[str, ...]:
    """Return the languages that an `Accept-Language` header asks for, the dearest first, without what means nothing.

    Only the first ACCEPTED_MAX are read: browsers name a handful.
    """
    ranges = (each.partition(";") for each in header.split(",", ACCEPTED_MAX)[:ACCEPTED_MAX])
    weighed = ((name.strip(), _WEIGHT.fullmatch(rest.strip())) for name, _, rest in ranges if name.strip())
    liked = [(float(found[1] or 1), name) for name, found in weighed if found and float(found[1] or 1) > 0]
    return tuple(name for _, name in sorted(liked, key=lambda each: -each[0]))


def text(locale: str, words: str, **values: Any) -> str:
    """Return `words` in a language, `{placeholders}` filled with `values`. Values are put in as they are, last."""
    translated: str = translations(locale).gettext(words)
    return translated.format(**values) if values else translated


def plural(locale: str, one: str, many: str, count: int, **values: Any) -> str:
    """Return the form for `count` in a language; `{count}` and other placeholders filled."""
    translated: str = translations(locale).ngettext(one, many, count)
    return translated.format(count=count, **values)


def number(locale: str, value: float) -> str:
    """Return a number as people of that language write it: `1,000`."""
    # Babel rounds in the context's precision, which a number of more digits has no place in.
    with localcontext(prec=_DIGITS_MAX):
        return str(format_decimal(value, locale=locale))


def share(locale: str, value: float) -> str:
    """Return a part of 1 in percent: `12.5%`."""
    return str(format_percent(round(value, 3), locale=locale, decimal_quantization=False))


def dollars(locale: str, value: float) -> str:
    """Return an amount of US dollars with up to four places, for models cost little: `$0.0123`."""
    return str(format_currency(round(value, 4), "USD", locale=locale, decimal_quantization=False))


def weekdays(locale: str, days: Iterable[int]) -> str:
    """Return the names of days of the week, Monday is 0, in their order: `Mon, Tue`."""
    names = get_day_names("abbreviated", "stand-alone", locale)
    return ", ".join(names[day] for day in sorted(days))


def moment(locale: str, at: datetime, timezone: str = "UTC") -> str:
    """Return a moment as people of that language write it, to the minute, with its time zone's short name."""
    local = at.astimezone(get_timezone(timezone))
    day, time = format_date(local, "medium", locale=locale), format_time(local, "short", locale=locale)
    joined = str(get_datetime_format("medium", locale)).replace("'", "").replace("{1}", day).replace("{0}", time)
    return f"{joined} {local.tzname()}"
