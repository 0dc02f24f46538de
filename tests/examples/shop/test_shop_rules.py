"""The shop's rules: search words, money, quantities, what people say about themselves."""

from __future__ import annotations

from decimal import Decimal

import pytest

from placet.tools import ToolError
from shop.catalogue import demo_catalogue
from shop.rules import (
    FOLD_FROM,
    FOLD_TO,
    NO_WORD,
    Contact,
    ProductStock,
    VariantStock,
    check_enough,
    checked_amount,
    clean,
    fold,
    search_terms,
)
from shop.texts import Text, in_language


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("  \n", ()),
        ("Red Shoes", ("red", "shoe")),
        ("a pair of red shoes for the beach", ("pair", "red", "shoe", "beach")),
        ("red RED réd", ("red",)),
        (
            "dresses watches boxes brushes accessories ties gas",
            ("dress", "watch", "box", "brush", "accessor", "tie", "gas"),
        ),
        ("ayakkabilar çantalar elbiseler dolar", ("ayakkabi", "canta", "elbise", "dolar")),
        ("İPEK ŞAL", ("ipek", "sal")),
        ("t-shirt_XL", ("t", "shirt", "xl")),
        ("the", ("the",)),
        ("?!", (NO_WORD,)),
    ],
)
def test_search_text_becomes_the_beginnings_of_its_telling_words(text: str, terms: tuple[str, ...]) -> None:
    """Case, accents, plurals and fillers do not matter; text without a word finds nothing."""
    assert terms == search_terms(text)


def test_folding_tables_are_of_one_length_and_fold_to_small_ascii() -> None:
    """PostgreSQL's translate() would silently drop a letter without a partner."""
    assert len(FOLD_FROM) == len(FOLD_TO)
    assert FOLD_TO.isascii()
    assert FOLD_TO.islower()


@pytest.mark.parametrize("text", ["ISPARTA", "İSPARTA", "ısparta", "isparta", "I\u0307sparta", "ＩＳＰＡＲＴＡ"])  # noqa: RUF001
def test_every_spelling_of_i_folds_to_one_letter(text: str) -> None:
    """Turkish has two letters i, and keyboards and programs mix them up."""
    assert "isparta" == fold(text)


@pytest.mark.parametrize(("given", "exact"), [("299", "299.00"), ("0.01", "0.01"), ("9999999999.99", "9999999999.99")])
def test_payable_amount_gets_two_decimals(given: str, exact: str) -> None:
    """An amount is exact, whatever way it was written."""
    assert exact == str(checked_amount(Decimal(given)))


def test_amount_of_a_float_keeps_its_cents_or_is_refused() -> None:
    """0.1 + 0.2 is not silently made 0.30."""
    with pytest.raises(ToolError, match="at most two decimals"):
        checked_amount(Decimal(str(0.1 + 0.2)))


def test_quantity_over_the_limit_is_refused_even_when_the_stock_would_do() -> None:
    """A cart line is bounded."""
    product = ProductStock("p", "Pen", Decimal(1), "TRY", stock=1_000, variants=())

    check_enough(product, None, wanted=99)
    with pytest.raises(ToolError) as caught:
        check_enough(product, None, wanted=100)
    assert "invalid_quantity" == caught.value.code


def test_stock_of_a_product_with_variants_is_that_of_the_variant() -> None:
    """The product's own number does not count once it has variants."""
    product = ProductStock("p", "Pen", Decimal(1), "TRY", stock=50, variants=(VariantStock("p-red", "red", 1),))

    check_enough(product, "p-red", wanted=1)
    with pytest.raises(ToolError) as caught:
        check_enough(product, "p-red", wanted=2)
    assert {"available": 1} == caught.value.data


@pytest.mark.parametrize(
    ("text", "kept"),
    [(None, None), ("", None), (" \t\n", None), (" a\x00b\u202ec ", "abc"), ("two\nlines", "two\nlines")],
)
def test_text_loses_what_cannot_be_seen(text: str | None, kept: str | None) -> None:
    """Control characters and direction marks could make stored text read differently."""
    assert kept == clean(text)


def test_known_fields_are_named_without_their_values() -> None:
    """The model learns which details are on file, not what they are."""
    assert ["email", "note"] == Contact(email="ada@example.org", note="x").known()


@pytest.mark.parametrize("language", ["de", "", "en-GB"])
def test_language_nobody_speaks_falls_back_to_english(language: str) -> None:
    """A visitor always reads something."""
    assert "Your contact details are saved." == in_language(Text.CONTACT_SAVED, language)


@pytest.mark.parametrize("text", list(Text))
def test_every_text_exists_in_every_language(text: Text) -> None:
    """No language lacks a text, and none is a copy of another."""
    assert in_language(text, "en") != in_language(text, "tr")


def test_demo_catalogue_has_what_the_demo_promises() -> None:
    """Around thirty products: red shoes under 500, variants, sales, things sold out, ids used once."""
    products = demo_catalogue().products
    red_shoes = [each for each in products if each.colour == "Red" and each.category == "Shoes" and each.price < 500]

    assert len({each.id for each in products}) == len(products) >= 30
    assert len(red_shoes) >= 3
    assert any(each.list_price for each in products)
    assert any(each.stock == 0 and not each.variants for each in products)
    assert any(each.variants and not any(variant.stock for variant in each.variants) for each in products)
