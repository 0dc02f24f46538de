"""The shop's tables, in the schema `tools`, which Placet keeps for those of tools.

Every row begins with its tenant, and so does every key: a foreign key can never lead from one tenant to
another. The CHECKs repeat what the rules say, because a shop's catalogue is also written by other programs.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from shop.rules import FOLD_FROM, FOLD_TO

SCHEMA = "tools"
_MONEY = sa.Numeric(12, 2)
_CURRENCY = "currency ~ '^[A-Z]{3}$'"


class Row(SQLModel):
    """The base of the shop's rows; they have a catalogue of their own, so that Placet's migrations pass over them."""

    metadata = sa.MetaData(naming_convention={"ck": "ck_%(table_name)s_%(constraint_name)s"})


def table_of(row: type[Row]) -> sa.Table:
    """Return the table of a row class; statements name its columns as `table.c.<name>`."""
    table: sa.Table = row.__table__  # type: ignore[attr-defined]
    return table


def create_tables(connection: sa.Connection) -> None:
    """Create what is not there yet; of several executors that start at once, one does."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('tools.shop'))"))
    Row.metadata.create_all(connection)


def _words(*columns: str) -> sa.Computed:
    """Return the columns folded as `rules.fold` does, each word with one space before it."""
    joined = " || ' ' || ".join(columns)
    folded = f"lower(translate({joined}, '{FOLD_FROM}', '{FOLD_TO}'))"
    return sa.Computed(f"' ' || regexp_replace({folded}, '[[:space:][:punct:]]+', ' ', 'g')", persisted=True)


def _now() -> sa.Column[datetime]:
    return sa.Column(sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _new_id(*, key: bool = False) -> sa.Column[UUID]:
    return sa.Column(sa.Uuid, primary_key=key, nullable=False, server_default=sa.func.gen_random_uuid())


class ProductRow(Row, table=True):
    """What a tenant sells; `stock` (pieces) counts only when the product has no variants."""

    __tablename__ = "products"
    __table_args__ = (
        sa.CheckConstraint("price > 0", name="price_positive"),
        sa.CheckConstraint("list_price IS NULL OR list_price > price", name="list_price_higher"),
        sa.CheckConstraint("on_sale OR list_price IS NULL", name="list_price_only_on_sale"),
        sa.CheckConstraint("stock >= 0", name="stock_not_negative"),
        sa.CheckConstraint(_CURRENCY, name="currency_code"),
        sa.CheckConstraint("id <> '' AND name <> ''", name="named"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    id: str = Field(primary_key=True, sa_type=sa.Text)
    name: str = Field(sa_type=sa.Text)
    description: str = Field(sa_type=sa.Text)
    category: str = Field(sa_type=sa.Text)
    colour: str = Field(sa_type=sa.Text)
    price: Decimal = Field(sa_type=_MONEY)
    list_price: Decimal | None = Field(default=None, sa_type=_MONEY)
    currency: str = Field(sa_type=sa.Text)
    on_sale: bool = False
    stock: int = 0
    name_words: str = Field(default="", sa_column=sa.Column(sa.Text, _words("name"), nullable=False))
    category_words: str = Field(default="", sa_column=sa.Column(sa.Text, _words("category"), nullable=False))
    search_words: str = Field(
        default="",
        sa_column=sa.Column(sa.Text, _words("name", "description", "category", "colour"), nullable=False),
    )


class VariantRow(Row, table=True):
    """A size or version of a product; `position` orders them for people."""

    __tablename__ = "variants"
    __table_args__ = (
        sa.ForeignKeyConstraint(["tenant", "product_id"], ["tools.products.tenant", "tools.products.id"]),
        sa.UniqueConstraint("tenant", "product_id", "id", name="variants_of_product"),
        sa.CheckConstraint("stock >= 0", name="stock_not_negative"),
        sa.CheckConstraint("id <> '' AND label <> ''", name="named"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    id: str = Field(primary_key=True, sa_type=sa.Text)
    product_id: str = Field(sa_type=sa.Text)
    label: str = Field(sa_type=sa.Text)
    position: int
    stock: int = 0


class CartRow(Row, table=True):
    """The one cart of a conversation; its row is the lock under which items change."""

    __tablename__ = "carts"
    __table_args__ = (sa.CheckConstraint(_CURRENCY, name="currency_code"), {"schema": SCHEMA})
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    conversation_id: str = Field(primary_key=True, sa_type=sa.Text)
    requester: str = Field(sa_type=sa.Text)
    currency: str = Field(sa_type=sa.Text)
    created_at: datetime = Field(sa_column=_now())
    updated_at: datetime = Field(sa_column=_now())


class CartItemRow(Row, table=True):
    """One product or variant in a cart; `unit_price` is the price when it was last added."""

    __tablename__ = "cart_items"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["tenant", "conversation_id"],
            ["tools.carts.tenant", "tools.carts.conversation_id"],
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tenant", "product_id"], ["tools.products.tenant", "tools.products.id"]),
        sa.ForeignKeyConstraint(
            ["tenant", "product_id", "variant_id"],
            ["tools.variants.tenant", "tools.variants.product_id", "tools.variants.id"],
        ),
        sa.UniqueConstraint(
            "tenant",
            "conversation_id",
            "product_id",
            "variant_id",
            name="cart_items_one_line_each",
            postgresql_nulls_not_distinct=True,
        ),
        sa.CheckConstraint("quantity BETWEEN 1 AND 99", name="quantity"),
        sa.CheckConstraint("unit_price > 0", name="price_positive"),
        {"schema": SCHEMA},
    )
    id: int | None = Field(
        default=None, sa_column=sa.Column(sa.BigInteger, sa.Identity(always=True), primary_key=True, nullable=False)
    )
    tenant: str = Field(sa_type=sa.Text)
    conversation_id: str = Field(sa_type=sa.Text)
    product_id: str = Field(sa_type=sa.Text)
    variant_id: str | None = Field(default=None, sa_type=sa.Text)
    quantity: int
    unit_price: Decimal = Field(sa_type=_MONEY)


class CartAdditionRow(Row, table=True):
    """One call that changed a cart; the key makes a repeated call change nothing."""

    __tablename__ = "cart_additions"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["tenant", "conversation_id"],
            ["tools.carts.tenant", "tools.carts.conversation_id"],
            ondelete="CASCADE",
        ),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    idempotency_key: str = Field(primary_key=True, sa_type=sa.Text)
    conversation_id: str = Field(sa_type=sa.Text)
    product_id: str = Field(sa_type=sa.Text)
    variant_id: str | None = Field(default=None, sa_type=sa.Text)
    quantity: int
    added_at: datetime = Field(sa_column=_now())


class PayLinkRow(Row, table=True):
    """One payment link: first the wish for it, then, all at once, what the provider answered."""

    __tablename__ = "pay_links"
    __table_args__ = (
        sa.UniqueConstraint("tenant", "link_id", name="pay_links_recorded_once"),
        sa.CheckConstraint("num_nonnulls(link_id, url, recorded_at) IN (0, 3)", name="recorded_whole"),
        sa.CheckConstraint("amount > 0", name="amount_positive"),
        sa.CheckConstraint(_CURRENCY, name="currency_code"),
        sa.Index("pay_links_by_conversation", "tenant", "conversation_id"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    idempotency_key: str = Field(primary_key=True, sa_type=sa.Text)
    call_id: str = Field(sa_type=sa.Text)
    conversation_id: str = Field(sa_type=sa.Text)
    requester: str = Field(sa_type=sa.Text)
    amount: Decimal = Field(sa_type=_MONEY)
    currency: str = Field(sa_type=sa.Text)
    note: str | None = Field(default=None, sa_type=sa.Text)
    asked_at: datetime = Field(sa_column=_now())
    link_id: str | None = Field(default=None, sa_type=sa.Text)
    url: str | None = Field(default=None, sa_type=sa.Text)
    recorded_at: datetime | None = Field(default=None, sa_column=sa.Column(sa.DateTime(timezone=True)))


class LeadRow(Row, table=True):
    """What is known of one visitor, the newest word on each field."""

    __tablename__ = "leads"
    __table_args__ = (
        sa.UniqueConstraint("id", name="leads_id"),
        sa.CheckConstraint("num_nonnulls(name, email, phone, note) > 0", name="say_something"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    requester: str = Field(primary_key=True, sa_type=sa.Text)
    id: UUID = Field(sa_column=_new_id())
    name: str | None = Field(default=None, sa_type=sa.Text)
    email: str | None = Field(default=None, sa_type=sa.Text)
    phone: str | None = Field(default=None, sa_type=sa.Text)
    note: str | None = Field(default=None, sa_type=sa.Text)
    created_at: datetime = Field(sa_column=_now())
    updated_at: datetime = Field(sa_column=_now())


class LeadHistoryRow(Row, table=True):
    """What one call said about a visitor; never changed, so a replaced address is not lost."""

    __tablename__ = "lead_history"
    __table_args__ = (
        # Checked at commit: the history row is written first, because its key tells a repeated call.
        sa.ForeignKeyConstraint(
            ["tenant", "requester"],
            ["tools.leads.tenant", "tools.leads.requester"],
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.Index("lead_history_by_requester", "tenant", "requester"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    idempotency_key: str = Field(primary_key=True, sa_type=sa.Text)
    requester: str = Field(sa_type=sa.Text)
    conversation_id: str = Field(sa_type=sa.Text)
    name: str | None = Field(default=None, sa_type=sa.Text)
    email: str | None = Field(default=None, sa_type=sa.Text)
    phone: str | None = Field(default=None, sa_type=sa.Text)
    note: str | None = Field(default=None, sa_type=sa.Text)
    said_at: datetime = Field(sa_column=_now())


class EscalationRow(Row, table=True):
    """A conversation handed to people; open until an operator closes it, one at a time per conversation."""

    __tablename__ = "escalations"
    __table_args__ = (
        sa.UniqueConstraint("tenant", "idempotency_key", name="escalations_once_per_call"),
        sa.Index(
            "escalations_one_open",
            "tenant",
            "conversation_id",
            unique=True,
            postgresql_where=sa.text("state = 'open'"),
        ),
        sa.CheckConstraint("state IN ('open', 'closed')", name="state"),
        sa.CheckConstraint("(closed_at IS NOT NULL) = (state = 'closed')", name="closed_at"),
        {"schema": SCHEMA},
    )
    tenant: str = Field(primary_key=True, sa_type=sa.Text)
    id: UUID = Field(sa_column=_new_id(key=True))
    idempotency_key: str = Field(sa_type=sa.Text)
    conversation_id: str = Field(sa_type=sa.Text)
    requester: str = Field(sa_type=sa.Text)
    message_id: str = Field(sa_type=sa.Text)
    language: str = Field(sa_type=sa.Text)
    reason: str = Field(sa_type=sa.Text)
    state: str = Field(default="open", sa_column=sa.Column(sa.Text, nullable=False, server_default="open"))
    opened_at: datetime = Field(sa_column=_now())
    closed_at: datetime | None = Field(default=None, sa_column=sa.Column(sa.DateTime(timezone=True)))
