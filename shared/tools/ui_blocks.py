"""The blocks a tool may hand to the frontend beside its answer to the model.

Owns their JSON: a frontend picks its renderer by `type` and skips types it does not know, so a tool pack
may add its own by subclassing `UiBlock`. They are typed because a block is shown to a person without a
model in between.

==================  ============================================================================================
`type`            fields
==================  ============================================================================================
product_carousel    `products`: [{id, name, price, list_price, currency, in_stock, on_sale, variants}]
cart                `items`: [{product_id, variant_id, name, variant_label, quantity, unit_price}], total, currency
payment_link        link_id, url, amount, currency, note
staged_diff         `target`, `lines`: [{change (same, removed, added, gap), text}]
notice              `level` (info, success, warning), `text` in the visitor's language
==================  ============================================================================================

Money is a JSON number with at most two decimals. Text is plain text: a frontend escapes it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, PlainSerializer

from placet.tools.diffs import grouped_opcodes


def money_number(amount: Decimal) -> int | float:
    """Return an amount of at most two decimals as the JSON number that reads the same: 299, not 299.0."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


Money = Annotated[Decimal, PlainSerializer(money_number, return_type=int | float, when_used="json")]
"""An exact amount in Python, a plain number in JSON."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UiBlock(_Frozen):
    """The base of all blocks; `type` picks the renderer."""

    type: str


class ProductVariant(_Frozen):
    """One size or version of a product; `label` is what people read (`"38"`, `"500 ml"`)."""

    id: str
    label: str
    in_stock: bool


class ProductCard(_Frozen):
    """One product; `list_price` is the price before the sale, null when there is none."""

    id: str
    name: str
    price: Money
    list_price: Money | None
    currency: str
    in_stock: bool
    on_sale: bool
    variants: tuple[ProductVariant, ...]


class ProductCarousel(UiBlock):
    """Products to leaf through, best hit first."""

    type: Literal["product_carousel"] = "product_carousel"
    products: tuple[ProductCard, ...]


class CartLine(_Frozen):
    """One line of a cart; `unit_price` is for one piece, variant fields are null for a product without variants."""

    product_id: str
    variant_id: str | None
    name: str
    variant_label: str | None
    quantity: int
    unit_price: Money


class CartBlock(UiBlock):
    """The whole cart of the conversation after the change."""

    type: Literal["cart"] = "cart"
    items: tuple[CartLine, ...]
    total: Money
    currency: str


class PaymentLinkBlock(UiBlock):
    """A link where the visitor pays; open it in a new window and never fetch it ahead."""

    type: Literal["payment_link"] = "payment_link"
    link_id: str
    url: str
    amount: Money
    currency: str
    note: str | None


DiffChange = Literal["same", "removed", "added", "gap"]
#: Unchanged lines that are shown around a change.
DIFF_CONTEXT = 3


class DiffLine(_Frozen):
    """One line of a difference; a `gap` has no text and stands for unchanged lines that are left out."""

    change: DiffChange
    text: str = ""


class StagedDiffBlock(UiBlock):
    """What a staged change would make of a file or a record, line by line."""

    type: Literal["staged_diff"] = "staged_diff"
    #: What changes, as people call it: a path, a record's name.
    target: str
    lines: tuple[DiffLine, ...]

    @classmethod
    def of(cls, target: str, before: str, after: str) -> Self:
        """Return the difference of two texts: changed lines with a few around them, no line where they are equal.

        Where comparing all lines would take long, more is shown as changed than need be.
        """
        old, new = before.splitlines(), after.splitlines()
        lines: list[DiffLine] = []
        for group in grouped_opcodes(old, new, DIFF_CONTEXT):
            if lines or group[0][1]:
                lines.append(DiffLine(change="gap"))
            for tag, begin, end, new_begin, new_end in group:
                if tag == "equal":
                    lines += [DiffLine(change="same", text=each) for each in old[begin:end]]
                    continue
                lines += [DiffLine(change="removed", text=each) for each in old[begin:end]]
                lines += [DiffLine(change="added", text=each) for each in new[new_begin:new_end]]
        return cls(target=target, lines=tuple(lines))


NoticeLevel = Literal["info", "success", "warning"]


class NoticeBlock(UiBlock):
    """A short line for the visitor."""

    type: Literal["notice"] = "notice"
    level: NoticeLevel
    text: str
