"""Which product the visitor means: "them", "the second one", "the Runner in size 42".

Only products from search results in the transcript can be meant; anything else has to be looked for first.

Pure: a wish and the transcript in, a choice out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shop.model.shopping import Add
from shop.model.transcript import Product, Transcript
from shop.model.wishes import understand


@dataclass(frozen=True)
class Choice:
    """What to do about a wish for the cart: call with `arguments`, search for `look_for` first, or ask."""

    arguments: dict[str, Any] = field(default_factory=dict)
    look_for: str = ""
    #: What to say when there is nothing to call (any more).
    question: str = ""


def choose(wish: Add, seen: Transcript) -> Choice:
    """Find the product and the variant that are meant."""
    if wish.name:
        product = _by_name(wish.name, seen.known())
        missing = Choice(look_for=wish.name, question=f'I found no product called "{wish.name}".')
    else:
        product = _by_place(wish, seen.shown())
        missing = Choice(question='I have not shown you a product to add yet. Say for example "find red shoes".')
    return _variant(product, wish) if product else missing


def restated(seen: Transcript) -> list[Add]:
    """Read a bare answer like "42" or "size 42" as the variant of what the visitor wanted to add before."""
    if len(seen.user_texts) < 2:  # noqa: PLR2004  an answer needs a message before it
        return []
    before = [wish for wish in understand(seen.user_texts[-2]) if isinstance(wish, Add)]
    labels = {label for product in seen.known() for _, label, _ in product.variants}
    said = next((label for label in sorted(labels) if _mentions(seen.user_texts[-1], label)), "")
    return [replace(wish, variant=said) for wish in before[:1] if said]


def _by_place(wish: Add, shown: Sequence[Product]) -> Product | None:
    """Take the place that was named, or the first product that can be added without a question."""
    if wish.place is not None:
        return shown[wish.place] if -len(shown) <= wish.place < len(shown) else None
    fits = [product for product in shown if product.in_stock and not _needs_choice(product, wish)]
    in_stock = [product for product in shown if product.in_stock]
    return next(iter([*fits, *in_stock, *shown]), None)


def _by_name(name: str, known: Sequence[Product]) -> Product | None:
    wanted = _plain(name)
    same = [product for product in known if _plain(product.name) == wanted]
    part = [product for product in known if set(wanted.split()) <= set(_plain(product.name).split())]
    return next(iter([*same, *part]), None)


def _variant(product: Product, wish: Add) -> Choice:
    arguments: dict[str, Any] = {"product_id": product.product_id, "quantity": wish.quantity}
    if not product.variants:
        return Choice(arguments)
    wanted = _matching(product, wish) if wish.variant else _in_stock(product)
    if len(wanted) == 1:
        return Choice({**arguments, "variant_id": wanted[0]})
    labels = ", ".join(label for _, label, in_stock in product.variants if in_stock)
    missing = f"{product.name} does not come in {wish.variant}. " if wish.variant and not wanted else ""
    return Choice(question=f"{missing}Which {product.name} would you like: {labels}?")


def _needs_choice(product: Product, wish: Add) -> bool:
    return not _variant(product, wish).arguments


def _matching(product: Product, wish: Add) -> list[str]:
    exact = [key for key, label, _ in product.variants if _plain(label) == _plain(wish.variant)]
    return exact or [key for key, label, _ in product.variants if _mentions(label, wish.variant)]


def _in_stock(product: Product) -> list[str]:
    return [key for key, _, in_stock in product.variants if in_stock]


def _mentions(text: str, word: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


def _plain(name: str) -> str:
    """Compare names by their words, without case, quotes and plural."""
    found = re.findall(r"\w+", name.lower())
    return " ".join(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found)  # noqa: PLR2004  "gas" is no plural
