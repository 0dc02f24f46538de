"""Words that the pages' scripts say: each page brings them in its language, for scripts have no catalogue."""

from __future__ import annotations

from placet.gateway.web.words import UNITS
from placet.surfaces.texts import LANGUAGES, translations

#: What `t(…)` of `static/*.js` looks up, beside the units of time.
SCRIPT_WORDS = (
    "Approved.",
    "Arguments",
    "At most {max} characters: {over} too many.",
    "Cart",
    "Close",
    "Denied.",
    "Error",
    "Inbox",
    "No longer waiting: {count}",
    "Not sent: {error}",
    "Not stopped: {error}",
    "Pay {amount}",
    "Somebody has signed in anew since this page was loaded. Reload it.",
    "Products",
    "Result",
    "Show 1 new approval",
    "Select these {count}",
    "Show {count} new approvals",
    "Stopped.",
    "Table",
    "That did not work. Try again in a moment.",
    "The conversation has ended.",
    "The turn ended: {why}",
    "Total",
    "Undo",
    "Your decision was not sent: somebody else decided first.",
    "Yours was not sent, it was decided meanwhile: {summary}",
    "added: ",
    "answered",
    "approved",
    "cancelled",
    "committed",
    "conflicted",
    "connecting",
    "denied",
    "discarded",
    "done",
    "error",
    "expired",
    "expires in {span}",
    "failed",
    "in {span}",
    "invalid",
    "it did not count: {why}",
    "left out",
    "live",
    "overdue",
    "picture",
    "refused",
    "removed: ",
    "running",
    "said while the call waited",
    "sale",
    "signed out?",
    "sold out",
    "staged",
    "succeeded",
    "superseded",
    "taken as: no to “{summary}”",
    "taken as: yes to “{summary}”",
    "there is no connection",
    "thinking",
    "unchanged lines",
    "unknown",
    "waiting for a decision",
    "waiting for approval",
    "withdrawn",
    "{count} approved.",
    "{count} denied.",
    "{count} selected",
    "{count} left out",
    "{count} more that touch the same were left out too",
    "{tool}: {by} has checked, it did not run.",
    "{tool}: {by} has checked, it did run.",
)


def script_words(language: str) -> dict[str, str]:
    """Return by its English what each of them is in a language; nothing for English, which stands in the scripts."""
    if language == LANGUAGES[0]:
        return {}
    catalogue = translations(language)
    forms = (
        (said, catalogue.ngettext(one, many, count)) for _, one, many in UNITS for said, count in ((one, 1), (many, 2))
    )
    return {**{each: catalogue.gettext(each) for each in SCRIPT_WORDS}, **dict(forms)}
