"""Shop talk: the clauses that ask for products, the cart or a payment link. See demo_wishes for the rest.

Each reader takes one clause and answers with its wishes, or an empty list when the clause is about something
else. Prices are read in both customs, 1,299.50 and 1.299,50.
"""

import re
from dataclasses import dataclass, replace

NUMBER = r"\d+(?:[.,]\d{3})*(?:[.,]\d{1,2})?(?![\d.,]*\d)"
CURRENCIES = {
    "try": "TRY", "tl": "TRY", "lira": "TRY", "liras": "TRY", "₺": "TRY",
    "eur": "EUR", "euro": "EUR", "euros": "EUR", "€": "EUR",
    "usd": "USD", "dollar": "USD", "dollars": "USD", "$": "USD",
    "gbp": "GBP", "pound": "GBP", "pounds": "GBP", "£": "GBP",
    "chf": "CHF", "franc": "CHF", "francs": "CHF",
}  # fmt: skip
MONEY = "(?:" + "|".join(re.escape(word) for word in sorted(CURRENCIES, key=len, reverse=True)) + r")(?![a-z])"
COUNTS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
PLACES = {
    "first": 0,
    "1st": 0,
    "second": 1,
    "2nd": 1,
    "third": 2,
    "3rd": 2,
    "fourth": 3,
    "fifth": 4,
    "last": -1,
}
BACK = {"", "them", "it", "that", "this", "those", "these", "one", "ones", "that one", "this one", "the one"}

PAYMENT = re.compile(r"\b(?:pay(?:ment)?[- ]?link|checkout link|link (?:to|for) pay\w*)\b", re.IGNORECASE)
AMOUNT = re.compile(rf"({MONEY})?\s*({NUMBER})\s*({MONEY}|(?-i:[A-Z]{{3}})\b)?", re.IGNORECASE)
NOTE = re.compile(r"\bnote\b:?\s+(.+)$", re.IGNORECASE)

PUT = re.compile(
    r"^(?:i(?:'ll| will|'d like to| would like to| want to)?\s+)?(?:add|put|buy|order|take)\s+(.+)$",
    re.IGNORECASE,
)
HAVE = re.compile(
    r"^(?:i(?:'ll| will|'d| would)?\s*(?:take|have|like|want|need)|get me|give me)\s+(.+)$", re.IGNORECASE
)
CART = re.compile(r"\s*\b(?:to|in|into)\s+(?:my|the)\s+(?:shopping\s+)?(?:cart|basket|bag)\b", re.IGNORECASE)
VARIANT = re.compile(
    r"\s*\b(?:in\s+)?(?:the\s+)?(?:size|colou?r|variant)\s+([\w./-]+)|\s+in\s+([\w./-]+)$", re.IGNORECASE
)
COUNT = re.compile(
    rf"^(\d{{1,3}}|{'|'.join(COUNTS)}|an?)\b\s*(?:x\b|\u00d7|(?:pieces|pairs?)\s+of\b)?\s*(?:of\b)?\s*",
    re.IGNORECASE,
)

SEEK = re.compile(
    r"^(?:find|search(?: for)?|look(?:ing)?(?: for)?|show|list|browse|do you (?:have|sell)|what do you have"
    r"|i(?:'m| am) looking for|i(?:'d| would)?\s*(?:want|need|like)(?: to (?:see|find))?|get me|give me"
    r"|what(?:'s| is))\b",
    re.IGNORECASE,
)
CEILING = re.compile(
    rf"\b(?:for\s+)?(?:under|below|less than|cheaper than|up to|at most|no more than|max(?:imum)?)"
    rf"\s*(?:{MONEY})?\s*({NUMBER})\s*(?:{MONEY})?",
    re.IGNORECASE,
)
ON_SALE = re.compile(r"\b(?:on sale|on offer|discounted|reduced|in the sale)\b", re.IGNORECASE)
IN_STOCK = re.compile(r"\b(?:in[- ]stock|available)\b", re.IGNORECASE)
CATEGORY = re.compile(r"\b(?:in|from)\s+(?:the\s+)?(?:category\s+([\w-]+)|([\w-]+)\s+category)\b", re.IGNORECASE)
FILLER = re.compile(
    r"\b(?:me|some|any|all|the|an?|please|products?|items?|things?|something|anything|everything|stuff|what|for|with"
    r"|that|which|are|is|only|you|have|but|and|there|price|now|currently|just|in|of|your)\b|[,:'\u2019]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Search:
    """Look for products. `refine` narrows the search before this one instead of starting anew."""

    text: str = ""
    category: str = ""
    max_price: float | None = None
    on_sale: bool = False
    in_stock_only: bool = False
    refine: bool = False


@dataclass(frozen=True)
class Add:
    """Put something into the cart: by name, by its place in the last search, or (neither) what "it" means."""

    quantity: int = 1
    name: str = ""
    place: int | None = None
    variant: str = ""


@dataclass(frozen=True)
class PayLink:
    """Create a payment link; an amount or a currency that is missing has to be asked for."""

    amount: float | None = None
    currency: str = ""
    note: str = ""


def search_in(clause: str) -> list[Search]:
    """Read "find red shoes under 500", "show on sale", "in stock only"."""
    rest, sought = SEEK.subn("", clause, count=1)
    ceiling, category = CEILING.search(rest), CATEGORY.search(rest)
    found = Search(
        category=next((word for word in category.groups() if word), "") if category else "",
        max_price=number(ceiling.group(1)) if ceiling else None,
        on_sale=bool(ON_SALE.search(rest)),
        in_stock_only=bool(IN_STOCK.search(rest)),
    )
    for pattern in (CEILING, CATEGORY, ON_SALE, IN_STOCK, FILLER):
        rest = pattern.sub(" ", rest)
    words = " ".join(rest.split()).lower()
    narrowed = found != Search()
    if words in BACK:
        refine = bool(words) or not sought
        return [replace(found, refine=refine)] if narrowed or sought else []
    return [replace(found, text=words)] if sought else []


def narrowed(before: Search, by: Search) -> Search:
    """Add what a refinement says to the search it refines."""
    return replace(
        before,
        category=by.category or before.category,
        max_price=before.max_price if by.max_price is None else by.max_price,
        on_sale=by.on_sale or before.on_sale,
        in_stock_only=by.in_stock_only or before.in_stock_only,
    )


def add_in(clause: str) -> list[Add]:
    """Read "add two of them to my cart", "buy the Runner in size 42", "I take the second one"."""
    put, have = PUT.match(clause), HAVE.match(clause)
    match = put or have
    if not match:
        return []
    target, in_cart = CART.subn("", match.group(1).strip())
    variant = VARIANT.search(target)
    chosen = next((word for word in variant.groups() if word), "") if variant else ""
    names = re.split(r"\s+and\s+|\s*,\s*", VARIANT.sub("", target))
    wishes = [_one(name, chosen) for name in names if name]
    wanted = put or in_cart or all(not wish.name for wish in wishes)
    return wishes if wanted else []


def pay_link_in(clause: str) -> list[PayLink]:
    """Read "create a payment link over 299 TRY"."""
    if not PAYMENT.search(clause):
        return []
    note = NOTE.search(clause)
    amount = AMOUNT.search(NOTE.sub("", clause))
    if not amount:
        return [PayLink(note=note.group(1) if note else "")]
    money = (amount.group(1) or amount.group(3) or "").lower()
    return [PayLink(number(amount.group(2)), CURRENCIES.get(money, money.upper()), note.group(1) if note else "")]


def number(text: str) -> float:
    """Read a number in either custom; a last group of three digits after one mark is thousands."""
    whole, mark, cents = text.rpartition(next((c for c in reversed(text) if c in ".,"), "."))
    if not mark or len(cents) > 2:  # noqa: PLR2004  cents have two digits
        whole, cents = text, "0"
    return float(re.sub(r"[.,]", "", whole) + "." + cents)


def _one(target: str, variant: str) -> Add:
    """Read how many of what: "two of them", "3 x Runner", "the second one"."""
    count = COUNT.match(target)
    said = count.group(1).lower() if count else "1"
    quantity = COUNTS.get(said) or (int(said) if said.isdigit() else 1)
    rest = re.sub(r"^(?:the|my|of)\s+", "", target[count.end() :] if count else target, flags=re.IGNORECASE)
    words = re.sub(r"\s+(?:one|ones|please)$", "", rest.strip(" \"'\u201c\u201d"), flags=re.IGNORECASE)
    if words.lower() in PLACES:
        return Add(quantity, place=PLACES[words.lower()], variant=variant)
    return Add(quantity, name="" if words.lower() in BACK else words, variant=variant)
