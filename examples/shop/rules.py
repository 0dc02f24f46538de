"""What the shop decides without asking anybody: words of a search, amounts of money, addresses, what may be bought.

Pure, and the only place that reads text the way people mean it. Search words are folded here and in the
generated columns of `tables.py` by one and the same table, so that both sides of a comparison always agree.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from placet.tools import ToolError

FOLD_FROM = "İIıŞşĞğÜüÖöÇçÂâÎîÛûÁáÀàÄäÉéÈèÊêËëÍíÓóÔôÚúÑñ"  # the dotless i is meant
FOLD_TO = "iiissgguuooccaaiiuuaaaaaaeeeeeeeeiioooouunn"
# Dotted and dotless i are one letter here: who types KIRMIZI or kirmizi means the same word.
FOLD_DROP = "\u0307"
"""Combining dot above: what some lower-casing leaves behind of İ."""

AMOUNT_MAX = Decimal("9999999999.99")
"""What numeric(12,2) holds."""
CURRENCIES = frozenset({"EUR", "GBP", "TRY", "USD"})
"""Currencies with two decimals that the shop charges."""
QUANTITY_MAX = 99
TEXT_MAX = 2_000
NO_WORD = "\n"
"""The search term that no word begins with."""

# Ending, how much of it belongs to the word, and the shortest stem that still says something.
_PLURALS = (
    ("sses", 2, 3),
    ("shes", 2, 3),
    ("ches", 2, 3),
    ("xes", 1, 3),
    ("ies", 0, 4),
    ("lar", 0, 4),
    ("ler", 0, 4),
)
_FOLDING = str.maketrans(FOLD_FROM, FOLD_TO, FOLD_DROP)
_FILLERS = frozenset({"a", "an", "and", "bir", "for", "icin", "ile", "in", "of", "or", "the", "ve", "veya", "with"})
_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>.]+(\.[^@\s,;<>.]+)+")
_PHONE = re.compile(r"\+?[\d\s()./-]+")


@dataclass(frozen=True, slots=True)
class VariantStock:
    """One variant as the cart sees it; `stock` in pieces."""

    id: str
    label: str
    stock: int


@dataclass(frozen=True, slots=True)
class ProductStock:
    """One product as the cart sees it; `stock` counts only for a product without variants."""

    id: str
    name: str
    price: Decimal
    currency: str
    stock: int
    variants: tuple[VariantStock, ...]


@dataclass(frozen=True, slots=True)
class Contact:
    """What a visitor has said about themselves; None where nothing was said."""

    name: str | None = None
    email: str | None = None
    phone: str | None = None
    note: str | None = None

    def known(self) -> list[str]:
        """Return the names of the fields that hold something."""
        return [name for name in ("name", "email", "phone", "note") if getattr(self, name) is not None]


def fold(text: str) -> str:
    """Return the text as it is compared: without case, without accents, Turkish letters as their Latin neighbours."""
    return unicodedata.normalize("NFKC", text).translate(_FOLDING).lower()


def search_terms(text: str) -> tuple[str, ...]:
    """Return the beginnings of words to look for, in any order; empty only for blank text.

    Text without a single word ("?!") is a search that finds nothing, not one that finds everything: its one
    term is a newline, which no folded column holds.
    """
    words = re.findall(r"[^\W_]+", fold(text))
    telling = [word for word in words if word not in _FILLERS] or words
    if not telling:
        return (NO_WORD,) if text.strip() else ()
    return tuple(dict.fromkeys(_singular(word) for word in telling))


def _singular(word: str) -> str:
    """Return the word without its English or Turkish plural: found as a beginning, it matches one and many."""
    for ending, kept, shortest in _PLURALS:
        stem = len(word) - len(ending) + kept
        if word.endswith(ending) and stem >= shortest:
            return word[:stem]
    return word[:-1] if word.endswith("s") and len(word) > 3 else word  # noqa: PLR2004  # "gas" is no plural


def checked_amount(amount: Decimal) -> Decimal:
    """Return the amount with exactly two decimals; ToolError when it is not a payable one. Nothing is rounded."""
    if not amount.is_finite() or not 0 < amount <= AMOUNT_MAX:
        raise ToolError(f"The amount must be more than 0 and at most {AMOUNT_MAX}.", code="invalid_amount")
    exact = amount.quantize(Decimal("0.01"))
    if exact != amount:
        raise ToolError("The amount must have at most two decimals.", code="invalid_amount")
    return exact


def checked_currency(currency: str) -> str:
    """Return the ISO 4217 code in capitals; ToolError when the shop does not charge it."""
    code = currency.strip().upper()
    if code not in CURRENCIES:
        raise ToolError(f"The currency must be one of {', '.join(sorted(CURRENCIES))}.", code="invalid_currency")
    return code


def checked_quantity(quantity: int) -> int:
    """Return the quantity; ToolError when it is not between 1 and 99."""
    if not 1 <= quantity <= QUANTITY_MAX:
        raise ToolError(f"The quantity must be from 1 to {QUANTITY_MAX}.", code="invalid_quantity")
    return quantity


def check_enough(product: ProductStock, variant_id: str | None, *, wanted: int) -> None:
    """Raise ToolError unless the choice is possible and there are `wanted` pieces of it.

    Codes: variant_required, unknown_variant, sold_out, not_enough_stock, invalid_quantity.
    """
    name, stock = _choose(product, variant_id)
    if stock == 0:
        raise ToolError(f"{name} is sold out.", code="sold_out")
    if wanted > stock:
        text = f"Only {stock} of {name} left; the cart would hold {wanted}."
        raise ToolError(text, code="not_enough_stock", data={"available": stock})
    if wanted > QUANTITY_MAX:
        raise ToolError(f"A cart holds at most {QUANTITY_MAX} of one product.", code="invalid_quantity")


def _choose(product: ProductStock, variant_id: str | None) -> tuple[str, int]:
    """Return the name of what was chosen and how many pieces there are."""
    choices = [{"id": each.id, "label": each.label, "in_stock": each.stock > 0} for each in product.variants]
    if variant_id is not None:
        for each in product.variants:
            if each.id == variant_id:
                return f"{product.name}, {each.label}", each.stock
        text = f"{product.name} has no variant {variant_id!r}."
        raise ToolError(text, code="unknown_variant", data={"variants": choices})
    if any(each.stock > 0 for each in product.variants):
        text = f"{product.name} comes in variants; choose one and give its variant_id."
        raise ToolError(text, code="variant_required", data={"variants": choices})
    return product.name, 0 if product.variants else product.stock


def checked_contact(contact: Contact) -> Contact:
    """Return what was said, trimmed; ToolError when nothing was, or when an address or number cannot be one."""
    checked = Contact(*(clean(each) for each in (contact.name, contact.email, contact.phone, contact.note)))
    if checked == Contact():
        raise ToolError("Give at least one of name, email, phone or note.", code="nothing_given")
    if checked.email is not None and not _ADDRESS.fullmatch(checked.email):
        raise ToolError("The e-mail address is not valid; ask for it again.", code="invalid_email")
    if checked.phone is not None and not _is_phone(checked.phone):
        raise ToolError("The phone number is not valid; ask for it again.", code="invalid_phone")
    return checked


def _is_phone(text: str) -> bool:
    digits = sum(character.isdigit() for character in text)
    return _PHONE.fullmatch(text) is not None and 7 <= digits <= 15  # noqa: PLR2004  # E.164, and the shortest in use


def clean(text: str | None) -> str | None:
    """Return the text trimmed and without control characters, None when nothing is left; ToolError when too long."""
    if text is None:
        return None
    kept = "".join(character for character in text if character in "\n\t" or unicodedata.category(character)[0] != "C")
    if len(kept) > TEXT_MAX:
        raise ToolError(f"A text may have at most {TEXT_MAX} characters.", code="text_too_long")
    return kept.strip() or None
